r"""Bounds that are bought: a column's distribution as a differentially private histogram on public bins.

Bounds must not be taken from the data for free. If nobody knows them, a little of the budget buys them: every party
releases, once, noisy counts of its values in bins that are the same for everybody, four to a doubling from 2⁻¹⁰ to 2³⁰
on both sides of 0. Whatever anybody computes from them afterwards costs nothing more (`proposal.py`).

**Precondition.** Neighbouring tables differ in one row; in the rows of one individual, at most k of them; or, if rows
are aggregated, in all rows of one individual. The ledger records which (`units.py`). The number of rows, or of
individuals if rows are aggregated, is public, as that of a submission is.

**Sensitivity.** A row adds 1 to at most one bin of each of c columns (to none if the value is missing). Replacing it
lowers one count and raises another, by 1 each: the counts of a column change by at most √2 in ℓ₂ norm, those of all
columns by √(2c), and by **k √(2c)** for k rows. Aggregation makes one row for each individual, from that individual's
rows alone (`ContributionBounding.merged` has the argument), so k is 1. Counts are multiplied by 2¹⁶ and the bound is
rounded up, so that it is a whole number for `mechanism.perturb`, which makes the release ρ-zCDP.

**What a reader relies on.** A file is signed, and says nothing about its noise: the reader computes it from ρ, k and
the number of columns. Counts that are impossible for any table and any noise are refused. A party can still lie about
its rows; `agreement bounds` therefore also shows what each file proposes alone.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equipoise._util.arrays import Floats
from equipoise._util.canonical import StrictJSONError, canonical_json, read_limited, strict_json
from equipoise._util.recognition import mixed_up
from equipoise._util.text import first_repeat
from equipoise.agreement.schema import PARTY_NAME, PartyName
from equipoise.errors import BudgetError, TableError
from equipoise.models import Individuals, ScaledColumn
from equipoise.models.cells import number_values, refuse_not_finite
from equipoise.models.columns import ColumnName
from equipoise.models.layout import ceil_sqrt
from equipoise.models.section import Hex64
from equipoise.party.individuals import ContributionBounding
from equipoise.party.ledger import Ledger
from equipoise.party.mechanism import noise_scale, perturb
from equipoise.party.stream import ColumnSpec
from equipoise.party.table import open_table
from equipoise.party.units import Unit
from equipoise.protocol.keys import load_key, load_or_create_key, public_hex, verify
from equipoise.protocol.submission import IMPOSSIBLE, SignatureHex

FORMAT: Literal["equipoise-bounds"] = "equipoise-bounds"
VERSION = 2
LEAST_ZCDP, MOST_ZCDP = 1e-6, 1e3
MOST_COLUMNS = 250
POSITIVE = 2.0 ** (np.arange(-40, 121) / 4)
EDGES = np.concatenate([-POSITIVE[::-1], POSITIVE])  # the outermost bins have no end
BINS = len(EDGES) + 1
_WEIGHT = 2**16

Counts = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=BINS, max_length=BINS)]


class BoundsRelease(BaseModel):
    """Noisy counts of a party's values by column, in `BINS` bins, signed by the party."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["equipoise-bounds"] = FORMAT
    version: Annotated[int, Field(ge=VERSION, le=VERSION)] = VERSION
    party: PartyName
    zcdp: Annotated[float, Field(ge=LEAST_ZCDP, le=MOST_ZCDP)]
    rows_per_individual: Annotated[int, Field(ge=1, le=100)]
    count: Annotated[int, Field(ge=1, le=2**53)]  # rows, or individuals if their rows were aggregated
    counts: Annotated[dict[ColumnName, Counts], Field(min_length=1, max_length=MOST_COLUMNS)]
    public_key: Hex64
    signature: SignatureHex

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on each count."""
        return _deviation(len(self.counts), self.rows_per_individual, self.zcdp)

    def to_json(self) -> bytes:
        """Return the content of the file."""
        return canonical_json(self.model_dump()) + b"\n"

    def signed_bytes(self) -> bytes:
        """Return the bytes that the signature covers: all but the signature."""
        return canonical_json(self.model_dump(exclude={"signature"}))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file, which may come from anybody; refuse one that is altered or has impossible counts."""
        try:
            document = strict_json(read_limited(path))
        except (OSError, ValueError, StrictJSONError) as error:
            raise TableError(
                mixed_up(path, "a file of bought bounds")
                or f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}"
            ) from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise TableError(
                mixed_up(path, "a file of bought bounds")
                or f"{str(path)!r} holds no bounds; `equipoise party bounds` writes such files"
            )
        if document.get("version") == 1:
            raise TableError(
                f"{str(path)!r} was written by Equipoise 0.14 or earlier, which did not sign bounds; ask the party to "
                "buy them again, or agree on bounds from common knowledge"
            )
        try:
            release = cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key = ".".join(str(part) for part in first["loc"]) or "document"
            raise TableError(f"{str(path)!r} is damaged: {key}: {first['msg']}; ask the party for it again") from error
        verify(release.public_key, release.signature, release.signed_bytes(), what=f"{str(path)!r}")
        release._refuse_impossible(path)
        return release

    def _refuse_impossible(self, path: Path) -> None:
        """Refuse counts that this number of rows with such noise cannot have; `IMPOSSIBLE` has the odds."""
        slack = IMPOSSIBLE * self.deviation
        for name, counts in self.counts.items():
            if min(counts) < -slack or max(counts) > self.count + slack or sum(counts) > self.count + slack * BINS**0.5:
                raise TableError(
                    f"{str(path)!r} has counts of {name!r} that {self.count:,} rows with noise of {self.deviation:.3g} "
                    "rows cannot have; ask the party to buy bounds again"
                )


