"""Exports of a round as one file (`equipoise.protocol.export`), which anybody with the public key can check offline.

The file shows one round at one moment.
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

# The earliest time that a zip file can hold. With a constant time, equal contents make equal files.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def export(context: Context, actor: Actor | None, round_id: str) -> bytes:
    """Return a zip file: agreement, submissions, receipts, log, answers and, once settled, settlement and rewards."""
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
    """Return the log as it is exported, with events about other rounds and people reduced to their links.

    Events of versions up to 0.7 are exported in full: reduced to links, their chain of digests could not be checked.
    """
    people = concerned(log, round_id)

    def is_shown(event: dict[str, Any]) -> bool:
        if event["round"] is not None:
            return bool(event["round"] == round_id)
        return event["sequence"] == 1 or event["details"].get("person") in people

    return [event if "salt" not in event or is_shown(event) else link_of(event) for event in log]


def _files(session: Session, round_id: str, log: list[dict[str, Any]]) -> dict[str, bytes]:
    round_ = get_round(session, round_id)
    files = {AGREEMENT: round_.agreement_json.encode("ascii") + b"\n"}
    for row in session.scalars(select(SubmissionRow).where(SubmissionRow.round_id == round_id)):
        files[file_of("submissions", row.party)] = row.content
        files[file_of("receipts", row.party)] = row.receipt
    for result in session.scalars(select(Result).where(Result.round_id == round_id)):
        files[result.name] = result.content
    by_noise = SETTLEMENT in files and json.loads(files[SETTLEMENT])["options"]["mechanism"] == "noise"
    if by_noise and round_.noise_secret is not None:
        files[NOISE] = round_.noise_secret.encode("ascii")
    files[EVENTS] = _lines(log)
    answers = select(Answer).where(Answer.round_id == round_id).order_by(Answer.inputs, Answer.digest)
    files[ANSWERS] = _lines(
        {"inputs": row.inputs, "key": json.loads(row.key_json), "result": json.loads(row.result_json)}
        for row in session.scalars(answers)
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
