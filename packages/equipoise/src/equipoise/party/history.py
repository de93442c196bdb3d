"""The interpretation of a verified ledger: spends, totals, remembered bounds, stored submissions.

`units.py` says what a total means if spends protect different units or are about different cohorts.
"""

from dataclasses import dataclass
from typing import Any

from equipoise.errors import LedgerError
from equipoise.party.units import ONE_ROW, Account, Charge, Planned, Unit
from equipoise.protocol.submission import Submission

Domains = dict[str, list[int | float | str]]


@dataclass(frozen=True)
class Spend:
    """A recorded spend. `id` is its hash and the id of the submission it paid for."""

    id: str
    time: str
    agreement: str
    party: str
    order: float
    epsilon: float
    zcdp: float
    count: int
    finished: bool
    cohort: str = ""  # part of the individuals it is about; empty for everybody
    unit: Unit = ONE_ROW  # unit that it protects

    def matches(self, submission: Submission) -> bool:
        """Return whether a submission states what was paid for."""
        return (self.agreement, self.party, self.order, self.epsilon, self.count) == (
            submission.agreement,
            submission.party,
            submission.guarantee.order,
            submission.guarantee.epsilon,
            submission.count,
        )


@dataclass(frozen=True)
class OtherSpend:
    """Privacy spent by something else than Equipoise, as the party recorded it."""

    id: str
    time: str
    zcdp: float
    why: str
    cohort: str = ""
    unit: Unit = ONE_ROW


class History:
    """The entries of a verified ledger, interpreted."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.family = ""
        self.cap_zcdp = 0.0
        self.domains: Domains = {}
        self.amendments: list[dict[str, Any]] = []
        self.submissions: dict[str, Submission] = {}
        self.others: list[OtherSpend] = []
        self.rows_per_individual: int | None = None
        self.same_individuals: tuple[str, ...] = ()
        spends: list[dict[str, Any]] = []
        try:
            for entry in entries:
                self._add(entry, spends)
            self.spends = [
                Spend(
                    id=entry["hash"],
                    finished=entry["hash"] in self.submissions,
                    cohort=entry.get("cohort", ""),
                    unit=Unit.from_entry(entry),
                    **{key: entry[key] for key in ("time", "agreement", "party", "order", "epsilon", "zcdp", "count")},
                )
                for entry in spends
            ]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LedgerError(
                f"the chain is intact but an entry is not one that Equipoise writes ({type(error).__name__}: {error}); "
                "restore the ledger from a backup"
            ) from error

    def _add(self, entry: dict[str, Any], spends: list[dict[str, Any]]) -> None:
        kind = entry["kind"]
        if kind == "spend":
            self._open(entry.get("opens"))
            spends.append(entry)
            self.domains.update(entry["domains"])
        elif kind == "other":
            self._open(entry.get("opens"))
            recorded = {key: entry[key] for key in ("time", "zcdp", "why", "cohort")}
            self.others.append(OtherSpend(entry["hash"], **recorded, unit=Unit.from_entry(entry)))
        elif kind == "release":
            submission = Submission.model_validate(entry["submission"])
            self.submissions[submission.id] = submission
        elif kind == "amend":
            self.amendments.append(entry)
            self.domains.update(entry["domains"])
            self.cap_zcdp = self.cap_zcdp if entry["cap"] is None else entry["cap"]
            self.rows_per_individual = entry.get("rows_per_individual") or self.rows_per_individual
            self.same_individuals += tuple(entry.get("same_individuals", ()))
        else:
            raise LedgerError(f"the ledger has an entry of unknown kind {kind!r}; upgrade Equipoise")

    def _open(self, opening: dict[str, Any] | None) -> None:
        if opening is None:
            return
        if opening["format"] != 1:
            raise LedgerError(f"ledger format {opening['format']!r} is newer than this version; upgrade Equipoise")
        self.family, self.cap_zcdp = opening["family"], opening["cap"]

    @property
    def account(self) -> Account:
        """All spends, with the party's statements about rows of individuals; the account adds them up."""
        spends: list[Charge] = [*self.spends, *self.others]
        return Account(spends, self.rows_per_individual, frozenset(self.same_individuals))

    @property
    def total_zcdp(self) -> float:
        """The total spent, finished or not, on the worst-off unit; infinite if unlike units cannot be added up."""
        return self.account.total

    @property
    def unit(self) -> str:
        """The unit that the total is for: one row, or all rows of one individual."""
        return self.account.unit

    @property
    def cohorts(self) -> tuple[str, ...]:
        """The empty name, for everybody, and the named cohorts."""
        return self.account.cohorts

    def spent_on(self, cohort: str) -> float:
        """Add up the spends on the individuals of a cohort: those on the cohort and those on everybody."""
        return self.account.spent_on(cohort)

    def account_after(self, zcdp: float, cohort: str, unit: Unit) -> Account:
        """Return the account as it would be after a spend."""
        before = self.account
        return Account(
            [*before.spends, Planned(zcdp, cohort, unit)], before.rows_per_individual, before.same_individuals
        )

    @property
    def unfinished(self) -> list[Spend]:
        """Spends whose release was never stored because the process died. They count."""
        return [spend for spend in self.spends if not spend.finished]

    def latest_spend(self, agreement: str, party: str) -> Spend | None:
        """Return the latest spend of a party under an agreement, finished or not."""
        return next((s for s in reversed(self.spends) if (s.agreement, s.party) == (agreement, party)), None)

    def stored_submission(self, agreement: str, party: str) -> Submission | None:
        """Return the latest submission of a party under an agreement, or None."""
        finished = (s for s in reversed(self.spends) if s.finished and (s.agreement, s.party) == (agreement, party))
        return next((self.submissions[spend.id] for spend in finished), None)
