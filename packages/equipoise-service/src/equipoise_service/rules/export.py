"""The whole of a round as one file (`equipoise.protocol.export`), to be checked offline by whoever has the public key.

What is in the file is of one moment, and about one round.
"""

import io
import json
import zipfile
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from equipoise._util.canonical import canonical_json
from equipoise.protocol.export import AGREEMENT, ANSWERS, EVENTS, MANIFEST, NOISE, SETTLEMENT, file_of, signed_manifest
from equipoise.protocol.log import concerned, link_of
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.tables import Answer, Result, SubmissionRow
from equipoise_service.rules.access import Actor, get_round, require, require_active

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest a zip file knows: what is the same is the same, whenever it is made


def export(context: Context, actor: Actor | None, round_id: str) -> bytes:
    """A zip file of agreement, submissions, receipts, event log, answers, and once settled settlement and rewards."""
    actor = require(actor, "export")
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        get_round(session, round_id)
        event_log.append(
            session, time=context.clock(), actor=actor.name, kind="exported", round_id=round_id, person=actor.person_id
        )
    with context.database.reading(snapshot=True) as session:
        log = event_log.documents(session)
        files = _files(session, round_id, _shown(log, round_id))
    time = max(context.clock(), log[-1]["time"])
    manifest = signed_manifest(context.key, round_id=round_id, time=time, files=files, head=log[-1])
    return _zipped({MANIFEST: manifest, **files})


def _shown(log: list[dict[str, Any]], round_id: str) -> list[dict[str, Any]]:
    """The log as it is exported: what is about other rounds and people is there as links alone.

    Events of versions up to 0.7 cannot be: the chain of their digests could not be checked.
    """
    people = concerned(log, round_id)

    def is_shown(event: dict[str, Any]) -> bool:
        if event["round"] is not None:
            return bool(event["round"] == round_id)
        return event["sequence"] == 1 or event["details"].get("person") in people

    return [event if "salt" not in event or is_shown(event) else link_of(event) for event in log]


def _files(session: Session, round_id: str, log: list[dict[str, Any]]) -> dict[str, bytes]:
    found = get_round(session, round_id)
    files = {AGREEMENT: found.agreement_json.encode("ascii") + b"\n"}
    for one in session.scalars(select(SubmissionRow).where(SubmissionRow.round_id == round_id)):
        files[file_of("submissions", one.party)] = one.content
        files[file_of("receipts", one.party)] = one.receipt
    for result in session.scalars(select(Result).where(Result.round_id == round_id)):
        files[result.name] = result.content
    by_noise = SETTLEMENT in files and json.loads(files[SETTLEMENT])["options"]["mechanism"] == "noise"
    if by_noise and found.noise_secret is not None:
        files[NOISE] = found.noise_secret.encode("ascii")
    files[EVENTS] = _lines(log)
    answers = select(Answer).where(Answer.round_id == round_id).order_by(Answer.inputs, Answer.digest)
    files[ANSWERS] = _lines(
        {"inputs": one.inputs, "key": json.loads(one.key_json), "result": json.loads(one.result_json)}
        for one in session.scalars(answers)
    )
    return dict(sorted(files.items()))


def _lines(documents: Any) -> bytes:
    return b"".join(canonical_json(document) + b"\n" for document in documents)


def _zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()
