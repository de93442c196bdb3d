"""Bounds that are bought: what they cost, that noise hides a row, and that they hold the values."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rounds
from equipoise.errors import BudgetError, TableError
from equipoise.models import Individuals
from equipoise.party import bounds
from equipoise.party.bounds import BINS, EDGES, BoundsRelease, proposed, release_bounds
from equipoise.party.ledger import Ledger


def bought(tmp_path: Path, table: Any, columns: list[str], **options: Any) -> BoundsRelease:
    return release_bounds(
        table, columns, **{"party": "north", "ledger": tmp_path / "ledger", "zcdp": 0.05, "cap_zcdp": 1.0, **options}
    )


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that is the same in every run: any may fill a bin, if seldom, as the test below has it."""
    monkeypatch.setattr(bounds, "perturb", rounds.seeded(0))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("draw", "holds"),
    [
        (lambda rng: rng.normal(55, 15, 5_000).clip(18, 97), 0.99),
        (lambda rng: rng.lognormal(0, 0.8, 5_000), 0.97),
        (lambda rng: -1e4 * rng.uniform(1, 2, 5_000), 0.99),
        (lambda rng: rng.normal(0, 1e-2, 5_000), 0.98),
        (lambda rng: rng.integers(0, 4, 5_000).astype(float), 1.0),
        (lambda _: np.full(5_000, 37.0), 1.0),
        (lambda _: np.zeros(5_000), 1.0),
    ],
)
def test_bounds_hold_nearly_all_values(draw: Any, holds: float, tmp_path: Path) -> None:
    values = draw(np.random.default_rng(0))
    found = proposed([bought(tmp_path, {"x": values}, ["x"])])["x"]
    assert found.bounds is not None
    assert found.typical is not None
    lower, upper = found.bounds
    assert np.mean((values >= lower) & (values <= upper)) >= holds
    assert lower < upper
    spread = max(float(np.ptp(values)), abs(float(values[0])), 2.0**-9)
    assert upper - lower < 3 * spread
    inside = (values >= found.typical[0]) & (values <= found.typical[1])
    assert np.mean(inside) >= 0.9


def test_noise_alone_seldom_fills_a_bin() -> None:
    rng = np.random.default_rng(0)
    releases = [BoundsRelease("north", 0.05, 3.0, {"x": list(3.0 * rng.normal(size=BINS))}) for _ in range(2_000)]
    filled = np.mean([proposed([one])["x"].bounds is not None for one in releases])
    assert 0.001 < filled < 0.01  # and not _ODDS, which is a bound


