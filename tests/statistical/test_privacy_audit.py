"""The real release passes the audit; releases broken in ways that have happened elsewhere do not."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow.csv as pa_csv
import pytest

import coded
import equipoise.party.release as release_module
from builders import bernoulli, categorical, exponential, gaussian, linear, logistic, poisson
from equipoise.agreement import Agreement
from equipoise.models import UNIT, CodedColumn, Layout, ScaledColumn
from equipoise.models.coding import Coding
from equipoise.models.layout import BASE_WEIGHT
from equipoise.party.individuals import ContributionBounding
from equipoise.party.mechanism import perturb
from equipoise.party.release import release
from equipoise.party.statistics import ExactStatistic, exact_statistic
from equipoise.party.stream import Batch
from equipoise.protocol.submission import Submission
from statistical.auditor import Pair, audit, exact_of, objections, promised_sigma

pytestmark = pytest.mark.statistical

EPSILON = 1.0  # at order 2: ρ = ½, μ = 1

MORE_ROWS = 30


def pair(
    agreed: Agreement, sensitivity: float, row: dict[str, Any], other: dict[str, Any], rest: dict[str, Any]
) -> Pair:
    """Tables whose first rows differ in the worst way, beyond the bounds where there are any; the rest is alike."""
    table, neighbour = ({name: [first[name]] + [rest[name]] * MORE_ROWS for name in first} for first in (row, other))
    return Pair(agreed, table, neighbour, sensitivity)


# Signs (1, x, y) = (1, 1, 1, 1) and (1, -1, 1, -1) are orthogonal; 99 is far beyond every bound and must be clipped.
LINEAR = pair(
    linear(2),
    4.0,
    {"x0": 99, "x1": 99, "y": 99},
    {"x0": -99, "x1": 99, "y": -99},
    {"x0": 0.5, "x1": -0.7, "y": 6.0},
)

# Five directions: 1, number, category, number with gaps, target. a = 14/8 and 2 are the weights of squares.
CODED: dict[Literal["linear", "logistic"], float] = {
    "linear": math.sqrt(5**2 + (14 / 8) ** 2 - 1),
    "logistic": math.sqrt(5**2 + 2**2 - 1),
}
CODED_FEATURES = """
  { name = "n", bounds = [-2, 2] },
  { name = "c", kind = "category", levels = ["a", "b", "c"], other = true, missing = "indicator" },
  { name = "g", bounds = [0.1, 10], transform = "log", missing = "indicator" },
"""


def coded_pair(kind: Literal["linear", "logistic"], rest_of_g: float | None = None) -> Pair:
    """A gap against a value outside of the logarithm's domain, beside an unlisted level."""
    high, low = ("yes", "no") if kind == "logistic" else (99, -99)
    return pair(
        coded.agreement(kind, CODED_FEATURES),
        CODED[kind],
        {"n": 99, "c": "unlisted", "g": -5.0, "outcome": high},
        {"n": -99, "c": "unlisted", "g": None, "outcome": low},
        {"n": 0.5, "c": "c", "g": rest_of_g, "outcome": low},
    )


def three_with_gaps() -> Pair:
    """Gaps in every feature against the upper bounds of all."""
    features = ", ".join(f'{{ name = "g{k}", bounds = [-1, 1], missing = "indicator" }}' for k in range(3))
    there, gone = ({f"g{k}": cell for k in range(3)} for cell in (99, None))
    return pair(
        coded.agreement("linear", features),
        math.sqrt(5**2 + 3 * ((14 / 8) ** 2 - 1)),
        {**there, "outcome": 99},
        {**gone, "outcome": -99},
        {**there, "outcome": 1.0},
    )


