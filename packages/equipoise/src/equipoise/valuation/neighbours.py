"""Nearest neighbours among thousands of draws: by a tree in few dimensions, by products of matrices in many.

From about ten dimensions on a k-d tree looks at nearly every point, and a matrix product looks at all of them faster:
|x − y|² = |x|² − 2 (x·y − ½|y|²). Products are in single precision and only choose candidates, whose distances are then
computed exactly. Rounding moves x·y − ½|y|² by a known bound at most; where that could hide a neighbour behind the
candidates, the tree is asked after all.
"""

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from threadpoolctl import threadpool_limits

from equipoise._util.arrays import Floats
from equipoise._util.cores import usable_cores

WIDE = 10  # dimensions, from which on products are faster than a tree (`benchmarks/neighbours.py`)
SPARE = 4  # candidates on top of the neighbours asked for
AT_ONCE = 256  # points
SMALLEST, LARGEST = 1e-15, 1e15  # of the largest coordinate, so that single precision can hold squares
NEVER = -1e37  # a score that is below all others, and still a number
LAYERS = 32  # that points are dealt into: of each pile only the nearest counts, until few piles are left

Neighbours = tuple[Floats, NDArray[np.intp]]


def nearest(among: Floats, points: Floats, number: int) -> Neighbours:
    """Return distances to the nearest of `among` [n, d], and their indices, for `points` [m, d]: [m, number]."""
    narrow, few = among.shape[1] < WIDE, len(among) <= LAYERS * (number + SPARE)
    if narrow or few or not (_in_range(among) and _in_range(points)):
        return _by_tree(among, points, number)
    return _by_products(among, points, number)


def distances(among: Floats, points: Floats, neighbour: int) -> Floats:
    """Return the distance to the n-th nearest, or to the first after it that is not at distance 0."""
    distance = nearest(among, points, neighbour)[0][:, -1].copy()
    while np.any(distance == 0):
        neighbour *= 2
        if neighbour > len(among):
            raise ValueError("too many draws are equal to estimate a density; the chains have hardly moved")
        zero = np.flatnonzero(distance == 0)
        further = nearest(among, points[zero], neighbour)[0]
        distance[zero] = further[np.arange(len(zero)), np.argmax(further > 0, axis=1)]
    return distance


def _in_range(points: Floats) -> bool:
    return bool(SMALLEST <= np.abs(points).max(initial=0.0) <= LARGEST)  # not so if there is a NaN, or nothing


def _by_tree(among: Floats, points: Floats, number: int) -> Neighbours:
    distance, index = cKDTree(among).query(points, k=np.arange(1, number + 1), workers=_threads())
    return np.asarray(distance), np.asarray(index)


def _by_products(among: Floats, points: Floats, number: int) -> Neighbours:
    wanted = number + SPARE
    piles = -(-len(among) // LAYERS)
    squares = 0.5 * np.einsum("ij,ij->i", among, among)
    table = np.zeros((piles * LAYERS, among.shape[1] + 1), np.float32)
    table[: len(among), :-1], table[: len(among), -1] = among, -squares
    table[len(among) :, -1] = NEVER
    asked = np.column_stack([points, np.ones(len(points))]).astype(np.float32)
    layers = piles * np.arange(LAYERS)[:, None]

    def some(first: int) -> tuple[Floats, NDArray[np.intp]]:
        """Return exact distances to candidates, in order, and their indices."""
        score = asked[first : first + AT_ONCE] @ table.T
        # The nearest w points are in the w piles whose best are nearest: each such pile holds one of them at least.
        best = _largest(score.reshape(-1, LAYERS, piles).max(axis=1), wanted)
        inside = (layers + best[:, None, :]).reshape(len(best), -1)
        chosen = _largest(np.take_along_axis(score, inside, axis=1), wanted)
        found = np.take_along_axis(inside, chosen, axis=1)
        apart = np.linalg.norm(among[found] - points[first : first + AT_ONCE, None], axis=2)
        order = np.argsort(apart, axis=1)
        return np.take_along_axis(apart, order, axis=1), np.take_along_axis(found, order, axis=1)

    parts = _for_each(some, range(0, len(points), AT_ONCE))
    distance, index = (np.concatenate(both) for both in zip(*parts, strict=True))

    # A point that is no candidate has no larger score than any of these, so that its squared distance is that of the
    # farthest of them at least, less four times what rounding can do to a score.
    lengths = np.linalg.norm(points, axis=1)
    largest = float(np.sqrt(2 * squares.max()))
    rounding = (among.shape[1] + 2) * np.finfo(np.float32).eps * (lengths * largest + largest**2)
    doubtful = np.flatnonzero(distance[:, -1] ** 2 - distance[:, number - 1] ** 2 < 4 * rounding)
    distance, index = distance[:, :number], index[:, :number]
    if len(doubtful):
        distance[doubtful], index[doubtful] = _by_tree(among, points[doubtful], number)
    return distance, index


def _largest(values: NDArray[np.float32], number: int) -> NDArray[np.intp]:
    """Return indices of the largest in each row, in any order."""
    return np.argpartition(values, values.shape[1] - number, axis=1)[:, -number:]


def _for_each(
    work: Callable[[int], tuple[Floats, NDArray[np.intp]]], places: range
) -> list[tuple[Floats, NDArray[np.intp]]]:
    if (threads := _threads()) == 1:
        return [work(place) for place in places]
    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, places))


def _threads() -> int:
    """Return the threads for a search: all cores, unless other processes or threads search at the same time."""
    alone = threading.current_thread() is threading.main_thread() and multiprocessing.parent_process() is None
    return usable_cores() if alone else 1
