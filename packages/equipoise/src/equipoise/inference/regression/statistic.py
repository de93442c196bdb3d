"""Places of a regression's statistic: moments of the features, and moments with the target.

Write u = (terms, 1) for a row's terms with the constant last. Feature moments m are the entries of E[u uᵀ] that are not
known beforehand; of a 0/1 term x² = x, and products of two terms that are never both other than 0 are 0. So

    E[u uᵀ] = M(m)

is affine in m. Target moments are E[y u], and in linear regression E[y²] besides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats

if TYPE_CHECKING:
    from equipoise.models.regression import Regression


@dataclass(frozen=True)
class MomentMap:
    """The order of a statistic's entries in which the feature moments come first.

    Attributes
    ----------
    feature_pairs : array [feature moments, 2]
        The two factors of each feature moment among (terms, 1).
    order : array [entries]
        Where each entry of this order stands in the statistic: feature moments, E[y u], and E[y²] if there is one.
    levels : array [terms]
        Terms that are 0 or 1.
    has_square : bool
        Whether E[y²] is among the entries.
    """

    feature_pairs: NDArray[np.intp]
    order: NDArray[np.intp]
    levels: NDArray[np.bool_]
    has_square: bool

    @classmethod
    def of(cls, model: "Regression") -> "MomentMap":
        """Build the map from the layout of an agreed regression."""
        width = len(model.coding.terms)
        constant, target = width, width + 1

        def factor(column: int | None) -> int:
            """Return the index among (terms, 1, y) of a column of the layout, whose last is the target."""
            return constant if column is None else target if column == width else column

        pairs = [tuple(sorted((factor(entry.first), factor(entry.second)))) for entry in model.layout.entries]
        position = {pair: k for k, pair in enumerate(pairs)}
        features = [pair for pair in pairs if pair[1] != target]
        targets = [(i, target) for i in range(width + 1)]
        has_square = (target, target) in position
        if has_square:
            targets.append((target, target))
        order = [position[pair] for pair in (*features, *targets)]
        levels = np.zeros(width, bool)
        levels[list(model.coding.level_terms)] = True
        return cls(np.array(features, np.intp).reshape(-1, 2), np.array(order, np.intp), levels, has_square)

    @property
    def width(self) -> int:
        """The number of terms."""
        return len(self.levels)

    @property
    def features(self) -> int:
        """The number of feature moments."""
        return len(self.feature_pairs)

    @property
    def targets(self) -> int:
        """The number of target moments."""
        return self.width + 1 + self.has_square

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """The index of the feature moment at each element of E[u uᵀ]; `features` stands for 0, `features + 1` for 1."""
        size = self.width + 1
        places = np.full((size, size), self.features, np.intp)
        for k, (i, j) in enumerate(self.feature_pairs):
            places[i, j] = places[j, i] = k
        for i in np.flatnonzero(self.levels):
            places[i, i] = places[i, size - 1]
        places[-1, -1] = self.features + 1
        return places

    @cached_property
    def pairs(self) -> NDArray[np.intp]:
        """The two factors of every entry among (terms, 1, y), in the order of this map."""
        width = self.width
        with_target = [(i, width + 1) for i in range(width + 1)]
        square = [(width + 1, width + 1)] if self.has_square else []
        return np.concatenate([self.feature_pairs, np.array([*with_target, *square], np.intp)])

    def second_moments(self, features: Floats) -> Floats:
        """Arrange feature moments [..., features] as matrices E[u uᵀ] [..., terms + 1, terms + 1]."""
        known = np.broadcast_to([0.0, 1.0], (*features.shape[:-1], 2))
        return np.concatenate([features, known], axis=-1)[..., self.places]

    def ordered(self, statistic: Floats | Sequence[float]) -> Floats:
        """Put entries [..., entries] of a statistic in the order of this map."""
        return np.asarray(statistic, float)[..., self.order]
