"""The party's own durable record of privacy spent: append-only, hash-chained, one file of JSON lines.

One ledger serves one *family of data*: tables that share individuals share a ledger, because what one release reveals
adds to what the others did. Zero-concentrated ρ adds up exactly for Gaussian noise, whatever the orders and agreements,
so totals are kept in ρ and shown in all three readings. Each spend records the unit it protects, a row or the rows of
one individual; `units.py` says how spends of different units are added, or why they are refused.

**A crash can cost privacy budget, never privacy.** A spend is on disk (written and fsynced, file and folder) before
noise is drawn. A process killed in between leaves a spend without a submission: it counts. A line torn by a crash while
being written never paid for anything, since fsync had not returned; the next writer drops it.

**Tampering shows.** Each entry holds the hash of the one before. The hash of a spend is also the id of the submission
it paid for, so a ledger rewritten from scratch, or rolled back to an old copy, no longer accounts for the submissions
in circulation (`accounts_for`). Someone who controls the machine can of course release without any ledger.

Entries: `spend` (what is about to be released, at which guarantee, for which unit, with which public bounds; the first
one also names format, family and cap), `release` (the finished submission, for re-sending), `amend` (a new cap, newly
accepted bounds, or a statement about rows of individuals, with a reason), `other` (what something else than Equipoise
spent on the same individuals, for which unit, and why).
"""

import math
import os
import secrets
import unicodedata
from dataclasses import asdict
from pathlib import Path
from typing import Any

from equipoise._util.files import exists, is_writable_folder
from equipoise._util.text import counted
from equipoise.agreement import Agreement
from equipoise.errors import BudgetError, LedgerError
from equipoise.models.columns import NumberColumn
from equipoise.models.guarantee import Guarantee
from equipoise.party.chain import Chain
from equipoise.party.history import Domains, History
from equipoise.party.units import LARGEST_ROWS_PER_INDIVIDUAL, ONE_ROW, Unit
from equipoise.protocol.submission import Submission

ROUNDING = 1 + 1e-12  # tolerance, so that ten spends of a tenth make one
MAX_COHORT = 200  # most characters of a name
# Factor from the zCDP of adding or removing a row to that of replacing one: two steps, and ρ grows as k².
ADD_OR_REMOVE = 4


