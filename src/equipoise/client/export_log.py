"""What the log of an exported round must not say: an unbroken chain may still tell of a round that no rules allow.

A service that replaces a submission, settles until the outcome pleases, or takes a key that nobody approved can write
all that into a perfect chain. Its own rules never do, so that such a log is refused, whatever else fits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.errors import VerificationError
from equipoise.protocol.public_keys import fingerprint, same_fingerprint
from equipoise.wire import Submission

CREATED, ACCEPTED, SETTLED = "round-created", "submission-accepted", "settled"
STARTED, CANCELLED, FAILED = "settlement-started", "settlement-cancelled", "settlement-failed"
_APPROVED = ("person-approved", "operator-created")


@dataclass(frozen=True)
class Entry:
    """One event of the log; those of other rounds and people are among them."""

    number: int
    kind: str
    round: str | None
    details: dict[str, Any]


@dataclass(frozen=True)
class RoundLog:
    """The whole log, seen from one round."""

    entries: tuple[Entry, ...]
    round: str

    @classmethod
    def of(cls, events: Sequence[Mapping[str, Any]], round_id: str) -> "RoundLog":
        """Of a chain that was checked; details that are none are empty."""
        found = []
        for one in events:
            details = one["details"] if isinstance(one["details"], dict) else {}
            found.append(Entry(one["sequence"], one["kind"], one["round"], details))
        return cls(tuple(found), round_id)

    def of_kind(self, *kinds: str) -> list[Entry]:
        """All events of these kinds in this round."""
        return [one for one in self.entries if one.kind in kinds and one.round == self.round]

    def check_once(self) -> None:
        """Refuse a round that was made or settled more than once, or that took two submissions of one party."""
        for kind, meaning in (
            (CREATED, "the service began the round anew, and may have changed what was agreed"),
            (SETTLED, "the service settled again, and may have done so until the outcome pleased it"),
        ):
            if len(found := self.of_kind(kind)) > 1:
                raise VerificationError(
                    f"the log has {kind!r} of round {self.round!r} at events {_numbers(found)}, which can be only "
                    f"once: {meaning}"
                )
        accepted: dict[str, Entry] = {}
        for one in self.of_kind(ACCEPTED):
            party = one.details["party"]
            if party in accepted:
                raise VerificationError(
                    f"the log has {ACCEPTED!r} of {party!r} at events {_numbers([accepted[party], one])}, which can be "
                    "only once: the service replaced what the party had submitted"
                )
            accepted[party] = one

    def check_order(self) -> None:
        """Refuse a settled round whose settlement was not started before, or began without all that it used."""
        for settled in self.of_kind(SETTLED):
            before = [one for one in self.of_kind(STARTED, CANCELLED, FAILED) if one.number < settled.number]
            if not before:
                raise VerificationError(
                    f"the log has {SETTLED!r} at event {settled.number} without {STARTED!r} before it: nobody chose "
                    "the options of this settlement before its outcome was known"
                )
            last = before[-1]
            if last.kind != STARTED:
                raise VerificationError(
                    f"the log has {SETTLED!r} at event {settled.number}, but {last.kind!r} at event {last.number} "
                    "before it and no new start: the service kept an outcome that had been given up"
                )
            for late in self.of_kind(ACCEPTED, STARTED):
                if late.number <= last.number:
                    continue
                if late.kind == STARTED:
                    raise VerificationError(
                        f"the log has {STARTED!r} at event {late.number}, after the round was settled at event "
                        f"{settled.number}: the service may have settled until the outcome pleased it"
                    )
                raise VerificationError(
                    f"the log has {ACCEPTED!r} of {late.details['party']!r} at event {late.number}, after the "
                    f"settlement was started at event {last.number}: the service took a submission when none could "
                    "be taken any more"
                )

    def check_keys(self, submissions: Mapping[str, Submission]) -> None:
        """Refuse a submission that is not signed with the key its sender was approved with, before it was accepted."""
        approvals: dict[tuple[Any, str], list[Entry]] = {}  # one pass: there may be many of both
        for one in self.entries:
            if one.kind in _APPROVED:
                approvals.setdefault((one.details["person"], one.details["name"]), []).append(one)
            elif one.kind == ACCEPTED and one.round == self.round:
                party, person = one.details["party"], one.details.get("person")
                _check_key(submissions[party], one, approvals.get((person, party), ()))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Parties without whom the settlement was started, whatever they had submitted."""
        options = [one.details.get("options") for one in self.of_kind(STARTED)][-1:]
        named = options[0].get("without") if options and isinstance(options[0], dict) else None
        return tuple(map(str, named)) if isinstance(named, list) else ()

    @property
    def chosen(self) -> dict[str, Any]:
        """Options of the settlement that was started last."""
        started = self.of_kind(STARTED)
        options = started[-1].details.get("options") if started else None
        if not isinstance(options, dict):
            raise VerificationError(
                f"the log does not say with which options the settlement was started: {STARTED!r} has none"
            )
        return options


def _numbers(entries: Sequence[Entry]) -> str:
    return " and ".join(str(one.number) for one in entries)


def _check_key(submission: Submission, accepted: Entry, approvals: Sequence[Entry]) -> None:
    party, person = submission.party, accepted.details.get("person")
    if not approvals:
        raise VerificationError(
            f"event {accepted.number} accepted a submission of {party!r} from person {person!r}, whom no event before "
            "it approved under that name: the service took it from somebody whom nobody approved"
        )
    seen = fingerprint(submission.public_key)
    for one in approvals:
        approved = str(one.details["fingerprint"])
        if not same_fingerprint(approved, seen):
            raise VerificationError(
                f"the submission of {party!r} is signed with the key {seen}, but its sender, person {person!r}, was "
                f"approved with {approved} at event {one.number}: it is not that person's submission"
            )
