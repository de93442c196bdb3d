"""What a settlement decided, kept in one transaction, and shown to each as far as it may know it.

Operators and auditors see the settlement. A party sees its own view of it (`equipoise.report.view`) and fetches its own
reward, which nobody else can. All members see who took part and whether the promises hold, and, unless degraded rewards
keep it from them, what their own team is worth.
"""

import json
import logging
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from equipoise._util.canonical import sha256_hex
from equipoise.errors import MediationError
from equipoise.mediation.settlement import Settlement
from equipoise.protocol.receipts import RewardReceipt
from equipoise.report.view import PartyView, view_of, whole_told
from equipoise.reward.model import Reward
from equipoise_service.cache import SingleFlightCache
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.database import FULL
from equipoise_service.db.tables import Event, Result, Round, Seat, SubmissionRow
from equipoise_service.errors import Conflict, Damaged, NotFound, Unavailable
from equipoise_service.logs import FAILURES
from equipoise_service.rules.access import Actor, get_round, get_seat, require
from equipoise_service.rules.rounds import excluded_parties

SETTLEMENT = "settlement.json"
_CACHED_SETTLEMENTS = 8
_CACHED_DIGESTS = 1_000  # of rewards, by that of the file
_NO_PART = "{!r} took no part in this settlement: it did not submit, or the operator started without it"


def reward_name(party: str) -> str:
    """The name of the file with a party's reward."""
    return f"rewards/{party}.nc"


def result_files(settlement: Settlement) -> dict[str, bytes]:
    """All files of a settlement, by name: the document and the rewards."""
    document = {**settlement.to_json(), "audit": settlement.audit.to_json()}
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    rewards = {party: award.reward for party, award in settlement.awards.items() if award.reward is not None}
    return {SETTLEMENT: text.encode()} | {reward_name(party): reward.to_bytes() for party, reward in rewards.items()}


def store(
    session: Session,
    context: Context,
    round_id: str,
    settlement: Settlement,
    *,
    files: dict[str, bytes] | None = None,
) -> None:
    """Within a transaction: keep a settlement and end its round; doing it again with equal decisions is no mistake.

    `files` are `result_files(settlement)`, if they were made before, so that nobody waits for them.
    """
    found = get_round(session, round_id)
    if found.state == "settled" and found.decisions == settlement.decisions_digest:
        return
    if found.state != "settling":
        raise Conflict(f"round {round_id} is {found.state}, so that no settlement is expected")
    for name, content in (result_files(settlement) if files is None else files).items():
        session.add(Result(round_id=round_id, name=name, digest=sha256_hex(content), content=content))
    found.state, found.settled, found.decisions = "settled", context.clock(), settlement.decisions_digest
    event_log.append(
        session,
        time=found.settled,
        actor=event_log.SERVICE,
        kind="settled",
        round_id=round_id,
        decisions=found.decisions,
    )


def settlement(context: Context, actor: Actor | None, round_id: str) -> Settlement:
    """The whole settlement, without draws. Options of versions up to 0.6 hold the noise secret, nobody's to see."""
    require(actor, "see-settlement")
    with context.database.reading() as session:
        return _settlement(session, get_round(session, round_id))


def document(context: Context, actor: Actor | None, round_id: str) -> dict[str, Any]:
    """The whole settlement with its audit as plain JSON, without the noise secret."""
    require(actor, "see-settlement")
    with context.database.reading() as session:
        found = _settlement(session, get_round(session, round_id))
    plain = {**found.to_json(), "audit": found.audit.to_json()}
    return {**plain, "options": {**plain["options"], "noise_secret": None}, "decisions": found.decisions_digest}


def party_view(context: Context, actor: Actor | None, round_id: str) -> PartyView:
    """What a party may know of a settlement: its own share."""
    actor = require(actor, "see-own-result")
    with context.database.reading() as session:
        found, _ = get_seat(session, actor, round_id)
        settled = _settlement(session, found)
    if actor.name not in settled.awards:
        raise NotFound(f"{_NO_PART.format(actor.name)}, so that it has no share in it")
    return view_of(settled, actor.name)


def reward(context: Context, actor: Actor | None, round_id: str) -> bytes:
    """A party's own reward, as its netCDF file; that it was handed out is recorded, the first time.

    A file that is not the reward that was decided is not handed out, whoever changed it.
    """
    actor = require(actor, "fetch-reward")
    with context.database.reading() as session:
        found, _ = get_seat(session, actor, round_id)
        content, says = _decided_reward(session, found, actor.name)
        known = _handed_out(session, found, actor.name, says)
    if known is None:
        with context.database.writing(exclusive=True) as session:
            if _handed_out(session, found, actor.name, says) is None:
                event_log.append(
                    session,
                    time=context.clock(),
                    actor=actor.name,
                    kind="reward-fetched",
                    round_id=round_id,
                    person=actor.person_id,
                    **says,
                )
    return content


def reward_receipt(context: Context, actor: Actor | None, round_id: str) -> RewardReceipt:
    """The service's word which reward it handed out to a party; the same each time."""
    actor = require(actor, "fetch-reward")
    with context.database.reading() as session:
        found, _ = get_seat(session, actor, round_id)
        _, says = _decided_reward(session, found, actor.name)
        event = _handed_out(session, found, actor.name, says)
    if event is None:
        raise NotFound(f"{actor.name!r} has not fetched its reward yet; there is a receipt once it has")
    return RewardReceipt.signed(
        context.key,
        round=found.id,
        agreement=found.identity,
        party=actor.name,
        handed_out=event.time,
        event=event.sequence,
        event_digest=event.digest,
        **says,
    )


