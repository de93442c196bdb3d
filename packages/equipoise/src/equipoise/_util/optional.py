"""Libraries that an extra of the distribution installs, because few people need them."""

from importlib import import_module
from typing import Any

from equipoise.errors import EquipoiseError


def import_optional(library: str, *, extra: str) -> Any:
    """Import a library, or say which extra installs it.

    Raises
    ------
    EquipoiseError
        It is not installed.
    """
    try:
        return import_module(library)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise EquipoiseError(
            f"this needs {library}, which is not installed; install it with `pip install 'equipoise[{extra}]'`"
        ) from error
