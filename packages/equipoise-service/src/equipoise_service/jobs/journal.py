"""Answers of a settlement in the database: a journal that several workers share.

All workers can read an answer once `put` returns. If two workers answer the same request, the first answer is kept and
both continue with it. A worker that no longer holds its job cannot store answers.
"""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import case, select, update
from sqlalchemy.orm import Session

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise.mediation.journal import name_of
from equipoise_service.context import Context
from equipoise_service.db.database import insert_or_ignore
from equipoise_service.db.tables import Answer, Job
from equipoise_service.jobs import queue
from equipoise_service.jobs.heartbeat import Heartbeat
from equipoise_service.jobs.lease import retry

# Keys in one query.
CHUNK = 500


class DatabaseJournal:
    """The journal (`equipoise.mediation.journal.Journal`) of one settlement, for a worker that holds one of its jobs.

    It knows the answers that `read_all` or `read` found in the database, and those that were put through it.
    """

    def __init__(self, context: Context, heartbeat: Heartbeat, inputs: str) -> None:
        self._context, self._heartbeat, self._inputs = context, heartbeat, inputs
        self._round_id = heartbeat.claim.round_id
        self._known: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, key: dict[str, Any]) -> bool:
        return _digest(key) in self._known

    def __getitem__(self, key: dict[str, Any]) -> Any:
        return self._known[_digest(key)]

    def read_all(self) -> None:
        """Read all answers that the database holds for these inputs."""
        self._read(None)

    def read(self, keys: Iterable[dict[str, Any]]) -> None:
        """Read answers to some requests that other workers may have stored."""
        digests = [digest for digest in map(_digest, keys) if digest not in self._known]
        for first in range(0, len(digests), CHUNK):
            self._read(digests[first : first + CHUNK])

    def put(self, key: dict[str, Any], result: Any) -> None:
        """Store an answer, as soon as the database can; raise `LostJobError` if this worker no longer holds the job."""
        digest = _digest(key)
        row = {"key_json": name_of(key), "result_json": canonical_json(result).decode("ascii")}
        kept = retry(lambda: self._put(digest, row), self._heartbeat.stop)
        self._known[digest] = json.loads(kept)

    def _put(self, digest: str, row: dict[str, str]) -> str:
        self._heartbeat.check()
        kept = row["result_json"]
        with self._context.database.writing() as session:
            if insert_or_ignore(session, Answer, round_id=self._round_id, inputs=self._inputs, digest=digest, **row):
                self._count(session)
            else:
                kept = session.scalars(select(Answer.result_json).where(*self._of(), Answer.digest == digest)).one()
            # This comes last, so that all workers lock rows in the same order: a settlement's before its batches'.
            queue.update_claimed(session, self._heartbeat.claim, attempts=1)
        return kept

    def _count(self, session: Session) -> None:
        """Count the answer as progress, and forget earlier losses of workers, because the settlement advances."""
        session.execute(
            update(Job)
            .where(Job.round_id == self._round_id, Job.kind == "settlement", Job.state.in_(queue.ACTIVE))
            .values(
                finished_of_planned=case(
                    (Job.finished_of_planned < Job.planned, Job.finished_of_planned + 1),
                    else_=Job.finished_of_planned,
                ),
                attempts=case((Job.attempts > 1, 1), else_=Job.attempts),
            )
            .execution_options(synchronize_session=False)
        )

    def _read(self, digests: list[str] | None) -> None:
        wanted = select(Answer.digest, Answer.result_json).where(*self._of())
        if digests is not None:
            wanted = wanted.where(Answer.digest.in_(digests))

        def fetch() -> dict[str, Any]:
            with self._context.database.reading() as session:
                return {digest: json.loads(result) for digest, result in session.execute(wanted)}

        self._known |= retry(fetch, self._heartbeat.stop)

    def _of(self) -> tuple[Any, ...]:
        return Answer.round_id == self._round_id, Answer.inputs == self._inputs


def _digest(key: dict[str, Any]) -> str:
    return sha256_hex(name_of(key).encode("ascii"))