def summary(context: Context, actor: Actor | None, round_id: str) -> dict[str, Any]:
    """What every member may know: who took part, what the own team is worth, whether agreement and promises were kept.

    ρ is there only if the agreement fixes it: where it does not, it would give away others' shares.
    """
    actor = require(actor, "see-summary")
    with context.database.reading() as session:
        found, _ = get_seat(session, actor, round_id)
        order = select(SubmissionRow.party).join(
            Seat, (Seat.round_id == SubmissionRow.round_id) & (Seat.party == SubmissionRow.party)
        )
        submitted = session.scalars(order.where(SubmissionRow.round_id == found.id).order_by(Seat.position)).all()
        settled = _settlement(session, found) if found.state == "settled" else None
    agreement = found.agreement
    teams = () if settled is None else settled.teams
    return {
        "round": found.id,
        "title": found.title,
        "agreement": found.identity,
        "state": found.state,
        "settled": found.settled,
        "decisions": found.decisions,
        "parties": list(agreement.party_names),
        "submitted": list(submitted),
        "left_out": list(excluded_parties(found)),
        "teams": [list(team) for team in teams],
        "values": [
            {"team": list(team), **asdict(settled.value(*team))}
            for team in teams
            if settled is not None
            and (actor.role != "party" or (actor.name in team and whole_told(settled, actor.name) is not None))
        ],
        "rho": None if settled is None or settled.rho != agreement.reward.rho else settled.rho,
        "deviations": [] if settled is None else [one.for_parties for one in settled.deviations],
        "audit": []
        if settled is None
        else [{"code": one.code, "promise": one.promise, "verdict": one.verdict} for one in settled.audit],
    }


def audit(context: Context, actor: Actor | None, round_id: str) -> list[dict[str, str]]:
    """Which promises hold; why, only for operators and auditors, since reasons name parties and numbers."""
    actor = require(actor, "see-audit")
    with context.database.reading() as session:
        found, _ = get_seat(session, actor, round_id)
        settled = _settlement(session, found)
    return [
        {
            "code": one.code,
            "promise": one.promise,
            "verdict": one.verdict,
            "reason": "" if actor.role == "party" else one.reason,
        }
        for one in settled.audit
    ]


def _decided_reward(session: Session, found: Round, party: str) -> tuple[bytes, dict[str, str]]:
    """The file of a reward, and what is recorded of handing it out: its SHA-256, what it is, what decided it."""
    settled = _settlement(session, found)
    kept = session.get(Result, (found.id, reward_name(party)))
    if kept is None:
        raise NotFound(f"{_NO_PART.format(party)}, so that it has no reward")
    digest = sha256_hex(kept.content)
    award = settled.awards.get(party)
    is_of = _rewards.get(digest, lambda: _reward_digest(kept.content))
    if award is None or is_of != award.digest or settled.decisions_digest != _logged_decisions(session, found):
        logging.getLogger(FAILURES).error(
            "the reward of %r in round %s is not the one that was decided (its file is %s); restore a backup",
            party,
            found.id,
            digest,
        )
        raise Damaged(
            f"the reward of {party!r} that is kept here is not the one that was decided, so that it is not handed out; "
            "tell the operator, whose log has a line on it"
        )
    return kept.content, {"digest": digest, "reward": award.digest, "decisions": settled.decisions_digest}


def _logged_decisions(session: Session, found: Round) -> Any:
    """What the log says was decided: the table of rounds is easier to change."""
    text = select(Event.details_json).where(Event.round_id == found.id, Event.kind == "settled")
    return json.loads(session.scalars(text).one())["decisions"]


def _handed_out(session: Session, found: Round, party: str, says: dict[str, str]) -> Event | None:
    """The event that recorded that this very file was handed out; those of versions up to 0.7 say less."""
    there = (Event.round_id == found.id, Event.kind == "reward-fetched", Event.actor == party)
    for event in session.scalars(select(Event).where(*there).order_by(Event.sequence)):
        details = json.loads(event.details_json)
        if all(details.get(name) == value for name, value in says.items()):
            return event
    return None


def _reward_digest(content: bytes) -> str:
    """The digest of the reward in a file; empty if the file cannot be read."""
    try:
        with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
            path = Path(folder) / "reward.nc"
            path.write_bytes(content)
            return Reward.load(path).digest
    except MediationError:
        return ""
    except OSError as error:
        raise Unavailable(
            f"the service has no room for temporary files ({error.strerror}); free some in {tempfile.gettempdir()!r}, "
            "and try again",
            code=FULL,
        ) from error


def _require_settled(found: Round) -> None:
    if found.state != "settled":
        raise Conflict(f"the round is {found.state}, not settled yet; look again later", code="not-settled")


def _settlement(session: Session, found: Round) -> Settlement:
    _require_settled(found)
    place = (Result.round_id == found.id, Result.name == SETTLEMENT)
    digest = session.scalars(select(Result.digest).where(*place)).one()
    return _parsed.get(digest, lambda: _read(session.scalars(select(Result.content).where(*place)).one()))


_parsed: SingleFlightCache[Settlement] = SingleFlightCache(_CACHED_SETTLEMENTS)
_rewards: SingleFlightCache[str] = SingleFlightCache(_CACHED_DIGESTS)


def _read(content: bytes) -> Settlement:
    return Settlement.parse(json.loads(content), name="the settlement of the round")
