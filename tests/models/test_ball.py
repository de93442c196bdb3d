"""A ball of numbers beside levels and gaps: an adversary searches for rows that break its sensitivity."""

import itertools
import math
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

import equipoise as eq
from equipoise.agreement.explanation import explain
from equipoise.errors import AgreementError
from equipoise.models import GRID, UNIT, Layout
from equipoise.models.coding import Coding
from equipoise.models.regression import norm_ball
from equipoise.party import statistics
from equipoise.party.statistics import exact_statistic

Floats = NDArray[np.float64]

NUMBERS = ", ".join(f'{{ name = "x{k}", bounds = [-1, 1] }}' for k in range(3))
BINARY = '{ name = "b", kind = "binary", labels = ["no", "yes"] }'
CATEGORY = '{ name = "c", kind = "category", levels = ["p", "q", "r"] }'
GAPS = '{ name = "g", bounds = [-1, 1], missing = "indicator" }'
SETTINGS = {
    "numbers": (NUMBERS, 1.2),
    "a binary first": (f"{BINARY}, {NUMBERS}", 1.0),
    "levels between": (f"{CATEGORY}, {NUMBERS}, {BINARY}", 1.4),
    "gaps": (f"{GAPS}, {NUMBERS}, {CATEGORY}", 1.5),
    "small": (f"{NUMBERS}, {BINARY}", 0.5),
}


def agreed(features: str, radius: float, kind: str = "linear") -> eq.Agreement:
    target = '{ name = "y", bounds = [-1, 1] }' if kind == "linear" else '{ name = "y", labels = ["no", "yes"] }'
    return eq.Agreement.parse(
        f'format = 3\n[model]\nkind = "{kind}"\nnorm_bound = {radius}\nfeatures = [{features}]\ntarget = {target}\n'
        '[privacy]\nmax_epsilon = 2.0\n[[parties]]\nname = "north"\n'
    )


def random_cells(coding: Coding, rng: np.random.Generator) -> Floats:
    """Draw the coded terms of one row: numbers, often extreme; one level of each block or none; gaps."""
    row = np.zeros(len(coding.terms))
    row[list(coding.numbers)] = rng.choice([-1, 0, 1, rng.uniform(-1, 1)], size=len(coding.numbers))
    for block in coding.blocks:
        place = rng.integers(len(block) + 1)
        if place < len(block):
            row[block[place]] = 1
    for number, indicator in coding.gaps:
        row[number] *= 1 - row[indicator]
    return row


def pulled(layout: Layout, row: Floats) -> Floats:
    assert layout.squared_radius is not None
    places, radius = list(layout.ball_columns), math.sqrt(layout.squared_radius) / GRID
    found = row.copy()
    found[places] *= min(1.0, radius / max(float(np.linalg.norm(row[places])), 1e-300))
    return found


def statistic(layout: Layout, row: Floats) -> Floats:
    """Add up one row: weighted entries, in units."""
    entries = layout.entries
    second = [1.0 if entry.second is None else row[entry.second] for entry in entries]
    weighted = [entry.weight * row[entry.first] for entry in entries]
    return np.asarray(np.array(weighted) * np.array(second))


def largest_change(layout: Layout, coding: Coding, kind: str, *, pulls: bool = True, starts: int = 60) -> float:
    """Climb from many pairs of rows, one cell at a time; return the largest change found, in the sensitivity."""
    rng = np.random.default_rng(1)

    def whole(row: Floats, target: float) -> Floats:
        return np.append(pulled(layout, row) if pulls else row, target)

    best = 0.0
    for _ in range(starts):
        pair = [random_cells(coding, rng), random_cells(coding, rng)]
        targets = [1.0, -1.0] if rng.uniform() < 0.8 or kind == "logistic" else [1.0, 1.0]

        def change(rows: list[Floats], targets: list[float] = targets) -> float:
            one, other = (statistic(layout, whole(row, target)) for row, target in zip(rows, targets, strict=True))
            return float(np.linalg.norm(one - other)) * UNIT / layout.sensitivity

        reached = change(pair)
        for _ in range(150):
            place = rng.integers(2)
            trial, fresh = list(pair), random_cells(coding, rng)
            some = rng.uniform(size=len(fresh)) < 0.4
            for block in coding.blocks:  # a block is exchanged as a whole, and a number with its gap
                some[list(block)] = some[block[0]]
            for number, indicator in coding.gaps:
                some[number] = some[indicator]
            trial[place] = np.where(some, fresh, pair[place])
            if (found := change(trial)) > reached:
                reached, pair = found, trial
        best = max(best, reached)
    return best