PAIRS: dict[str, Pair] = {
    "linear": LINEAR,
    "linear in a ball": pair(
        linear(4, norm_bound=math.sqrt(2)),
        math.sqrt(18),
        {"x0": 1e6, "x1": 1e6, "x2": 0, "x3": 0, "y": 1e6},
        {"x0": 0, "x1": 0, "x2": 1e6, "x3": 1e6, "y": -1e6},
        {"x0": 0.5, "x1": -0.7, "x2": 0.1, "x3": 0.2, "y": 6.0},
    ),
    "logistic": pair(
        logistic(2),
        4.0,
        {"x0": 1e6, "x1": 1e6, "y": "yes"},
        {"x0": 1e6, "x1": -1e6, "y": "no"},
        {"x0": 0.5, "x1": -0.7, "y": "no"},
    ),
    "bernoulli": pair(bernoulli(), 1.0, {"y": 1}, {"y": 0}, {"y": 1}),
    "categorical": pair(categorical(), math.sqrt(2), {"y": "a"}, {"y": "d"}, {"y": "b"}),
    "poisson": pair(poisson(), 2.0, {"y": 900}, {"y": 0}, {"y": 3}),
    "exponential": pair(exponential(), 2.0, {"y": 1e6}, {"y": -1e6}, {"y": 0.3}),
    "gaussian": pair(gaussian(), 2.0, {"y": 1e6}, {"y": -1e6}, {"y": 0.3}),
    **{f"{kind}, coded": coded_pair(kind) for kind in CODED},
}


def releaser(agreed: Agreement, epsilon: float = EPSILON) -> Callable[[Path, Path], Submission]:
    return lambda source, ledger: release(
        agreed, source, party=agreed.parties[0].name, epsilon=epsilon, ledger=ledger, allow_clipping=True
    )


