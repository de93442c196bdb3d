"""Inference's half of each kind of model, in a file called after it; `equipoise.models` lists the kinds."""

from importlib import import_module
from typing import Any

from equipoise.inference.models.base import Conjugate
from equipoise.models.base import Model


def conjugate_of(agreed: Model) -> Conjugate[Any]:
    """Return inference's half of an agreed model whose prior is conjugate to exact statistics."""
    built: Conjugate[Any] = import_module(f"{__name__}.{agreed.kind}").HALF(agreed)
    return built