class Ledger:
    """A party's record of privacy spent: one append-only file for all tables that share individuals.

    `release` keeps it. Reading takes no lock; every change locks, re-reads, checks and only then appends.

    Parameters
    ----------
    path : path
        The file, which need not exist yet: the first spend makes it.

    Raises
    ------
    LedgerError
        From every method, if the file was changed, cannot be read or written, or is held by another process.

    Examples
    --------
    >>> sent = eq.release("agreement.toml", "north.csv", party="north", epsilon=1.0, ledger="north.ledger")
    >>> history = eq.Ledger("north.ledger").read()
    >>> history.total_zcdp, history.cap_zcdp
    (0.5, 0.5)
    """

    def __init__(self, path: str | Path) -> None:
        try:
            # Links to a file lead to the same lock.
            self.path = Path(path).resolve()
        except (OSError, ValueError) as error:
            raise LedgerError(f"{str(path)!r} cannot be the path of a ledger: {error}") from error
        self._chain = Chain(self.path)

    def __repr__(self) -> str:
        name = repr(self.path.name)
        try:
            entries, _ = self._chain.entries()
            if not entries:
                return f"Ledger({name}: new, nothing spent)"
            history = History(entries)
        except LedgerError as error:
            return f"Ledger({name}: {error})"
        number = len(history.spends) + len(history.others)
        spent = f"zCDP {history.total_zcdp:g} of {history.cap_zcdp:g} spent on {history.unit}"
        return f"Ledger({name}: {counted(number, 'spend')}, {spent})"

    @property
    def key_path(self) -> Path:
        """The default file of the signing key, beside the ledger."""
        return self.path.with_name(self.path.name + ".key")

    def read(self) -> History:
        """Return everything recorded so far, after verifying the hash chain.

        Returns
        -------
        History
            `spends`, `total_zcdp` and the `unit` it is for, `cap_zcdp`, `amendments`, remembered `domains` of columns,
            and `submissions` by id.
        """
        entries, _ = self._chain.entries()
        if not entries:
            raise LedgerError(f"there is no ledger {str(self.path)!r}; the first release makes one")
        return History(entries)

    def is_new(self) -> bool:
        """Return whether nothing was ever recorded, so that the next spend creates the ledger."""
        return not self._chain.entries()[0]

    def check_spend(
        self,
        agreement: Agreement,
        party: str,
        guarantee: Guarantee,
        *,
        again: bool,
        cap_zcdp: float | None,
        cohort: str = "",
    ) -> None:
        """Raise `BudgetError` if a spend would be refused now; nothing is written. Parameters as of `spend`."""
        folder = self.path.parent
        if not is_writable_folder(folder) or (exists(self.path) and not os.access(self.path, os.W_OK)):
            raise LedgerError(f"cannot write {str(self.path)!r}; its folder must exist and be writable: make it first")
        entries, _ = self._chain.entries()
        self._refuse(entries, agreement, party, guarantee, again=again, cap_zcdp=cap_zcdp, cohort=cohort)

    def spend(
        self,
        agreement: Agreement,
        party: str,
        guarantee: Guarantee,
        *,
        count: int,
        again: bool = False,
        cap_zcdp: float | None = None,
        family: str = "",
        cohort: str = "",
    ) -> str:
        """Record a spend. When this returns, it is on disk.

        Parameters
        ----------
        agreement : Agreement
            What the release is made under; its public bounds are remembered.
        party : str
            Who releases.
        guarantee : Guarantee
            What is spent.
        count : int
            Rows of the table.
        again : bool
            Whether a second spend of the party under the agreement is meant.
        cap_zcdp : float, optional
            Cap of a new ledger; by default exactly this spend, so that a second release is always a decision and never
            an accident.
        family : str
            Of a new ledger: what its tables have in common.
        cohort : str
            Which part of the ledger's individuals the table is about, if not everybody; cohorts must be disjoint, and
            who is in which must be public. The dearest cohort counts, not the sum of all.

        Returns
        -------
        str
            Hash of the entry, the future submission's id.

        Raises
        ------
        BudgetError
            Above the cap, a second spend without `again`, columns whose public bounds have changed, or a unit of
            protection that cannot be added to that of earlier spends.
        """
        with self._chain.locked():
            entries, end = self._chain.entries()
            self._refuse(entries, agreement, party, guarantee, again=again, cap_zcdp=cap_zcdp, cohort=cohort)
            content = {
                "kind": "spend",
                "nonce": secrets.token_hex(16),
                "agreement": agreement.identity_digest,
                "party": party,
                "order": guarantee.order,
                "epsilon": guarantee.epsilon,
                "zcdp": guarantee.zcdp,
                "count": count,
                "domains": domains_of(agreement),
                "unit": asdict(Unit.of(agreement.individuals)),
            }
            if cohort:
                content["cohort"] = cohort
            if not entries:
                cap = guarantee.zcdp if cap_zcdp is None else cap_zcdp
                content["opens"] = {"format": 1, "family": family, "cap": cap}
            return self._chain.append(entries, end, content)

    def record_other(
        self,
        *,
        zcdp: float,
        why: str,
        unit: Unit = ONE_ROW,
        cohort: str = "",
        cap_zcdp: float | None = None,
        family: str = "",
        planned: bool = False,
    ) -> None:
        """Record a spend on the same individuals other than on a submission. It is on disk when this returns.

        It is recorded even above the cap, or if its unit cannot be added to that of earlier spends, since it has
        happened; nothing more can then be released, until the cap or the rows of an individual are stated anew.

        Parameters
        ----------
        zcdp : float
            What was spent, as ρ of zero-concentrated privacy under replacing one unit.
        why : str
            What it was; it stays in the ledger.
        unit : Unit
            What it protects, by default one row.
        cohort : str
            Whom it was about, if not everybody; see `spend`.
        cap_zcdp, family : float, str, optional
            Of a new ledger: its cap, by default exactly this spend, and what its tables have in common.
        planned : bool
            It has not happened yet, and is refused above the cap.

        Raises
        ------
        BudgetError
            The amount is no positive number, the ledger has another cap, or a planned spend would be above it, or of a
            unit that cannot be added to that of earlier spends.
        LedgerError
            It is not said what it was.
        """
        if not why.strip():
            raise LedgerError("say what the privacy was spent on; it stays in the ledger for whoever audits it")
        with self._chain.locked():
            entries, end = self._chain.entries()
            self._refuse_other(entries, zcdp, unit, cohort, cap_zcdp, planned=planned)
            content: dict[str, Any] = {
                "kind": "other",
                "zcdp": zcdp,
                "why": why,
                "cohort": cohort,
                "unit": asdict(unit),
            }
            if not entries:
                content["opens"] = {"format": 1, "family": family, "cap": zcdp if cap_zcdp is None else cap_zcdp}
            self._chain.append(entries, end, content)

    def check_planned(self, *, zcdp: float, unit: Unit, cohort: str = "", cap_zcdp: float | None = None) -> None:
        """Raise `BudgetError` if a planned spend would be refused now; nothing is written."""
        self._refuse_other(self._chain.entries()[0], zcdp, unit, cohort, cap_zcdp, planned=True)

    def _refuse_other(
        self,
        entries: list[dict[str, Any]],
        zcdp: float,
        unit: Unit,
        cohort: str,
        cap_zcdp: float | None,
        *,
        planned: bool,
    ) -> None:
        if not (math.isfinite(zcdp) and zcdp > 0):
            raise BudgetError(f"a spend must be a positive number of zCDP, not {zcdp!r}")
        _check_cap(cap_zcdp)
        if entries and cap_zcdp is not None and cap_zcdp != History(entries).cap_zcdp:
            raise _other_cap(History(entries))
        _check_cohort(entries, cohort)
        if planned:
            _refuse_unlike(entries, zcdp, cohort, unit)
            self._refuse_above_cap(entries, zcdp, cohort, cap_zcdp, unit)

    def record_release(self, submission: Submission) -> None:
        """Store a finished submission, whose spend must be in the ledger, so that it can be sent again for free."""
        with self._chain.locked():
            entries, end = self._chain.entries()
            if submission.id not in {spend.id for spend in History(entries).spends}:
                raise LedgerError(f"no spend in {str(self.path)!r} paid for submission {submission.id[:12]}…")
            self._chain.append(entries, end, {"kind": "release", "submission": submission.model_dump()})

    def amend(
        self,
        *,
        reason: str,
        cap_zcdp: float | None = None,
        domains: Domains | None = None,
        rows_per_individual: int | None = None,
        lower: bool = False,
        same_individuals: str | None = None,
    ) -> None:
        """Record a decision: a new cap, new public bounds for columns released before, or whose rows tables hold.

        A statement about rows is recorded even if the total then exceeds the cap; nothing more can then be released.

        Parameters
        ----------
        reason : str
            Why; it stays in the ledger.
        cap_zcdp : float, optional
            The new cap, no less than what was spent.
        domains : dict of str to list, optional
            New bounds, or labels, of columns by name.
        rows_per_individual : int, optional
            The most rows that anybody has in a table of which single rows were protected. Totals are then for
            individuals, and such spends count so many times squared.
        lower : bool
            Correct an earlier number of rows that was too large; totals fall with it.
        same_individuals : str, optional
            A column that names the same individuals as the column of earlier spends.

        Raises
        ------
        BudgetError
            The cap is no positive number, or less than what was spent.
        LedgerError
            There is no reason, no ledger, no such column in it, or no possible number of rows.
        """
        if not reason.strip():
            raise LedgerError("an amendment needs a reason; it stays in the ledger for whoever audits it")
        with self._chain.locked():
            entries, end = self._chain.entries()
            if not entries:
                raise LedgerError(f"there is no ledger {str(self.path)!r} to amend")
            history = History(entries)
            content: dict[str, Any] = {"kind": "amend", "reason": reason, "cap": cap_zcdp, "domains": domains or {}}
            if rows_per_individual is not None:
                _check_rows_per_individual(rows_per_individual)
                if not lower and rows_per_individual < (history.rows_per_individual or 1):
                    raise LedgerError(
                        f"the ledger says that somebody has {history.rows_per_individual:,} rows, and with "
                        f"{rows_per_individual:,} everything spent so far would count for less. If the earlier number "
                        "was a mistake, say so with --lower (lower=True) and in the reason"
                    )
                content["rows_per_individual"] = int(rows_per_individual)
            if same_individuals is not None:
                known = [column for column in history.account.columns if column != same_individuals]
                if not known:
                    raise LedgerError(
                        f"no spend of this ledger protects individuals by another column than {same_individuals!r}; "
                        "there is nothing that it could be the same as"
                    )
                content["same_individuals"] = [known[0], same_individuals]
            _check_cap(cap_zcdp)
            amended = History([*entries, {**content, "hash": ""}])
            if cap_zcdp is not None and amended.account.obstacle:
                raise BudgetError(f"no cap can be compared with what was spent: {amended.account.obstacle}")
            if cap_zcdp is not None and cap_zcdp < amended.total_zcdp:
                raise BudgetError(
                    f"a cap of {cap_zcdp:g} is below the {amended.total_zcdp:g} already spent on {amended.unit}; "
                    "choose at least that"
                )
            unknown = sorted(set(domains or {}) - set(history.domains))
            if unknown:
                raise LedgerError(
                    f"{unknown[0]!r} was never released from this ledger, so its bounds need no amendment; "
                    f"recorded are {', '.join(history.domains) or 'none'}"
                )
            self._chain.append(entries, end, content)

    def accounts_for(self, submission: Submission) -> bool:
        """Return whether this ledger holds the spend that paid for a submission, at the guarantee that it states."""
        history = self.read()
        stored = history.submissions.get(submission.id, submission)
        paid = any(spend.id == submission.id and spend.matches(submission) for spend in history.spends)
        return paid and stored == submission

    def _refuse(
        self,
        entries: list[dict[str, Any]],
        agreement: Agreement,
        party: str,
        guarantee: Guarantee,
        *,
        again: bool,
        cap_zcdp: float | None,
        cohort: str,
    ) -> None:
        _check_cap(cap_zcdp)
        _check_cohort(entries, cohort)
        unit = Unit.of(agreement.individuals)
        if not entries:
            self._refuse_above_cap(entries, guarantee.zcdp, cohort, cap_zcdp, unit)
            return
        history = History(entries)
        if cap_zcdp is not None and cap_zcdp != history.cap_zcdp:
            raise _other_cap(history)
        earlier = history.latest_spend(agreement.identity_digest, party)
        if earlier is not None and not again:
            remedy = (
                "send it again for nothing with `equipoise party resend`, or spend anew on fresh noise with --again"
                if earlier.finished
                else "it is still under way, or was cut off and counts all the same; release anew with --again"
            )
            raise BudgetError(
                f"{party!r} has already released under this agreement (epsilon {earlier.epsilon:g}, submission "
                f"{earlier.id[:12]}…); {remedy}"
            )
        changed = {name: new for name, new in domains_of(agreement).items() if history.domains.get(name, new) != new}
        if changed:
            name, new = next(iter(changed.items()))
            raise BudgetError(
                f"the public bounds of {name!r} have changed from {history.domains[name]} to {new} since an earlier "
                "release; bounds adjusted after looking at data leak it. If they were chosen without looking, record "
                "that with `equipoise party amend --accept-bounds AGREEMENT --reason TEXT`"
            )
        _refuse_unlike(entries, guarantee.zcdp, cohort, unit)
        self._refuse_above_cap(entries, guarantee.zcdp, cohort, cap_zcdp, unit)

    def _refuse_above_cap(
        self, entries: list[dict[str, Any]], zcdp: float, cohort: str, cap_zcdp: float | None, unit: Unit
    ) -> None:
        if not entries:
            if cap_zcdp is not None and zcdp > cap_zcdp * ROUNDING:
                raise BudgetError(
                    f"this release needs zCDP {zcdp:g}, more than the cap {cap_zcdp:g} of the new ledger; "
                    "choose a smaller epsilon or a larger cap"
                )
            return
        history = History(entries)
        after = history.account_after(zcdp, cohort, unit)
        total = after.total
        if total > history.cap_zcdp * ROUNDING:
            unfinished = len(history.unfinished)
            crashed = (
                f" ({unfinished} recorded {'spends were' if unfinished > 1 else 'spend was'} never finished, "
                "by a crash perhaps; they count all the same)"
                if unfinished
                else ""
            )
            spent = history.spent_on(cohort) if cohort else history.total_zcdp
            smaller = "choose a smaller epsilon, or " if spent < history.cap_zcdp else ""
            whom = f" on the cohort {cohort!r}" if cohort else ""
            times = after.times(unit)
            counts = f" ({zcdp:g} for one row, {times:g} times, for {after.unit})" if times != 1 else ""
            raise BudgetError(
                f"this release needs zCDP {times * zcdp:g}{counts}, and {spent:g} of the cap "
                f"{history.cap_zcdp:g} is spent{whom}{crashed}; {smaller}raise the cap with "
                f"`equipoise party amend {self.path.name} --cap-zcdp {total:g} --reason TEXT`"
            )


