"""What the log of an exported round must not say: an unbroken chain may still tell of a round that no rules allow.

A service that replaces a submission, settles until the outcome pleases, or takes a key that nobody approved can write
all that into a perfect chain. Its own rules never do, so that such a log is refused, whatever else fits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.errors import VerificationError
from equipoise.protocol.keys import fingerprint, same_fingerprint
from equipoise.protocol.log import LET_IN, concerned, mark_of
from equipoise.protocol.submission import Submission

CREATED, ACCEPTED, SETTLED = "round-created", "submission-accepted", "settled"
STARTED, CANCELLED, FAILED = "settlement-started", "settlement-cancelled", "settlement-failed"
CLOSED, FETCHED = "round-closed", "reward-fetched"
_BY_OPERATORS = (CREATED, "party-invited", STARTED, CANCELLED, CLOSED, "exported")
_BY_THE_SERVICE = (SETTLED, FAILED)
_SERVICE = "service"
_LATENESS = 600_000  # milliseconds by which times of versions up to 0.7 may run back: they took the clock as it was


@dataclass(frozen=True)
class Entry:
    """One event of the log; those of other rounds and people may be among them."""

    number: int
    time: int
    actor: str
    kind: str
    round: str | None
    details: dict[str, Any]
    salted: bool  # not of a version up to 0.7


@dataclass(frozen=True)
class RoundLog:
    """The log, seen from one round, without the links that stand for what is about others."""

    entries: tuple[Entry, ...]
    round: str

    @classmethod
    def of(cls, events: Sequence[Mapping[str, Any]], round_id: str) -> "RoundLog":
        """The log of a round from a chain of events that was checked; details that are no object are empty.

        A link that is about the round, or about somebody in it, is refused: it hides what happened.
        """
        whole = [one for one in events if "content" not in one]
        found = []
        for one in whole:
            details = one["details"] if isinstance(one["details"], dict) else {}
            number, time, actor = one["sequence"], one["time"], one["actor"]
            salted = one.get("salt") is not None
            found.append(Entry(number, time, actor, one["kind"], one["round"], details, salted))
        people = concerned(whole, round_id)
        for one in events:
            if "content" not in one:
                continue
            if one["mark"] == mark_of(one["previous"], round_id) or one["person"] in people:
                raise VerificationError(
                    f"event {one['sequence']} of the log is about this round, or about somebody in it, but what it "
                    "says was left out"
                )
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

        for closed in self.of_kind(CLOSED):
            for late in self.of_kind(ACCEPTED, STARTED, SETTLED):
                if late.number > closed.number:
                    raise VerificationError(
                        f"the log has {late.kind!r} at event {late.number}, after the round was closed at event "
                        f"{closed.number}: a closed round takes nothing and is not settled"
                    )

    def check_times(self, end: int) -> None:
        """Refuse a log whose times run back, or go beyond the moment the export was signed."""
        last: Entry | None = None
        for one in self.entries:
            if isinstance(one.time, bool) or not isinstance(one.time, int):
                raise VerificationError(f"event {one.number} of the log has no time but {one.time!r:.80}")
            if last is not None and one.time < last.time - (0 if one.salted else _LATENESS):
                raise VerificationError(
                    f"the log's times run back: event {one.number} is {(last.time - one.time) / 1000:,.0f} s before "
                    f"event {last.number}: it was written later than it says, or the service's clock was set back"
                )
            last = one if last is None or one.time > last.time else last
        if last is not None and end < last.time - (0 if last.salted else _LATENESS):
            raise VerificationError(f"event {last.number} of the log is later than the export that has it")

    def check_actors(self) -> None:
        """Refuse what was done in the round by somebody who was not approved for it then."""
        roles: dict[tuple[Any, Any], Any] = {}  # of those who are approved, by number and name
        for one in self.entries:
            who = (one.details.get("person"), one.details.get("name"))
            if one.kind in LET_IN:
                roles[who] = one.details.get("role")
            elif one.kind == "person-revoked":
                roles.pop(who, None)
            elif one.round == self.round:
                _check_actor(one, roles.get((one.details.get("person"), one.actor)))

    def check_keys(self, submissions: Mapping[str, Submission]) -> None:
        """Refuse a submission that is not signed with the key its sender was approved with, before it was accepted."""
        approvals: dict[tuple[Any, str], list[Entry]] = {}  # one pass: there may be many of both
        for one in self.entries:
            if one.kind in LET_IN:
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


def _check_actor(one: Entry, role: Any) -> None:
    if one.kind in _BY_THE_SERVICE:
        known = one.actor == _SERVICE
    elif one.kind in _BY_OPERATORS:
        known = role == "operator"
    elif one.kind == ACCEPTED:
        known = one.actor == one.details.get("party")  # whether it was let in, `check_keys` finds out
    else:
        return
    if not known:
        raise VerificationError(
            f"event {one.number} of the log, {one.kind!r}, was done by {one.actor!r}, person "
            f"{one.details.get('person')!r}, who could not do it: nobody had approved them for it then"
        )


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
