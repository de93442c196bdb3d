"""Nearest neighbours by products of matrices are a tree's, also where single precision cannot tell them apart."""

from unittest import mock

import numpy as np
import pytest
from scipy.spatial import cKDTree

from equipoise._util.arrays import Floats
from equipoise.valuation import neighbours

NUMBER = 5


def to_neighbour(points: Floats) -> Floats:
    """By a tree, among the points themselves."""
    return np.asarray(cKDTree(points).query(points, k=NUMBER)[0])[:, -1]


def clouds(kind: str, width: int) -> tuple[Floats, Floats]:
    """Points, and others to look for their neighbours among."""
    rng = np.random.default_rng(width)
    points, among = rng.normal(size=(700, width)), rng.normal(size=(3_000, width))
    if kind == "skewed":
        return np.exp(points), np.exp(2 * among)
    if kind == "far away":
        return points + 300.0, among + 300.0
    if kind == "in clumps":
        centres = 1e3 * rng.normal(size=(4, width))
        return points + centres[rng.integers(4, size=700)], 1e-3 * among + centres[rng.integers(4, size=3_000)]
    if kind == "on a line":
        return points[:, :1] * np.ones(width), among[:, :1] * np.ones(width)
    return points, among


@pytest.mark.parametrize("width", [neighbours.WIDE, 24, 60])
@pytest.mark.parametrize("kind", ["normal", "skewed", "far away", "in clumps", "on a line"])
def test_neighbours_are_those_of_a_tree(kind: str, width: int) -> None:
    points, among = clouds(kind, width)
    distance, index = neighbours.nearest(among, points, NUMBER)
    exact, places = cKDTree(among).query(points, k=NUMBER)
    np.testing.assert_allclose(distance, exact, rtol=1e-12)
    np.testing.assert_array_equal(index, places)


def test_nearly_all_are_found_by_products() -> None:
    points, among = clouds("normal", 24)
    with mock.patch.object(neighbours, "_by_tree", side_effect=AssertionError("asked the tree")):
        neighbours.nearest(among, points, NUMBER)
    with mock.patch.object(neighbours, "_by_tree", wraps=neighbours._by_tree) as tree:
        points, among = clouds("far away", 24)
        neighbours.nearest(among, points, NUMBER)
    assert tree.called


def test_without_the_bound_on_rounding_neighbours_are_missed() -> None:
    """So that the tests above would notice."""
    points, among = clouds("in clumps", 24)
    with mock.patch.object(np, "finfo", return_value=mock.Mock(eps=0.0)):
        distance, _ = neighbours.nearest(among, points, NUMBER)
    exact, _ = cKDTree(among).query(points, k=NUMBER)
    assert np.any(distance > exact * (1 + 1e-9))


@pytest.mark.parametrize("width", [2, 12])
def test_the_nearest_of_one_s_own_is_oneself_and_equal_points_do_not_count(width: int) -> None:
    points = np.random.default_rng(0).normal(size=(2_000, width))
    points[:40] = points[0]
    found = neighbours.distances(points, points, NUMBER)
    exact = to_neighbour(points)
    np.testing.assert_allclose(found[40:], exact[40:], rtol=1e-12)
    np.testing.assert_allclose(found[:40], np.sort(np.linalg.norm(points - points[0], axis=1))[40], rtol=1e-12)
    with pytest.raises(ValueError, match="too many draws are equal"):
        neighbours.distances(np.ones((300, width)), np.ones((3, width)), NUMBER)


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e20])
def test_what_single_precision_cannot_hold_is_left_to_the_tree(scale: float) -> None:
    points = scale * np.random.default_rng(0).normal(size=(2_000, 12))
    np.testing.assert_allclose(neighbours.distances(points, points, NUMBER), to_neighbour(points))


def test_no_points_have_no_neighbours_and_no_number_is_refused() -> None:
    points = np.random.default_rng(0).normal(size=(2_016, 12))
    assert neighbours.nearest(points, points[:0], NUMBER)[0].shape == (0, NUMBER)
    points[7, 3] = np.nan
    with pytest.raises(ValueError, match="finite"):
        neighbours.nearest(points, points, NUMBER)