@pytest.mark.parametrize(
    "times",
    [50, pytest.param(300, marks=pytest.mark.slow), pytest.param(2_500, marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize("name", PAIRS)
def test_the_real_release_passes(name: str, times: int, tmp_path: Path) -> None:
    case = PAIRS[name]
    assert audit(case, EPSILON, releaser(case.agreed), times, tmp_path) == set()


def half_sigma(values: Any, *, sensitivity: int, zcdp: float) -> list[int]:
    return perturb(values, sensitivity=sensitivity // 2, zcdp=zcdp)


def nine_tenths_sigma(values: Any, *, sensitivity: int, zcdp: float) -> list[int]:
    return perturb(values, sensitivity=sensitivity * 9 // 10, zcdp=zcdp)


def add_or_remove_sensitivity(values: Any, *, sensitivity: int, zcdp: float) -> list[int]:
    """The largest norm of one row's statistic, right for adding or removing a row but not for replacing one."""
    weights = [8] * 9
    weights[3] = weights[6] = weights[8] = 13
    return perturb(values, sensitivity=math.isqrt(sum(w * w for w in weights) * UNIT**2), zcdp=zcdp)


def inverted_ratio(values: Any, *, sensitivity: int, zcdp: float) -> list[int]:
    """σ² = ½(ε/λ)Δ²."""
    return perturb(values, sensitivity=sensitivity, zcdp=1 / zcdp)


def fixed_seed(values: Any, *, sensitivity: int, zcdp: float) -> list[int]:
    noise = np.random.default_rng(0).normal(0, sensitivity / math.sqrt(2 * zcdp), len(values))
    return [value + round(z) for value, z in zip(values, noise, strict=True)]


def one_draw_for_all_entries(values: Any, *, sensitivity: int, zcdp: float) -> list[int]:
    (noise,) = perturb([0], sensitivity=sensitivity, zcdp=zcdp)
    return [value + noise for value in values]


def one_entry_forgotten(values: Any, *, sensitivity: int, zcdp: float) -> list[int]:
    return [*perturb(values[:-1], sensitivity=sensitivity, zcdp=zcdp), values[-1]]


def no_clipping(cells: Any, lower: float, upper: float, out: Any) -> Any:
    return cells


def outliers_dropped(layout: Layout, source: Path, **_: Any) -> ExactStatistic:
    table = pa_csv.read_csv(source).to_pandas()
    limits = {
        column.name: (column.lower, column.upper) for column in layout.columns if isinstance(column, ScaledColumn)
    }
    inside = np.logical_and.reduce([table[name].between(*bounds) for name, bounds in limits.items()])
    return exact_statistic(layout, table[inside])


def bounds_from_data(layout: Layout, source: Path, **_: Any) -> ExactStatistic:
    table = pa_csv.read_csv(source).to_pandas()
    columns = tuple(
        ScaledColumn(column.name, float(table[column.name].min()), float(table[column.name].max()))
        for column in layout.columns
    )
    return exact_statistic(Layout(columns, layout.entries, layout.sensitivity), table)


# ε and the number of releases are chosen so that 1,500 simulated audits of each noise scale missed none: see `POWER`.
BROKEN_NOISE: dict[str, tuple[Callable[..., list[int]], float, int, set[str]]] = {
    "half sigma": (half_sigma, 4.0, 300, {"noise scale", "privacy loss"}),
    "0.9 sigma": (nine_tenths_sigma, 1.0, 260, {"noise scale"}),
    "add/remove sensitivity": (add_or_remove_sensitivity, 1.0, 600, {"noise scale"}),
    "lambda and epsilon inverted": (inverted_ratio, 0.5, 160, {"noise scale", "privacy loss"}),
    "fixed seed": (fixed_seed, 1.0, 50, {"repeats"}),
    "one draw for all entries": (one_draw_for_all_entries, 1.0, 50, {"repeats"}),
    "one entry forgotten": (one_entry_forgotten, 1.0, 50, {"noise scale"}),
}


MOST_RELEASES = dict.fromkeys(
    (
        "half sigma",
        "0.9 sigma",
        "add/remove sensitivity",
        "lambda and epsilon inverted",
        "bounds from data",
        "gaps cost nothing",
    ),
    pytest.mark.slow,
)


@pytest.mark.parametrize("name", [pytest.param(one, marks=MOST_RELEASES.get(one, ())) for one in BROKEN_NOISE])
def test_broken_noise_is_caught(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, epsilon, times, expected = BROKEN_NOISE[name]
    monkeypatch.setattr(release_module, "perturb", broken)
    assert expected <= audit(LINEAR, epsilon, releaser(LINEAR.agreed, epsilon), times, tmp_path)


# σ as a share of what is promised.
POWER = {
    "half sigma": 0.5,
    "0.9 sigma": 0.9,
    "add/remove sensitivity": math.sqrt(6 * 8**2 + 3 * 13**2) / 32,
    "lambda and epsilon inverted": 0.25,
}


@pytest.mark.parametrize("times", [40, pytest.param(1_500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", POWER)
def test_so_many_releases_are_enough(name: str, times: int) -> None:
    """Audits of as many simulated releases with such noise: chance lets none of them pass."""
    _, epsilon, releases, expected = BROKEN_NOISE[name]
    rng = np.random.default_rng(4)
    sigma = promised_sigma(LINEAR, epsilon)
    exact = [exact_of(LINEAR.agreed, table) for table in (LINEAR.table, LINEAR.neighbour)]
    for _ in range(times):
        outputs = [one + POWER[name] * sigma * rng.normal(size=(releases, len(sigma))) for one in exact]
        assert expected <= objections(LINEAR, epsilon, outputs, exact)


BROKEN_STATISTICS = {
    "outliers dropped": (outliers_dropped, "row count", 10),  # seen in a single release
    "bounds from data": (bounds_from_data, "privacy loss", 150),
}


@pytest.mark.parametrize("name", [pytest.param(one, marks=MOST_RELEASES.get(one, ())) for one in BROKEN_STATISTICS])
def test_broken_statistics_are_caught(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, expected, times = BROKEN_STATISTICS[name]
    monkeypatch.setattr(release_module, "exact_statistic", broken)
    assert expected in audit(LINEAR, EPSILON, releaser(LINEAR.agreed), times, tmp_path)


def unlisted_dropped(layout: Layout, source: Path, **_: Any) -> ExactStatistic:
    """Rows without an agreed level are left out: the count tells of them."""
    table = pa_csv.read_csv(source).to_pandas()
    levels = {one.name: one.labels for one in layout.columns if isinstance(one, CodedColumn) and one.other is not None}
    return exact_statistic(layout, table[np.logical_and.reduce([table[name].isin(levels[name]) for name in levels])])


def gaps_dropped(layout: Layout, source: Path, **_: Any) -> ExactStatistic:
    """Rows with a gap are left out, as `dropna` does."""
    return exact_statistic(layout, pa_csv.read_csv(source).to_pandas().dropna())


@pytest.mark.parametrize("broken", [unlisted_dropped, gaps_dropped])
@pytest.mark.parametrize("kind", CODED)
def test_dropped_rows_are_caught(
    kind: Literal["linear", "logistic"], broken: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = coded_pair(kind, rest_of_g=1.0)
    monkeypatch.setattr(release_module, "exact_statistic", broken)
    assert "row count" in audit(case, EPSILON, releaser(case.agreed), 10, tmp_path)


# Noise without the cost of blocks is 0.81 of what is promised, without that of gaps 0.895, which takes more releases to
# see; of 1,500 simulated audits none missed either.
BROKEN_CODINGS: dict[str, tuple[Callable[[], Pair], type, str, Any, int]] = {
    "blocks cost nothing": (
        lambda: coded_pair("linear"),
        Coding,
        "directions",
        property(lambda one: len(one.numbers)),
        30,
    ),
    "gaps cost nothing": (
        three_with_gaps,
        Coding,
        "sensitivity",
        lambda one, _: (one.directions + 2) * BASE_WEIGHT * UNIT,
        120,
    ),
    "a number beside its indicator": (
        lambda: coded_pair("linear"),
        ScaledColumn,
        "coded",
        coded.number_beside_its_indicator,
        10,
    ),
    "levels that add up": (lambda: coded_pair("logistic"), CodedColumn, "coded", coded.levels_that_add_up, 10),
}


@pytest.mark.parametrize("name", [pytest.param(one, marks=MOST_RELEASES.get(one, ())) for one in BROKEN_CODINGS])
def test_broken_codings_are_caught(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, of, method, broken, times = BROKEN_CODINGS[name]
    monkeypatch.setattr(of, method, broken)
    case = make()
    assert "noise scale" in audit(case, EPSILON, releaser(case.agreed), times, tmp_path)


def visits(agreed: Agreement) -> Callable[[Path, Path], Submission]:
    """Releases from rows of which the first, where its x0 is above 0, was written down three times: first and last."""

    def released(source: Path, ledger: Path) -> Submission:
        table = pa_csv.read_csv(source).to_pandas().assign(patient=lambda rows: np.arange(len(rows)))
        again = table.iloc[[0, 0]] if table["x0"][0] > 0 else table.iloc[:0]
        pd.concat([table, again]).to_csv(source.with_name("visits.csv"), index=False)
        return releaser(agreed)(source.with_name("visits.csv"), ledger)

    return released


def merged_within_batches(owners: ContributionBounding, batches: Any, *arguments: Any) -> Any:
    """A broken `ContributionBounding.merged`, which forgets whose rows it has seen before the last five."""
    for batch in batches:
        rows = len(batch.data[0])
        for part in (slice(0, rows - 5), slice(rows - 5, rows)):
            pieces = [Batch(batch.first_row + part.start, [cells[part] for cells in batch.data])]
            yield from MERGED(ContributionBounding(owners.agreed), pieces, *arguments)


def rows_as_they_are(layout: Layout, source: Any, **_: Any) -> ExactStatistic:
    """A broken `exact_statistic`, which does not ask whose rows they are."""
    return exact_statistic(replace(layout, individuals=None), source)


MERGED = ContributionBounding.merged
BROKEN_AGGREGATIONS: dict[str, tuple[Any, str, Any]] = {
    "": (release_module, "exact_statistic", exact_statistic),
    "ignored": (release_module, "exact_statistic", rows_as_they_are),
    "within batches": (ContributionBounding, "merged", merged_within_batches),
}


@pytest.mark.parametrize("broken", BROKEN_AGGREGATIONS)
@pytest.mark.parametrize("aggregate", ["mean", "last"])
def test_an_individual_of_several_rows_is_hidden_like_one_row(
    aggregate: str, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody with three rows against the same with one of opposite values."""
    document = LINEAR.agreed.model_dump(mode="json")
    document["privacy"] |= {"individual": "patient", "aggregate": aggregate}
    case = replace(LINEAR, agreed=Agreement.model_validate(document))
    monkeypatch.setattr(*BROKEN_AGGREGATIONS[broken])
    found = audit(case, EPSILON, visits(case.agreed), 10 if broken else 50, tmp_path)
    assert found == ({"row count"} | found if broken else set())


@pytest.mark.slow
def test_missing_clipping_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "clip", no_clipping)
    monkeypatch.setattr(Submission, "_check_magnitudes", lambda *_: None)  # who receives such sums refuses them
    assert "privacy loss" in audit(LINEAR, EPSILON, releaser(LINEAR.agreed), 150, tmp_path)