def domains_of(agreement: Agreement) -> Domains:
    """Return the public bounds and labels of every column, and of the features' norm, as a ledger remembers them."""
    domains: Domains = {}
    for column in agreement.columns:
        domains[column.name] = list(column.scaled_range if isinstance(column, NumberColumn) else column.values)
        coding = {
            key: getattr(column, key, None) for key in ("transform", "missing", "fill", "scores", "other", "since")
        }
        stated = [f"{key} = {value}" for key, value in coding.items() if value not in (None, False, "refuse")]
        # The coding of cells is public too.
        domains[column.name] += stated
    if agreement.individuals is not None:
        whose = agreement.individuals
        made_one = [] if whose.aggregate is None else [f"aggregate = {whose.aggregate}"]
        domains[f"rows of one {whose.column}"] = [whose.rows, *made_one]
    return {**domains, **agreement.model.joint_domains()}


def _other_cap(history: History) -> BudgetError:
    return BudgetError(
        f"this ledger already has a cap of zCDP {history.cap_zcdp:g}; change it with `equipoise party amend`"
    )


def zcdp_of_pure(epsilon: float) -> float:
    """Return the zCDP of a pure ε-differentially private release: ½ε² (Bun & Steinke 2016, Proposition 1.4)."""
    return epsilon**2 / 2


