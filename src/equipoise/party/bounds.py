r"""Bounds that are bought: how a column's values are spread, as a differentially private histogram on public bins.

Bounds must not come from the data for nothing. Where nobody knows them, a little of the budget buys them: every party
releases, once, noisy counts of its values in bins that are the same for everybody, four to a doubling from 2⁻¹⁰ to 2³⁰
on both sides of 0. Whatever is made of them afterwards, by anybody, costs nothing more.

**Precondition.** Neighbouring tables differ in one row; in the rows of one individual, at most k of them; or, if rows
are aggregated, in all rows of one individual. The ledger records which (`units.py`).

**Sensitivity.** A row adds 1 to at most one bin of each of c columns (to none where the value is missing). Replacing it
lowers one count and raises another, by 1 each: the counts of a column change by at most √2 in ℓ₂ norm, those of all
columns by √(2c), and by **k √(2c)** for k rows. Aggregated rows are one row of each individual, made of that
individual's rows alone (`RowsOfIndividuals.merged` has the argument), so k is 1. Counts are multiplied by 2¹⁶ and the
bound is rounded up, so that it is a whole number for `mechanism.perturb`, which makes the release ρ-zCDP.

**What is proposed.** Bins whose count, over all parties, is beyond what noise alone would reach in one of all bins once
in twenty times are surely not empty. Bounds reach from the first of them to the last and one bin further on each side:
what lies beyond is rare, and is clipped. The typical range leaves out 2.5 % of what is in those bins at each end.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._util.arrays import Floats
from equipoise._util.canonical import StrictJSONError, read_limited, strict_json
from equipoise._util.text import first_repeat
from equipoise.errors import BudgetError, TableError
from equipoise.models import Individuals, ScaledColumn
from equipoise.models.cells import number_values, refuse_not_finite
from equipoise.models.layout import ceil_sqrt
from equipoise.party.individuals import RowsOfIndividuals
from equipoise.party.ledger import Ledger
from equipoise.party.mechanism import noise_scale, perturb
from equipoise.party.stream import Wanted
from equipoise.party.table import open_table
from equipoise.party.units import Unit

FORMAT = "equipoise-bounds"
VERSION = 1
_POSITIVE = 2.0 ** (np.arange(-40, 121) / 4)
EDGES = np.concatenate([-_POSITIVE[::-1], _POSITIVE])  # the outermost bins have no end
BINS = len(EDGES) + 1
_WEIGHT = 2**16
_ODDS = 0.05  # that noise alone lets any bin of a column look full
_TAIL = 0.025  # outside of a typical range, on each side


@dataclass(frozen=True)
class BoundsRelease:
    """Noisy counts of a party's values by column, in `BINS` bins, with the standard deviation of their noise."""

    party: str
    zcdp: float
    deviation: float
    counts: dict[str, list[float]]

    def to_json(self) -> bytes:
        """What its file holds."""
        return (json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}) + "\n").encode()

    @classmethod
    def load(cls, path: Path) -> "BoundsRelease":
        """Read one, or say why it is none."""
        try:
            document = strict_json(read_limited(path))
        except (OSError, ValueError, StrictJSONError) as error:
            raise TableError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT or document.get("version") != VERSION:
            raise TableError(f"{str(path)!r} holds no bounds; `equipoise party bounds` writes such files")
        found: dict[str, Any] = {name: document.get(name) for name in ("party", "zcdp", "deviation", "counts")}
        if not _is_release(found):
            raise TableError(f"{str(path)!r} is damaged: it should hold {BINS} counts of each column; ask for it again")
        return cls(**found)


