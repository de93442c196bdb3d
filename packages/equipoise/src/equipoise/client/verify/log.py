"""Checks that the log of an exported round follows the rules; an unbroken chain alone does not show that.

A service that replaces a submission, settles until it likes the outcome, or takes a key that nobody approved can record
all that in a perfect chain. An honest service's rules never allow it, so such a log is refused.
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
# Times of versions up to 0.7 may run back by this many milliseconds, because they followed the system clock.
_LATENESS = 600_000


@dataclass(frozen=True)
class Entry:
    """One event of the log, which may be of another round; `salted` says that it is newer than version 0.7."""

    number: int
    time: int
    actor: str
    kind: str
    round: str | None
    details: dict[str, Any]
    salted: bool


@dataclass(frozen=True)
class RoundLog:
    """The log as one round sees it, without the links that stand for events of others."""

    entries: tuple[Entry, ...]
    round: str

    @classmethod
    def of(cls, events: Sequence[Mapping[str, Any]], round_id: str) -> "RoundLog":
        """Read the log of a round from a chain of events that was checked; details that are no object become empty.

        Refuse a link in place of an event of this round, or about a person in it, because it hides what happened.
        """
        whole = [event for event in events if "content" not in event]
        entries = []
        for event in whole:
            details = event["details"] if isinstance(event["details"], dict) else {}
            number, time, actor = event["sequence"], event["time"], event["actor"]
            salted = event.get("salt") is not None
            entries.append(Entry(number, time, actor, event["kind"], event["round"], details, salted))
        people = concerned(whole, round_id)
        for event in events:
            if "content" not in event:
                continue
            if event["mark"] == mark_of(event["previous"], round_id) or event["person"] in people:
                raise VerificationError(
                    f"event {event['sequence']} of the log is about this round, or about somebody in it, but what it "
                    "says was left out"
                )
        return cls(tuple(entries), round_id)

    def of_kind(self, *kinds: str) -> list[Entry]:
        """Return all events of these kinds in this round."""
        return [entry for entry in self.entries if entry.kind in kinds and entry.round == self.round]

    def check_once(self) -> None:
        """Refuse a round that was made or settled more than once, or that took two submissions of one party."""
        for kind, meaning in (
            (CREATED, "the service began the round anew, and may have changed what was agreed"),
            (SETTLED, "the service settled again, and may have done so until the outcome pleased it"),
        ):
            if len(entries := self.of_kind(kind)) > 1:
                raise VerificationError(
                    f"the log has {kind!r} of round {self.round!r} at events {_numbers(entries)}, which can be only "
                    f"once: {meaning}"
                )
        accepted: dict[str, Entry] = {}
        for entry in self.of_kind(ACCEPTED):
            party = entry.details["party"]
            if party in accepted:
                raise VerificationError(
                    f"the log has {ACCEPTED!r} of {party!r} at events {_numbers([accepted[party], entry])}, which can "
                    "be only once: the service replaced what the party had submitted"
                )
            accepted[party] = entry

    def check_order(self) -> None:
        """Refuse a settlement that was not started before, or was started before all that it used was submitted."""
        for settled in self.of_kind(SETTLED):
            before = [entry for entry in self.of_kind(STARTED, CANCELLED, FAILED) if entry.number < settled.number]
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
        for entry in self.entries:
            if isinstance(entry.time, bool) or not isinstance(entry.time, int):
                raise VerificationError(f"event {entry.number} of the log has no time but {entry.time!r:.80}")
            if last is not None and entry.time < last.time - (0 if entry.salted else _LATENESS):
                raise VerificationError(
                    f"the log's times run back: event {entry.number} is "
                    f"{(last.time - entry.time) / 1000:,.0f} s before event {last.number}: it was written later than "
                    "it says, or the service's clock was set back"
                )
            last = entry if last is None or entry.time > last.time else last
        if last is not None and end < last.time - (0 if last.salted else _LATENESS):
            raise VerificationError(f"event {last.number} of the log is later than the export that has it")

    def check_actors(self) -> None:
        """Refuse actions in the round by people who were not approved for them at that time."""
        # Roles of the people who are approved, by number and name.
        roles: dict[tuple[Any, Any], Any] = {}
        for entry in self.entries:
            who = (entry.details.get("person"), entry.details.get("name"))
            if entry.kind in LET_IN:
                roles[who] = entry.details.get("role")
            elif entry.kind == "person-revoked":
                roles.pop(who, None)
            elif entry.round == self.round:
                _check_actor(entry, roles.get((entry.details.get("person"), entry.actor)))

    def check_keys(self, submissions: Mapping[str, Submission]) -> None:
        """Refuse a submission that is not signed with the key that was approved for its sender before."""
        # There may be many approvals and submissions, so a single pass collects the former.
        approvals: dict[tuple[Any, str], list[Entry]] = {}
        for entry in self.entries:
            if entry.kind in LET_IN:
                approvals.setdefault((entry.details["person"], entry.details["name"]), []).append(entry)
            elif entry.kind == ACCEPTED and entry.round == self.round:
                party, person = entry.details["party"], entry.details.get("person")
                _check_key(submissions[party], entry, approvals.get((person, party), ()))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The parties that were left out when the settlement was started, even if they had submitted."""
        options = [entry.details.get("options") for entry in self.of_kind(STARTED)][-1:]
        named = options[0].get("without") if options and isinstance(options[0], dict) else None
        return tuple(map(str, named)) if isinstance(named, list) else ()

    @property
    def chosen(self) -> dict[str, Any]:
        """The options of the settlement that was started last."""
        started = self.of_kind(STARTED)
        options = started[-1].details.get("options") if started else None
        if not isinstance(options, dict):
            raise VerificationError(
                f"the log does not say with which options the settlement was started: {STARTED!r} has none"
            )
        return options


def _check_actor(entry: Entry, role: Any) -> None:
    if entry.kind in _BY_THE_SERVICE:
        known = entry.actor == _SERVICE
    elif entry.kind in _BY_OPERATORS:
        known = role == "operator"
    elif entry.kind == ACCEPTED:
        # `check_keys` checks that the party was approved.
        known = entry.actor == entry.details.get("party")
    else:
        return
    if not known:
        raise VerificationError(
            f"event {entry.number} of the log, {entry.kind!r}, was done by {entry.actor!r}, person "
            f"{entry.details.get('person')!r}, who could not do it: nobody had approved them for it then"
        )


def _numbers(entries: Sequence[Entry]) -> str:
    return " and ".join(str(entry.number) for entry in entries)


def _check_key(submission: Submission, accepted: Entry, approvals: Sequence[Entry]) -> None:
    party, person = submission.party, accepted.details.get("person")
    if not approvals:
        raise VerificationError(
            f"event {accepted.number} accepted a submission of {party!r} from person {person!r}, whom no event before "
            "it approved under that name: the service took it from somebody whom nobody approved"
        )
    seen = fingerprint(submission.public_key)
    for approval in approvals:
        approved = str(approval.details["fingerprint"])
        if not same_fingerprint(approved, seen):
            raise VerificationError(
                f"the submission of {party!r} is signed with the key {seen}, but its sender, person {person!r}, was "
                f"approved with {approved} at event {approval.number}: it is not that person's submission"
            )
