"""Results of a settlement: stored in one transaction, and shown to each person as far as permitted.

Operators and auditors see the settlement. A party sees its own view of it (`equipoise.report.view`) and fetches its own
reward, which nobody else can. All members see which parties took part and whether the promises hold and, unless the
mechanism of degraded rewards hides it, the value of their own team.
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
# Digests of rewards, by the digest of their file.
_CACHED_DIGESTS = 1_000
_NO_PART = "{!r} took no part in this settlement: it did not submit, or the operator started without it"


def reward_name(party: str) -> str:
    """Return the name of the file with a party's reward."""
    return f"rewards/{party}.nc"


def result_files(settlement: Settlement) -> dict[str, bytes]:
    """Return all files of a settlement, by name: the document and the rewards."""
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
    """Store a settlement, within a transaction, and end its round. Repeating this with equal decisions has no effect.

    A caller may pass `files`, equal to `result_files(settlement)`, to keep the transaction short.
    """
    round_ = get_round(session, round_id)
    if round_.state == "settled" and round_.decisions == settlement.decisions_digest:
        return
    if round_.state != "settling":
        raise Conflict(f"round {round_id} is {round_.state}, so that no settlement is expected")
    for name, content in (result_files(settlement) if files is None else files).items():
        session.add(Result(round_id=round_id, name=name, digest=sha256_hex(content), content=content))
    round_.state, round_.settled, round_.decisions = "settled", context.clock(), settlement.decisions_digest
    event_log.append(
        session,
        time=round_.settled,
        actor=event_log.SERVICE,
        kind="settled",
        round_id=round_id,
        decisions=round_.decisions,
    )


def settlement(context: Context, actor: Actor | None, round_id: str) -> Settlement:
    """Return the whole settlement, without draws.

    Options of versions up to 0.6 may hold the noise secret, which must not be shown to anybody.
    """
    require(actor, "see-settlement")
    with context.database.reading() as session:
        return _settlement(session, get_round(session, round_id))


def document(context: Context, actor: Actor | None, round_id: str) -> dict[str, Any]:
    """Return the whole settlement with its audit as plain JSON, without the noise secret."""
    require(actor, "see-settlement")
    with context.database.reading() as session:
        settled = _settlement(session, get_round(session, round_id))
    plain = {**settled.to_json(), "audit": settled.audit.to_json()}
    return {**plain, "options": {**plain["options"], "noise_secret": None}, "decisions": settled.decisions_digest}


def party_view(context: Context, actor: Actor | None, round_id: str) -> PartyView:
    """Return a party's own view of a settlement."""
    actor = require(actor, "see-own-result")
    with context.database.reading() as session:
        round_, _ = get_seat(session, actor, round_id)
        settled = _settlement(session, round_)
    if actor.name not in settled.awards:
        raise NotFound(f"{_NO_PART.format(actor.name)}, so that it has no share in it")
    return view_of(settled, actor.name)


def reward(context: Context, actor: Actor | None, round_id: str) -> bytes:
    """Return a party's own reward as its netCDF file, and record the first time that it was handed out.

    A file that differs from the reward that was decided is not handed out.
    """
    actor = require(actor, "fetch-reward")
    with context.database.reading() as session:
        round_, _ = get_seat(session, actor, round_id)
        content, says = _decided_reward(session, round_, actor.name)
        known = _handed_out(session, round_, actor.name, says)
    if known is None:
        with context.database.writing(exclusive=True) as session:
            if _handed_out(session, round_, actor.name, says) is None:
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
    """Return the service's signed receipt of the reward that it handed out to a party; it is the same each time."""
    actor = require(actor, "fetch-reward")
    with context.database.reading() as session:
        round_, _ = get_seat(session, actor, round_id)
        _, says = _decided_reward(session, round_, actor.name)
        event = _handed_out(session, round_, actor.name, says)
    if event is None:
        raise NotFound(f"{actor.name!r} has not fetched its reward yet; there is a receipt once it has")
    return RewardReceipt.signed(
        context.key,
        round=round_.id,
        agreement=round_.identity,
        party=actor.name,
        handed_out=event.time,
        event=event.sequence,
        event_digest=event.digest,
        **says,
    )