def _check_cohort(entries: list[dict[str, Any]], cohort: str) -> None:
    """Refuse a cohort whose name may stand for a known cohort: two names count as two sets of people."""
    hidden = any(unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") for letter in cohort)
    if cohort != cohort.strip() or len(cohort) > MAX_COHORT or hidden:
        raise LedgerError(
            f"{cohort!r} cannot name a cohort; give up to {MAX_COHORT} characters that can be seen, with no spaces "
            "around them"
        )
    for known in History(entries).cohorts if cohort and entries else ():
        if known != cohort and _looks(known) == _looks(cohort):
            raise LedgerError(f"the ledger has a cohort {known!r}; write it so, or name {cohort!r} more differently")


def _looks(cohort: str) -> str:
    """Return the name without differences that people hardly see: capitals, spaces, Unicode variants of letters."""
    return "".join(unicodedata.normalize("NFKC", cohort).casefold().split())


def _refuse_unlike(entries: list[dict[str, Any]], zcdp: float, cohort: str, unit: Unit) -> None:
    """Refuse a spend whose unit cannot be added to the ledger's, or any spend if its units do not add up."""
    if not entries:
        return
    if obstacle := History(entries).account_after(zcdp, cohort, unit).obstacle:
        raise BudgetError(f"this spend protects {unit}; {obstacle}. Nothing was recorded")


def _check_rows_per_individual(rows: int) -> None:
    if rows not in range(1, LARGEST_ROWS_PER_INDIVIDUAL + 1):
        raise LedgerError(
            f"nobody can have {rows!r} rows; give a whole number from 1 to {LARGEST_ROWS_PER_INDIVIDUAL:,}"
        )


def _check_cap(cap_zcdp: float | None) -> None:
    if cap_zcdp is not None and not (math.isfinite(cap_zcdp) and cap_zcdp > 0):
        raise BudgetError(f"a cap must be a positive number of zCDP, not {cap_zcdp!r}")