@pytest.mark.usefixtures("seeded")
def test_several_parties_see_what_one_cannot(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    releases = [
        bought(tmp_path, {"x": rng.normal(55, 15, 60)}, ["x"], party=f"p{k}", ledger=tmp_path / f"{k}", zcdp=0.01)
        for k in range(30)
    ]
    assert proposed(releases[:1])["x"].bounds is None
    assert proposed(releases)["x"].bounds is not None
    with pytest.raises(TableError, match="two of the files are of 'p0'"):
        proposed([releases[0], releases[0]])


def test_a_row_changes_counts_by_no_more_than_the_sensitivity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The worst neighbours, through the real path up to the noise; a bound for fewer columns must be caught."""
    seen: list[tuple[list[int], int]] = []

    def noiseless(statistic: list[int], *, sensitivity: int, zcdp: float) -> list[int]:
        seen.append((statistic, sensitivity))
        return statistic

    monkeypatch.setattr(bounds, "perturb", noiseless)
    columns = ["a", "b", "c"]
    rows = {name: [1.0, 2.0, 3.0] for name in columns}
    for rows_each, owners in ((1, ["x", "y", "z"]), (2, ["x", "x", "z"])):
        seen.clear()
        whose = Individuals("who", rows_each, drop=False)
        for value in (1.0, 1e6):
            mine = np.array(owners) == "x"
            table = {"who": owners, **{name: np.where(mine, value, rows[name]) for name in columns}}
            bought(tmp_path, table, columns, individuals=whose, zcdp=0.01)
        (first, sensitivity), (second, _) = seen
        distance = np.linalg.norm(np.subtract(first, second).astype(float))
        assert distance <= sensitivity
        assert distance > 0.99 * np.sqrt(2 / 3) * sensitivity / rows_each  # two columns' bound would not do
    assert np.array(seen[0][0]).sum() == 3 * 3 * 2**16


def test_missing_values_are_in_no_bin_and_repeats_are_refused(tmp_path: Path) -> None:
    values = np.where(np.arange(4_000) % 2, np.nan, 5.0)
    found = bought(tmp_path, {"x": values}, ["x"])
    place = int(np.searchsorted(EDGES, 5.0, side="right"))
    assert found.counts["x"][place] == pytest.approx(2_000, abs=6 * found.deviation)
    assert sum(found.counts["x"]) == pytest.approx(2_000, abs=6 * found.deviation * np.sqrt(BINS))
    with pytest.raises(TableError, match="row 2: 'who' is that of 1 earlier row"):
        bought(tmp_path, {"x": [1.0, 2.0], "who": ["a", "a"]}, ["x"], individuals=Individuals("who", 1, drop=False))


def test_it_is_paid_before_noise_is_drawn_and_never_above_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "ledger")

    def crash(*_: Any, **__: Any) -> list[int]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bounds, "perturb", crash)
        with pytest.raises(KeyboardInterrupt):
            bought(tmp_path, {"x": [1.0]}, ["x"], cap_zcdp=0.08)
    assert ledger.read().total_zcdp == 0.05
    with pytest.raises(BudgetError, match="needs zCDP 0.05, and 0.05 of the cap 0.08 is spent"):
        bought(tmp_path, {"x": [1.0]}, ["x"], cap_zcdp=None)
    assert ledger.read().total_zcdp == 0.05


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cap_zcdp": None}, "a new ledger needs a cap"),
        ({"zcdp": 0.0}, "a positive number of zCDP, not 0.0"),
        ({"zcdp": 2.0}, "more than the cap 1 of the new ledger"),
    ],
)
def test_what_is_not_paid_for_is_not_released(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=says):
        bought(tmp_path, {"x": [1.0]}, ["x"], **options)
    assert not (tmp_path / "ledger").exists()


def test_tables_that_do_not_fit_cost_nothing(tmp_path: Path) -> None:
    for table, columns, says in (
        ({"x": ["a"]}, ["x"], "column 'x' holds text"),
        ({"x": [np.inf]}, ["x"], "column 'x', row 1: the value is infinite"),
        ({"x": [1.0]}, ["y"], "'y' is not in the table"),
        ({"x": [1.0]}, ["x", "x"], "each once"),
    ):
        with pytest.raises(TableError, match=says):
            bought(tmp_path, table, columns)
    assert not (tmp_path / "ledger").exists()


def test_files_are_read_again_or_refused(tmp_path: Path) -> None:
    release, path = bought(tmp_path, {"x": [1.0]}, ["x"]), tmp_path / "north.bounds.json"
    path.write_bytes(release.to_json())
    assert BoundsRelease.load(path) == release
    document = json.loads(path.read_text())
    for change, says in (
        ({"format": "other"}, "holds no bounds"),
        ({"counts": {"x": [1.0]}}, "is damaged"),
        ({"counts": {"x": ["1"] * BINS}}, "is damaged"),
        ({"deviation": -1.0}, "is damaged"),
        ({"party": None}, "is damaged"),
    ):
        path.write_text(json.dumps({**document, **change}))
        with pytest.raises(TableError, match=says):
            BoundsRelease.load(path)
    with pytest.raises(TableError, match="cannot read"):
        BoundsRelease.load(tmp_path / "nothing")
