"""The kinds of models as the engine has them, each in a file called after it; `equipoise.models` lists the kinds."""

from importlib import import_module
from typing import Any

from equipoise.inference.models.base import Family


def build(agreed: Any, slots: int) -> tuple[Family[Any], Any]:
    """The engine's model for so many parties, and its prior as arrays."""
    built: tuple[Family[Any], Any] = import_module(f"{__name__}.{agreed.kind}").build(agreed, slots)
    return built