def summary(context: Context, actor: Actor | None, round_id: str) -> dict[str, Any]:
    """Return what every member may know: participants, the value of the own team, deviations, and verdicts.

    ρ is included only if the agreement fixes it; otherwise it would reveal others' shares.
    """
    actor = require(actor, "see-summary")
    with context.database.reading() as session:
        round_, _ = get_seat(session, actor, round_id)
        order = select(SubmissionRow.party).join(
            Seat, (Seat.round_id == SubmissionRow.round_id) & (Seat.party == SubmissionRow.party)
        )
        submitted = session.scalars(order.where(SubmissionRow.round_id == round_.id).order_by(Seat.position)).all()
        settled = _settlement(session, round_) if round_.state == "settled" else None
    agreement = round_.agreement
    teams = () if settled is None else settled.teams
    return {
        "round": round_.id,
        "title": round_.title,
        "agreement": round_.identity,
        "state": round_.state,
        "settled": round_.settled,
        "decisions": round_.decisions,
        "parties": list(agreement.party_names),
        "submitted": list(submitted),
        "left_out": list(excluded_parties(round_)),
        "teams": [list(team) for team in teams],
        "values": [
            {"team": list(team), **asdict(settled.value(*team))}
            for team in teams
            if settled is not None
            and (actor.role != "party" or (actor.name in team and whole_told(settled, actor.name) is not None))
        ],
        "rho": None if settled is None or settled.rho != agreement.reward.rho else settled.rho,
        "deviations": [] if settled is None else [deviation.for_parties for deviation in settled.deviations],
        "audit": []
        if settled is None
        else [
            {"code": finding.code, "promise": finding.promise, "verdict": finding.verdict} for finding in settled.audit
        ],
    }


def audit(context: Context, actor: Actor | None, round_id: str) -> list[dict[str, str]]:
    """Return a verdict on each promise. Only operators and auditors see reasons, which name parties and numbers."""
    actor = require(actor, "see-audit")
    with context.database.reading() as session:
        round_, _ = get_seat(session, actor, round_id)
        settled = _settlement(session, round_)
    return [
        {
            "code": finding.code,
            "promise": finding.promise,
            "verdict": finding.verdict,
            "reason": "" if actor.role == "party" else finding.reason,
        }
        for finding in settled.audit
    ]


def _decided_reward(session: Session, round_: Round, party: str) -> tuple[bytes, dict[str, str]]:
    """Return the file of a reward, and the digests that are logged with it: of file, reward and decisions."""
    settled = _settlement(session, round_)
    kept = session.get(Result, (round_.id, reward_name(party)))
    if kept is None:
        raise NotFound(f"{_NO_PART.format(party)}, so that it has no reward")
    digest = sha256_hex(kept.content)
    award = settled.awards.get(party)
    is_of = _rewards.get(digest, lambda: _reward_digest(kept.content))
    if award is None or is_of != award.digest or settled.decisions_digest != _logged_decisions(session, round_):
        logging.getLogger(FAILURES).error(
            "the reward of %r in round %s is not the one that was decided (its file is %s); restore a backup",
            party,
            round_.id,
            digest,
        )
        raise Damaged(
            f"the reward of {party!r} that is kept here is not the one that was decided, so that it is not handed out; "
            "tell the operator, whose log has a line on it"
        )
    return kept.content, {"digest": digest, "reward": award.digest, "decisions": settled.decisions_digest}


def _logged_decisions(session: Session, round_: Round) -> Any:
    """Return the digest of the decisions according to the log, which is harder to change than the table of rounds."""
    text = select(Event.details_json).where(Event.round_id == round_.id, Event.kind == "settled")
    return json.loads(session.scalars(text).one())["decisions"]


def _handed_out(session: Session, round_: Round, party: str, says: dict[str, str]) -> Event | None:
    """Return the event that recorded that this very file was handed out; events of versions up to 0.7 never match."""
    there = (Event.round_id == round_.id, Event.kind == "reward-fetched", Event.actor == party)
    for event in session.scalars(select(Event).where(*there).order_by(Event.sequence)):
        details = json.loads(event.details_json)
        if all(details.get(name) == value for name, value in says.items()):
            return event
    return None


def _reward_digest(content: bytes) -> str:
    """Return the digest of the reward in a file, or an empty text if the file cannot be read."""
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


def _require_settled(round_: Round) -> None:
    if round_.state != "settled":
        raise Conflict(f"the round is {round_.state}, not settled yet; look again later", code="not-settled")


def _settlement(session: Session, round_: Round) -> Settlement:
    _require_settled(round_)
    where = (Result.round_id == round_.id, Result.name == SETTLEMENT)
    digest = session.scalars(select(Result.digest).where(*where)).one()
    return _parsed.get(digest, lambda: _read(session.scalars(select(Result.content).where(*where)).one()))


_parsed: SingleFlightCache[Settlement] = SingleFlightCache(_CACHED_SETTLEMENTS)
_rewards: SingleFlightCache[str] = SingleFlightCache(_CACHED_DIGESTS)


def _read(content: bytes) -> Settlement:
    return Settlement.parse(json.loads(content), name="the settlement of the round")
