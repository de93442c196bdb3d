"""What a verified ledger says: spends, totals, remembered bounds, stored submissions.

**Totals.** Zero-concentrated ρ of releases about the same individuals adds up. Releases about *cohorts*, disjoint sets
of a family's individuals, compose in parallel: if neighbouring tables differ in the row of one individual, who is in
cohort c, then every release about another cohort has the same distribution for both, whatever came before it, and the
joint ρ is that of the releases about c and about everybody. So what is spent is

    Σ ρ(everybody) + max over cohorts c of Σ ρ(c).

**Precondition.** Who belongs to which cohort is not what is to be hidden: it is fixed by something public, such as the
year or the ward of admission, and nobody is in two. A row that could move from one cohort to another would change two.
"""

import math
from dataclasses import dataclass
from typing import Any

from equipoise.errors import LedgerError
from equipoise.protocol.submission import Submission

Domains = dict[str, list[int | float | str]]


@dataclass(frozen=True)
class Spend:
    """One recorded spend. `id` is its hash and the id of the submission it paid for."""

    id: str
    time: str
    agreement: str
    party: str
    order: float
    epsilon: float
    zcdp: float
    count: int
    finished: bool
    cohort: str = ""  # whom it is about; everybody, unless named

    def matches(self, submission: Submission) -> bool:
        """Whether a submission states what was paid for."""
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


class History:
    """Entries of a verified ledger, interpreted."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.family = ""
        self.cap_zcdp = 0.0
        self.domains: Domains = {}
        self.amendments: list[dict[str, Any]] = []
        self.submissions: dict[str, Submission] = {}
        self.others: list[OtherSpend] = []
        spends: list[dict[str, Any]] = []
        try:
            for entry in entries:
                self._add(entry, spends)
            self.spends = [
                Spend(
                    id=entry["hash"],
                    finished=entry["hash"] in self.submissions,
                    cohort=entry.get("cohort", ""),
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
            self.others.append(OtherSpend(entry["hash"], *(entry[key] for key in ("time", "zcdp", "why", "cohort"))))
        elif kind == "release":
            submission = Submission.model_validate(entry["submission"])
            self.submissions[submission.id] = submission
        elif kind == "amend":
            self.amendments.append(entry)
            self.domains.update(entry["domains"])
            self.cap_zcdp = self.cap_zcdp if entry["cap"] is None else entry["cap"]
        else:
            raise LedgerError(f"the ledger has an entry of unknown kind {kind!r}; upgrade Equipoise")

    def _open(self, opening: dict[str, Any] | None) -> None:
        if opening is None:
            return
        if opening["format"] != 1:
            raise LedgerError(f"ledger format {opening['format']!r} is newer than this version; upgrade Equipoise")
        self.family, self.cap_zcdp = opening["family"], opening["cap"]

    @property
    def total_zcdp(self) -> float:
        """Everything spent, finished or not: about everybody, and about the cohort that cost most."""
        return max(map(self.spent_on, self.cohorts))

    @property
    def _all(self) -> list[Spend | OtherSpend]:
        return [*self.spends, *self.others]

    @property
    def cohorts(self) -> tuple[str, ...]:
        """Everybody (""), and the cohorts that were named."""
        return tuple(dict.fromkeys(["", *(one.cohort for one in self._all)]))

    def spent_on(self, cohort: str) -> float:
        """What was spent on the individuals of a cohort: on it, and on everybody."""
        return math.fsum(one.zcdp for one in self._all if one.cohort in ("", cohort))

    def total_after(self, zcdp: float, cohort: str) -> float:
        """What would be spent in all after a release about a cohort, or about everybody."""
        if not cohort:
            return self.total_zcdp + zcdp
        return max(self.total_zcdp, self.spent_on(cohort) + zcdp)

    @property
    def unfinished(self) -> list[Spend]:
        """Spends whose release was never stored: the process died. They count."""
        return [spend for spend in self.spends if not spend.finished]

    def latest_spend(self, agreement: str, party: str) -> Spend | None:
        """The latest spend of a party under an agreement, finished or not."""
        return next((s for s in reversed(self.spends) if (s.agreement, s.party) == (agreement, party)), None)

    def stored_submission(self, agreement: str, party: str) -> Submission | None:
        """The latest submission made under an agreement by a party, if there is one."""
        finished = (s for s in reversed(self.spends) if s.finished and (s.agreement, s.party) == (agreement, party))
        return next((self.submissions[spend.id] for spend in finished), None)
