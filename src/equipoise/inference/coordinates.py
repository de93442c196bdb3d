"""What a model says about its coordinates unless it knows better."""

from abc import ABC, abstractmethod
from typing import Any

from jax import Array


class PlainCoordinates(ABC):
    """The model's own parameters are its first coordinates, and chains move in the coordinates as they are."""

    @property
    @abstractmethod
    def focus(self) -> int:
        """Number of the model's own parameters."""

    @property
    def plain(self) -> bool:
        """Whether all this is so."""
        return True

    def bend(self, prior: Any, position: Array) -> Array:  # noqa: ARG002  (others need it)
        """The chains' coordinates of a position."""
        return position

    def unbend(self, prior: Any, bent: Array) -> Array:  # noqa: ARG002
        """The inverse of `bend`."""
        return bent

    def own(self, prior: Any, position: Array) -> Array:  # noqa: ARG002
        """Coordinates of the model's own parameters, N(0, I) under the prior."""
        return position[: self.focus]