def _is_release(found: Mapping[str, Any]) -> bool:
    def positive(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf

    counts = found["counts"]
    return (
        isinstance(found["party"], str)
        and positive(found["zcdp"])
        and positive(found["deviation"])
        and isinstance(counts, dict)
        and all(
            isinstance(column, list)
            and len(column) == BINS
            and all(isinstance(count, int | float) and math.isfinite(count) for count in column)
            for column in counts.values()
        )
    )


def release_bounds(
    source: Any,
    columns: Sequence[str],
    *,
    party: str,
    ledger: str | Path | Ledger,
    zcdp: float,
    cap_zcdp: float | None = None,
    cohort: str = "",
    individuals: Individuals | None = None,
) -> BoundsRelease:
    """Count, record what it costs, then perturb.

    Parameters
    ----------
    source : path, data frame, Arrow table or dictionary
        The private table.
    columns : sequence of str
        Columns of numbers whose bounds are wanted.
    party : str
        Who releases.
    ledger : path or Ledger
        The record of privacy spent. A new one needs a cap.
    zcdp : float
        What is spent on all columns together.
    cap_zcdp : float, optional
        For a new ledger: the most it may ever spend.
    cohort : str
        Whom the table is about, if not everybody of the ledger.
    individuals : Individuals, optional
        The column that says whose row it is, and how many rows anybody may have, or how they are made one.

    Returns
    -------
    BoundsRelease

    Raises
    ------
    TableError
        The table does not have the columns, or not as numbers.
    BudgetError
        It would cost more than the cap leaves, or a new ledger has no cap. Nothing was spent.
    """
    if not columns or first_repeat(list(columns)):
        raise TableError("name the columns whose bounds are wanted, each once")
    if not (math.isfinite(zcdp) and zcdp > 0):
        raise BudgetError(f"bounds cost a positive number of zCDP, not {zcdp!r}; 0.01 is a start")
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    if cap_zcdp is None and book.is_new():
        raise BudgetError(
            "a new ledger needs a cap here (cap_zcdp), more than bounds cost: by default nothing would be left to "
            "release with"
        )
    rows = 1 if individuals is None else individuals.rows
    sensitivity = rows * ceil_sqrt(2 * len(columns) * _WEIGHT**2)
    counts = _counts(source, tuple(columns), individuals)
    deviation = noise_scale(sensitivity, zcdp) / _WEIGHT
    book.record_other(
        zcdp=zcdp, why=f"bounds of {', '.join(columns)}", unit=Unit.of(individuals), cohort=cohort, cap_zcdp=cap_zcdp,
        planned=True,
    )  # fmt: skip
    noisy = np.array(perturb([_WEIGHT * int(count) for count in counts.ravel()], sensitivity=sensitivity, zcdp=zcdp))
    found = (noisy / _WEIGHT).reshape(counts.shape)
    return BoundsRelease(party, zcdp, deviation, dict(zip(columns, found.tolist(), strict=True)))


def _counts(source: Any, columns: tuple[str, ...], individuals: Individuals | None) -> np.ndarray[Any, Any]:
    """Count the values of each column in each bin [columns, bins]; missing ones are in none."""
    counts = np.zeros((len(columns), BINS), np.int64)
    for values_of_columns in _values(source, columns, individuals):
        for place, values in enumerate(values_of_columns):
            present = values[~np.isnan(values)]
            counts[place] += np.bincount(np.searchsorted(EDGES, present, side="right"), minlength=BINS)
    return counts


def _values(source: Any, columns: tuple[str, ...], individuals: Individuals | None) -> Iterator[list[Floats]]:
    """Read values of all columns piece by piece, NaN where one is missing; refuse infinite ones."""
    wanted = tuple(Wanted(name, None) for name in columns)
    owners = None if individuals is None else RowsOfIndividuals(individuals)
    with open_table(source, wanted if owners is None else (*wanted, owners.wanted)) as table:
        if owners is not None and owners.agreed.aggregate is not None:
            # Cells are read as those of numbers that may be missing; the bounds of the columns play no part.
            cells, _ = owners.cells_of_all(table, [ScaledColumn(name, 0.0, 1.0) for name in columns])
            for name, values in zip(columns, cells, strict=True):
                if np.any(np.isinf(values)):
                    raise TableError(f"column {name!r}: values of one individual add up to more than numbers hold")
            yield cells
            return
        for batch in table if owners is None else map(owners.kept, table):
            pieces = []
            for place, name in enumerate(columns):
                column = batch.data[:, place] if isinstance(batch.data, np.ndarray) else batch.data[place]
                values = np.asarray(column, float) if isinstance(column, np.ndarray) else number_values(name, column)
                refuse_not_finite(name, np.where(np.isnan(values), 0.0, values), batch.first_row)
                pieces.append(values if batch.keep is None else values[batch.keep])
            yield pieces


@dataclass(frozen=True)
class Proposal:
    """Bounds and a typical range of one column, or None where noise hides everything."""

    bounds: tuple[float, float] | None
    typical: tuple[float, float] | None


def proposed(releases: Sequence[BoundsRelease]) -> dict[str, Proposal]:
    """Bounds of every column that some party released, from all parties' counts together."""
    if repeated := first_repeat([release.party for release in releases]):
        raise TableError(f"two of the files are of {repeated!r}; give one of each party")
    names = dict.fromkeys(name for release in releases for name in release.counts)
    found = {}
    for name in names:
        having = [release for release in releases if name in release.counts]
        counts = np.sum([release.counts[name] for release in having], axis=0)
        deviation = math.sqrt(sum(release.deviation**2 for release in having))
        found[name] = _proposal(counts, deviation)
    return found


def _proposal(counts: np.ndarray[Any, Any], deviation: float) -> Proposal:
    threshold = deviation * math.sqrt(2 * math.log(BINS / _ODDS))
    full = np.flatnonzero(counts > threshold)
    if not len(full):
        return Proposal(None, None)
    first, last = int(full[0]), int(full[-1])
    inside = np.where(np.isin(np.arange(BINS), full), counts, 0.0)
    share = np.cumsum(inside) / inside.sum()
    low, high = int(np.searchsorted(share, _TAIL)), int(np.searchsorted(share, 1 - _TAIL))
    bounds = _edge(first - 2), _edge(last + 1)
    typical = max(_edge(low - 1), bounds[0]), min(_edge(high), bounds[1])
    return Proposal((_rounded(bounds[0], down=True), _rounded(bounds[1], down=False)), typical)


def _edge(place: int) -> float:
    """An edge, the outermost standing for what is beyond. Between the two nearest 0 lies 0 itself."""
    return float(EDGES[min(max(place, 0), len(EDGES) - 1)])


def _rounded(value: float, *, down: bool) -> float:
    """Two figures, outwards; 0 in place of what is nearly 0."""
    if abs(value) <= _POSITIVE[0]:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return float(f"{(math.floor if down else math.ceil)(value / unit) * unit:.12g}")
