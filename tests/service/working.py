"""Rounds that have everything but a settlement, for tests of the workers; and what a settlement is compared by."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import select

import equipoise as eq
import rounds
from equipoise._util.canonical import sha256_hex
from equipoise.mediation.settlement import Settlement
from equipoise_service.context import Context
from equipoise_service.db.tables import Person, Result, Round, Seat, SubmissionRow, serialize_agreement
from equipoise_service.rules.access import Actor

OPERATOR = Actor(1, "olga", "operator", None)
EPSILONS = (20.0, 40.0, 60.0)


def small(kind: str, folder: Path, parties: int) -> tuple[eq.Agreement, list[eq.Submission]]:
    """An agreement and its submissions."""
    agreed = rounds.agreement(kind, parties)
    return agreed, rounds.submissions(agreed, folder, EPSILONS[:parties])


def ready_round(context: Context, round_id: str, agreed: eq.Agreement, submissions: Sequence[eq.Submission]) -> str:
    """An open round with all submissions, as if they had been accepted."""
    with context.database.writing() as session:
        if session.get(Person, OPERATOR.person_id) is None:
            session.add(
                Person(id=1, name=OPERATOR.name, role="operator", state="approved", note="", requested=1, decided=1)
            )
        session.add(
            Round(
                id=round_id,
                title="",
                agreement_json=serialize_agreement(agreed),
                identity=agreed.identity,
                state="open",
                created=1,
            )
        )
        session.flush()
        for position, party in enumerate(agreed.party_names):
            session.add(Seat(round_id=round_id, party=party, position=position, invited=1))
        session.flush()
        for one in submissions:
            data = one.to_json()
            session.add(
                SubmissionRow(
                    round_id=round_id,
                    party=one.party,
                    person_id=OPERATOR.person_id,
                    submission_id=one.id,
                    digest=sha256_hex(data),
                    rows=one.count,
                    epsilon=repr(one.guarantee.epsilon),
                    content=data,
                    receipt=b"",
                    received=1,
                )
            )
    return round_id


def decided(settlement: Settlement) -> tuple[str, dict[str, str]]:
    """What must not depend on who worked, when and how often: all decisions, and every reward's draws."""
    return settlement.decisions, {party: award.digest for party, award in settlement.awards.items()}


def kept(context: Context, round_id: str) -> tuple[str | None, dict[str, str]]:
    """The same, as a service has it: what the round says, and the digests of the rewards in the kept files."""
    with context.database.reading() as session:
        round_ = session.get_one(Round, round_id)
        files = {one.name: one for one in session.scalars(select(Result).where(Result.round_id == round_id))}
    found = {}
    for name, file in files.items():
        assert sha256_hex(file.content) == file.digest
        if name.startswith("rewards/"):
            found[name.removeprefix("rewards/").removesuffix(".nc")] = _reward_digest(context, file.content)
    return round_.decisions, found


def _reward_digest(context: Context, content: bytes) -> str:
    path = context.folder / "reward-to-compare.nc"
    path.write_bytes(content)
    return eq.Reward.load(path).digest
