"""Control variates: functions of a draw whose mean is 0 for certain, fitted to a term whose mean is wanted.

Of a density on ℝᵈ with score s = ∇ log π(y), E[∇·f + f·s] = 0 for every smooth vector field f that does not grow too
fast (Stein's identity). Constant and linear fields give s and y sᵀ + I. In whitened coordinates a posterior is near
N(0, I), where s = −y: the two then span all polynomials of second degree, and so the log density itself, whose mean a
value is. What a fit leaves of the terms is what the posterior differs from a normal one by.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats

RIDGE = 1e-8
DRAWS_EACH = 16  # draws for every coefficient; with fewer, products of different coordinates are left out, then all


def controlled(terms: Floats, scores: Floats, terms_of: Callable[[NDArray[np.intp]], Floats]) -> Floats:
    """Terms [chains, draws] less their control variates, with the mean they have; `scores` [chains, draws, 2, d].

    Coefficients are fitted by least squares to one half of the chains and used for the other. `terms_of` takes places
    of chains and gives the terms as they follow from these alone: fitted to anything that depends on the other half,
    coefficients would follow its luck, and bias the mean.
    """
    functions = _functions(scores.reshape(-1, *scores.shape[2:]), terms.size)
    if functions is None or len(terms) < 2:
        return terms
    functions = functions.reshape(*terms.shape, -1)
    left: Floats = np.empty_like(terms)
    first, second = np.array_split(np.arange(len(terms)), 2)
    for fitted, used in ((first, second), (second, first)):
        rows, values = functions[fitted].reshape(-1, functions.shape[2]), terms_of(fitted).reshape(-1)
        rows = rows - rows.mean(axis=0)
        gram = rows.T @ rows
        gram[np.diag_indices(len(gram))] *= 1 + RIDGE  # functions may be nearly multiples of each other
        slopes = np.linalg.solve(gram, rows.T @ (values - values.mean()))
        left[used] = terms[used] - functions[used] @ slopes
    return left


def _functions(scores: Floats, draws: int) -> Floats | None:
    """Functions of mean 0 [draws, functions], as many as so many draws can tell the coefficients of."""
    along, score = scores[:, 0], scores[:, 1]
    dimension = along.shape[1]
    rows, columns = np.triu_indices(dimension)
    if draws < DRAWS_EACH * (dimension + len(rows)):
        rows, columns = np.diag_indices(dimension)
    if draws < DRAWS_EACH * (dimension + len(rows)):
        return None
    products = along[:, rows] * score[:, columns] + along[:, columns] * score[:, rows] + 2.0 * (rows == columns)
    return np.concatenate([score, products], axis=1)
