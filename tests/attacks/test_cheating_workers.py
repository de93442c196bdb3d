"""An operator whose worker computes what it likes: degraded rewards are repeated as far as an auditor may see."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from client import exports
from equipoise._util.canonical import sha256_hex
from equipoise.client.verify.check import Check, check_export
from equipoise.estimate import Estimate
from equipoise.inference.posterior import Posterior
from equipoise.mediation import mediator
from equipoise.mediation.appraisal import Evaluator
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.requests import Evaluation, Request
from equipoise.mediation.settlement import Settlement
from equipoise_service.db import event_log
from equipoise_service.errors import Conflict
from equipoise_service.rules import events, results, rounds, settlements
from equipoise_service.rules.export import export
from program import run
from service.world import OPTIONS, World, agreement

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]

VALUES = "settling again gives the same values and targets"
REWARDS = "settling again gives the same rewards"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World.on(tmp_path_factory.mktemp("cheating") / "service")
    yield world
    world.context.close()


def settle(world: World, secret: str | None = None, version: str | None = None) -> tuple[str, Settlement]:
    """Settle a round with degraded rewards as a worker does, perhaps with another secret than the service's.

    `version` is what the service says settled it.
    """
    round_id = world.round(agreement(reward={"mechanism": "degraded", "rho": 1.0}), submitted=True)
    settlements.start(world.context, world.operator, round_id, OPTIONS)
    task = settlements.task_for(world.context, round_id)
    if secret is not None:
        task = replace(task, settings=task.settings.model_copy(update={"noise_secret": secret}))
    settlement = mediator.settle(task, FileJournal(None, task.inputs_digest), processes=1, progress=False)
    if version is not None:
        settlement = replace(settlement, environment={**settlement.environment, "equipoise": version})
    with world.context.database.writing(exclusive=True) as session:
        results.store(session, world.context, round_id, settlement, files=results.result_files(settlement))
    return round_id, settlement


@pytest.fixture(scope="module")
def honest(world: World) -> tuple[str, Settlement]:
    return settle(world)


def checks(world: World, round_id: str, folder: Path, secret: str | None = None) -> dict[str, Check]:
    """Check the export of a round by settling it again."""
    (folder / "round.zip").write_bytes(export(world.context, world.operator, round_id))
    found = check_export(folder / "round.zip", again=True, noise_secret=secret)
    return {check.title: check for check in found}


def secret_of(world: World, round_id: str) -> str:
    return rounds.disclose_path_secret(world.context, round_id)


def lie_about_pairs(
    bonus: dict[frozenset[str], float],
) -> Callable[[Evaluator, Request, Posterior], Evaluation]:
    """Make a worker that adds some nats to what some coalitions are worth."""
    value = Evaluator._value

    def lie(self: Evaluator, request: Request, posterior: Posterior) -> Evaluation:
        answer = value(self, request, posterior)
        if request.tau:
            return answer
        more = bonus.get(frozenset(request.coalition), 0.0)
        return replace(answer, value=Estimate(answer.value.value + more, answer.value.error))

    return lie


def test_an_honest_round_is_repeated_as_far_as_the_secret_allows(
    world: World, honest: tuple[str, Settlement], tmp_path: Path
) -> None:
    found = checks(world, honest[0], tmp_path)
    assert found[VALUES].outcome == "ok"
    assert found[REWARDS].outcome == "not repeatable"
    assert "noise-secret" in found[REWARDS].message
    assert {check.outcome for title, check in found.items() if title != REWARDS} == {"ok"}
    with_secret = checks(world, honest[0], tmp_path, secret_of(world, honest[0]))
    assert {check.outcome for check in with_secret.values()} == {"ok"}


def test_a_worker_that_adds_to_the_values_of_pairs_is_found_out(
    world: World, honest: tuple[str, Settlement], tmp_path: Path
) -> None:
    """The friend is west, the rival north: without repeating, everything about the round fits."""
    bonus = {frozenset({"south", "west"}): 0.9, frozenset({"north", "south"}): -0.9}
    with mock.patch.object(Evaluator, "_value", lie_about_pairs(bonus)):
        round_id, cheated = settle(world)
    assert cheated.awards["west"].attained.value > honest[1].awards["west"].attained.value + 0.5
    (tmp_path / "round.zip").write_bytes(export(world.context, world.operator, round_id))
    assert {check.outcome for check in check_export(tmp_path / "round.zip")} == {"ok"}
    found = checks(world, round_id, tmp_path)
    assert found[VALUES].outcome == "failed"
    assert "is stated as" in found[VALUES].message
    assert "standard errors away" in found[VALUES].message


def test_noise_of_another_secret_than_the_log_promised(world: World, tmp_path: Path) -> None:
    """An operator who tries secrets until the noise suits a friend can show neither secret to an auditor."""
    round_id, cheated = settle(world, secret="5a" * 32)
    assert any(award.tau > 0 for award in cheated.awards.values())
    assert checks(world, round_id, tmp_path)[VALUES].outcome == "ok"
    tried = checks(world, round_id, tmp_path, "5a" * 32)[VALUES]
    assert tried.outcome == "failed"
    assert "not the one that the log promised" in tried.message
    promised = checks(world, round_id, tmp_path, secret_of(world, round_id))[REWARDS]
    assert promised.outcome == "failed"
    assert "the reward of" in promised.message


def test_rewards_of_another_version_are_not_called_repeated(world: World, tmp_path: Path) -> None:
    """A service that blames another version for its noise leaves the auditor without an "ok", and with its name."""
    round_id, _ = settle(world, secret="5a" * 32, version="0.13.1")
    promised = checks(world, round_id, tmp_path, secret_of(world, round_id))[REWARDS]
    assert promised.outcome in ("failed", "not repeatable")
    assert promised.outcome == "failed" or "equipoise 0.13.1 then" in promised.message


def test_the_log_promises_the_secret_before_anybody_submits_and_tells_of_its_disclosure(
    world: World, honest: tuple[str, Settlement], tmp_path: Path
) -> None:
    round_id, _ = honest
    secret = secret_of(world, round_id)
    log = [one for one in events.list_events(world.context, world.operator) if one["round"] == round_id]
    assert log[0]["kind"] == "round-created"
    assert log[0]["details"]["path"] == sha256_hex(secret.encode())
    assert log[-1]["kind"] == "noise-secret-disclosed"
    assert secret not in json.dumps(log)
    other = rounds.create(world.context, world.operator, agreement(title="Another", reward={"mechanism": "degraded"}))
    assert secret_of(world, other) != secret
    with pytest.raises(Conflict, match="nothing about them is secret"):
        rounds.disclose_path_secret(world.context, world.round())


@contextmanager
def without_promise() -> Iterator[None]:
    """Write events as versions up to 0.14 did, or as a service that does not want to commit itself does."""
    append = event_log.append

    def append_without_promise(*args: object, **details: object) -> object:
        details.pop("path", None)
        return append(*args, **details)  # type: ignore[arg-type]

    with mock.patch.object(event_log, "append", append_without_promise):
        yield


def test_a_secret_that_the_log_did_not_commit_to_proves_nothing(tmp_path: Path) -> None:
    world = World.on(tmp_path / "service")
    with without_promise():
        round_id, _ = settle(world, secret="5a" * 32)
    found = checks(world, round_id, tmp_path, "5a" * 32)
    assert found[VALUES].outcome == "ok"
    assert found[REWARDS].outcome == "not repeatable"
    assert "the log did not commit to it" in found[REWARDS].message
    world.context.close()


def test_an_agreement_whose_rounds_an_older_version_made_keeps_its_secret(world: World) -> None:
    """Two noises of the same releases could be averaged away."""
    agreed = agreement(title="Since 0.14", reward={"mechanism": "degraded"})
    with without_promise():
        old = rounds.create(world.context, world.operator, agreed)
    new = rounds.create(world.context, world.operator, agreed)
    with pytest.raises(Conflict, match="one secret for all agreements.*--all-agreements"):
        secret_of(world, new)
    shared = {rounds.disclose_path_secret(world.context, one, all_agreements=True) for one in (old, new)}
    assert shared == {world.context.path_secret(None)}
    told = events.list_events(world.context, world.operator)[-1]
    assert told["details"] == {"reach": "agreements that a version up to 0.14 knew"}
    assert events.list_events(world.context, world.operator)[-3]["details"]["path"] == sha256_hex(
        world.context.path_secret(None).encode()
    )


def test_the_commands_of_operator_and_auditor(world: World, honest: tuple[str, Settlement], tmp_path: Path) -> None:
    round_id, _ = honest
    files = exports.unpacked(export(world.context, world.operator, round_id))
    exports.pack(tmp_path / "round.zip", files)
    partly = run("verify", "round.zip", "--again", cwd=tmp_path, code=13)
    assert "The export is consistent." in partly.stdout
    assert f"not repeatable  {REWARDS}" in partly.stdout
    data = world.context.folder
    run("operator", "noise-secret", round_id, "--data", data, "-o", "noise.secret", cwd=tmp_path)
    secret = tmp_path / "noise.secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    run("verify", "round.zip", "--again", "--noise-secret", "noise.secret", cwd=tmp_path)
    run("verify", "round.zip", "--noise-secret", "noise.secret", cwd=tmp_path, code=2)
    secret.write_text("not a secret")
    refused = run("verify", "round.zip", "--again", "--noise-secret", "noise.secret", cwd=tmp_path, code=12)
    assert "64 hexadecimal digits" in refused.stderr