def _deviation(columns: int, rows: int, zcdp: float) -> float:
    return noise_scale(_sensitivity(columns, rows), zcdp) / _WEIGHT


def _sensitivity(columns: int, rows: int) -> int:
    return rows * ceil_sqrt(2 * columns * _WEIGHT**2)


def release_bounds(
    source: Any,
    columns: Sequence[str],
    *,
    party: str,
    ledger: str | Path | Ledger,
    zcdp: float,
    key: str | Path | None = None,
    cap_zcdp: float | None = None,
    cohort: str = "",
    individuals: Individuals | None = None,
) -> BoundsRelease:
    """Count, record the cost, then perturb and sign.

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
    key : path, optional
        The signing key; by default one is kept beside the ledger.
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
    KeyFileError
        The signing key cannot be used. Nothing was spent.
    """
    if not columns or first_repeat(list(columns)) or len(columns) > MOST_COLUMNS:
        raise TableError(f"name the columns whose bounds are wanted, each once, up to {MOST_COLUMNS}")
    if not re.fullmatch(PARTY_NAME, party):
        raise TableError(
            f"{party!r} cannot be a party's name: use 1 to 64 letters, digits, dots, dashes or underscores"
        )
    if not LEAST_ZCDP <= zcdp <= MOST_ZCDP:
        raise BudgetError(f"bounds cost zCDP from {LEAST_ZCDP:g} to {MOST_ZCDP:g}, not {zcdp!r}; 0.01 is a start")
    book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    if cap_zcdp is None and book.is_new():
        raise BudgetError(
            "a new ledger needs a cap here (cap_zcdp), more than bounds cost: by default nothing would be left to "
            "release with"
        )
    rows = 1 if individuals is None else individuals.rows
    sensitivity, unit = _sensitivity(len(columns), rows), Unit.of(individuals)
    book.check_planned(zcdp=zcdp, unit=unit, cohort=cohort, cap_zcdp=cap_zcdp)
    number, counts = _counts(source, tuple(columns), individuals)
    signing_key = load_or_create_key(book.key_path) if key is None else load_key(Path(key))
    book.record_other(
        zcdp=zcdp, why=f"bounds of {', '.join(columns)}", unit=unit, cohort=cohort, cap_zcdp=cap_zcdp,
        planned=True,
    )  # fmt: skip
    noisy = np.array(perturb([_WEIGHT * int(count) for count in counts.ravel()], sensitivity=sensitivity, zcdp=zcdp))
    noisy_counts = (noisy / _WEIGHT).reshape(counts.shape)
    unsigned = BoundsRelease(
        party=party,
        zcdp=zcdp,
        rows_per_individual=rows,
        count=number,
        counts=dict(zip(columns, noisy_counts.tolist(), strict=True)),
        public_key=public_hex(signing_key),
        signature="0" * 128,
    )
    return unsigned.model_copy(update={"signature": signing_key.sign(unsigned.signed_bytes()).hex()})


def _counts(source: Any, columns: tuple[str, ...], individuals: Individuals | None) -> tuple[int, np.ndarray[Any, Any]]:
    """Count rows, and each column's values in each bin [columns, bins]; missing values are in no bin."""
    number, counts = 0, np.zeros((len(columns), BINS), np.int64)
    for values_of_columns in _values(source, columns, individuals):
        number += len(values_of_columns[0])
        for index, values in enumerate(values_of_columns):
            present = values[~np.isnan(values)]
            counts[index] += np.bincount(np.searchsorted(EDGES, present, side="right"), minlength=BINS)
    if not number:
        raise TableError("the table has no rows; bounds need at least one")
    return number, counts


def _values(source: Any, columns: tuple[str, ...], individuals: Individuals | None) -> Iterator[list[Floats]]:
    """Yield the values of all columns piece by piece, NaN for missing ones; refuse infinite values."""
    wanted = tuple(ColumnSpec(name, None) for name in columns)
    owners = None if individuals is None else ContributionBounding(individuals)
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
            for index, name in enumerate(columns):
                column = batch.data[:, index] if isinstance(batch.data, np.ndarray) else batch.data[index]
                values = np.asarray(column, float) if isinstance(column, np.ndarray) else number_values(name, column)
                refuse_not_finite(name, np.where(np.isnan(values), 0.0, values), batch.first_row)
                pieces.append(values if batch.keep is None else values[batch.keep])
            yield pieces