@pytest.mark.parametrize(("name", "kind"), [*itertools.product(SETTINGS, ("linear", "logistic"))])
def test_no_pair_of_rows_beats_the_bound(name: str, kind: str) -> None:
    agreement = agreed(*SETTINGS[name], kind)
    coding = agreement.model.coding  # type: ignore[attr-defined]
    assert 0.8 < largest_change(agreement.layout, coding, kind) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["levels between", "gaps", "a binary first"])
def test_the_adversary_finds_levels_that_are_not_counted(name: str) -> None:
    """Broken: the bound takes the ball to hold of all features."""
    agreement = agreed(*SETTINGS[name])
    coding, radius = agreement.model.coding, SETTINGS[name][1]  # type: ignore[attr-defined]
    assert agreement.layout.sensitivity == norm_ball(radius, coding.directions, len(coding.blocks)).sensitivity
    square = radius**2
    claimed = math.sqrt((2 + square) ** 2 + min(square, coding.directions - square))
    true = norm_ball(radius, coding.directions, len(coding.blocks)).sensitivity / UNIT / 8
    assert largest_change(agreement.layout, coding, "linear") * true > claimed


def test_the_adversary_finds_rows_that_are_not_pulled() -> None:
    agreement = agreed(*SETTINGS["levels between"])
    assert largest_change(agreement.layout, agreement.model.coding, "linear", pulls=False) > 1  # type: ignore[attr-defined]


def table(rows: list[tuple[float, float, float, str, str, float]]) -> dict[str, list[object]]:
    return {
        name: list(column)
        for name, column in zip(("x0", "x1", "x2", "b", "c", "y"), zip(*rows, strict=True), strict=True)
    }


def test_rows_beyond_the_ball_are_pulled_onto_it_and_levels_stay() -> None:
    layout = agreed(f"{CATEGORY}, {NUMBERS}, {BINARY}", 1.2).layout
    names = [entry.name for entry in layout.entries]
    values = exact_statistic(layout, table([(1, 1, 1, "yes", "q", 1.0)])).values
    sums = dict(zip(names, np.array(values) / [UNIT * entry.weight for entry in layout.entries], strict=True))
    assert sums["b=yes"] == sums["c=q"] == 1.0
    assert sums["b=yes × y"] == 1.0
    assert sums["x0"] == pytest.approx(1.2 / math.sqrt(3), abs=1e-4)
    squares = sum(sums[f"x{k} × x{k}"] for k in range(3))
    assert squares <= 1.2**2
    assert squares == pytest.approx(1.2**2, abs=1e-4)


def test_the_release_itself_stays_within_the_sensitivity() -> None:
    """Through the code of releases; with the ball left out there, it does not."""
    layout = agreed(f"{CATEGORY}, {NUMBERS}, {BINARY}", 0.5).layout
    pair = [[(1, 1, 0, "yes", "q", 1.0)], [(0, -1, 1, "no", "r", -1.0)], [(1, 1, 1, "yes", "q", 1.0)]]

    def change() -> float:
        sums = [exact_statistic(layout, table(rows), threads=1).values for rows in pair]  # type: ignore[arg-type]
        return max(
            math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True))) for x, y in itertools.combinations(sums, 2)
        )

    assert change() <= layout.sensitivity
    with mock.patch.object(statistics, "_clip_to_ball"):
        assert change() > layout.sensitivity


def test_a_ball_is_suggested_where_it_helps() -> None:
    many = ", ".join(f'{{ name = "x{k}", typical = [-1, 1] }}' for k in range(10))
    text = (
        'format = 3\n[model]\nkind = "linear"\n{ball}features = [{features}]\n'
        'target = {{ name = "y", typical = [-1, 1] }}\n[privacy]\nmax_epsilon = 2.0\n[[parties]]\nname = "north"\n'
    )
    (said,) = explain(eq.Agreement.parse(text.format(features=many, ball=""))).cautions
    assert said.startswith("norm_bound = 2.3 would lower the noise of sums and products to 6")
    rng = np.random.default_rng(0)
    within = np.linalg.norm(np.clip(rng.normal(size=(20_000, 10)) / 2, -1, 1), axis=1) <= 2.3
    assert within.mean() >= 0.97
    assert not explain(eq.Agreement.parse(text.format(features=many, ball="norm_bound = 2.3\n"))).cautions
    few = ", ".join(f'{{ name = "x{k}", typical = [-1, 1] }}' for k in range(2))
    assert not explain(eq.Agreement.parse(text.format(features=few, ball=""))).cautions


def test_a_ball_that_does_nothing_is_refused() -> None:
    for radius in (0.1, 1.8):
        with pytest.raises(AgreementError, match=r"must be at least 0.25 and below sqrt\(3\)"):
            agreed(f"{NUMBERS}, {BINARY}", radius)
