"""A round whose valuations are shared among workers: it does not matter who answers what, nor in which batches."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import equipoise as eq
from equipoise.errors import MediationError
from equipoise.inference import diagnostics
from equipoise.mediation import appraisal
from equipoise.mediation.audit import audited
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.mediator import JOURNAL, appraise, mediate, settle
from equipoise.mediation.requests import Evaluation, Request
from equipoise.mediation.task import Task, task_of
from equipoise.report import fragment

pytestmark = [pytest.mark.engine, pytest.mark.group("rounds")]

QUICK: dict[str, Any] = {"draws": 1_200, "precision": 0.2}
HERE: dict[str, Any] = {"processes": 1, "progress": False}


@pytest.mark.slow
def test_other_workers_in_other_batches_decide_the_same(
    agreed: eq.Agreement, sent: list[eq.Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers, who see requests only as JSON, answer most of them; the driver is left with every seventh."""
    alone = mediate(agreed, sent, seed=5, **QUICK, **HERE)
    task = task_of(agreed, sent[::-1], seed=5, **QUICK)
    journal = FileJournal(None, task.inputs_digest)
    handed_out: list[Request] = []
    left = 0

    def dispatch(what: str, requests: Sequence[Request]) -> None:
        nonlocal left
        assert what
        taken = [one for place, one in enumerate(reversed(requests)) if place % 7 != 3]
        left += len(requests) - len(taken)
        received = [Request.from_json(json.loads(json.dumps(one.to_json()))) for one in taken]
        assert received == taken
        handed_out.extend(taken)
        first = task_of(agreed, sent, seed=5, **QUICK)  # each makes the task for itself
        assert first.inputs_digest == task.inputs_digest
        for worker, batch in ((first, received[::2]), (task, received[1::2])):
            for start in range(0, len(batch), 3):
                appraise(worker, batch[start : start + 3], journal, **HERE)

    drawn_here: list[Request] = []
    value = appraisal.Evaluator._value

    def note(self: appraisal.Evaluator, request: Request, posterior: Any) -> Evaluation:
        if self._dispatch is not None:
            drawn_here.append(request)
        return value(self, request, posterior)

    monkeypatch.setattr(appraisal.Evaluator, "_value", note)
    together = settle(task, journal, dispatch=dispatch, **HERE)
    assert together == alone
    assert len(handed_out) > 7
    assert len(drawn_here) == left > 0
    assert not set(handed_out) & set(drawn_here)
    for party in alone.parties:
        assert together.awards[party].digest == alone.awards[party].digest


def test_a_worker_answers_once_and_leaves_doubts_to_the_driver(
    agreed: eq.Agreement, sent: list[eq.Submission], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnostics, "ESS_LIMIT", 1e6)
    task = task_of(agreed, sent, draws=10)
    journal = FileJournal(None, task.inputs_digest)
    request = Request(task.parties, 10, seed=1)
    appraise(task, [request, request], journal, **HERE)
    assert len(journal) == 1
    answer = journal[request.to_json()]
    assert answer["problems"]
    appraise(task, [request], journal, **HERE)
    assert journal[request.to_json()] is answer  # found, not sampled again


def test_a_task_has_the_inputs_of_the_folder_it_was_settled_in(
    agreed: eq.Agreement, sent: list[eq.Submission], settled: eq.Settlement, out: Path
) -> None:
    inputs = json.loads((out / JOURNAL).read_text().splitlines()[0])["inputs"]
    task = task_of(agreed, sent, seed=3, **QUICK)
    assert task.inputs_digest == inputs
    assert task.settings.options == settled.options
    assert task.contributions == settled.contributions
    others = (
        task_of(agreed, sent, seed=4, **QUICK),
        task_of(agreed, sent[:2], seed=3, partial=True, **QUICK),
        task_of(agreed, sent, seed=3, force=True, **QUICK),
        task_of(agreed, sent, seed=3, teams=[["north"], ["south", "west"]], **QUICK),
    )
    assert len({inputs, *(one.inputs_digest for one in others)}) == 5


def test_the_noise_of_a_task_is_secret_unless_given_or_kept(
    agreed: eq.Agreement, sent: list[eq.Submission], tmp_path: Path
) -> None:
    def noisy(**options: Any) -> Task:
        return task_of(agreed, sent, mechanism="noise", **options)

    assert noisy().inputs_digest != noisy().inputs_digest
    assert noisy(folder=tmp_path / "new").inputs_digest == noisy(folder=tmp_path / "new").inputs_digest
    assert noisy(noise_secret="5a" * 16).inputs_digest == noisy(noise_secret="5a" * 16).inputs_digest


def test_requests_travel_as_json() -> None:
    request = Request(("north", "west"), 100, 7, 0.25, 1.5, 2**52 - 1, (("west", 0.5),))
    document = request.to_json()
    assert Request.from_json(json.loads(json.dumps(document))) == request
    assert Request.from_json(document | {"kappa": 1}).to_json()["kappa"].hex() == "0x1.0000000000000p+0"


def test_a_settlement_is_kept_as_a_document(settled: eq.Settlement, out: Path) -> None:
    """Without draws its audit cannot be repeated; the document has it as it was found."""
    document = json.loads((out / "settlement.json").read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(settled.to_document()))
    kept = json.loads(json.dumps(document))
    parsed = eq.Settlement.parse(document)
    assert document == kept
    assert parsed.decisions == settled.decisions
    assert all(award.reward is None for award in parsed.awards.values())
    assert parsed.audit == settled.audit
    assert fragment(parsed) == fragment(settled)
    assert fragment(parsed, party="west") == fragment(settled, party="west")
    unaudited = eq.Settlement.parse(settled.to_json())
    with pytest.raises(MediationError, match="was not audited"):
        _ = unaudited.audit
    assert audited(unaudited).audit["P3"].verdict == "cannot tell"
    changes: list[dict[str, Any]] = [{"agreement": {}}, {"identity": "0" * 64}, {"awards": []}, {"format": "other"}]
    for broken in [{}, *(document | change for change in changes)]:
        with pytest.raises(MediationError, match="the document cannot be read as a settlement"):
            eq.Settlement.parse(broken)
