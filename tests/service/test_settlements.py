"""Starting, watching, cancelling: what a worker is given, and what is refused before it."""

import pytest
from sqlalchemy import select, update

from equipoise_service.db.tables import Job, Round
from equipoise_service.errors import Conflict, Invalid, NotFound
from equipoise_service.options import Options
from equipoise_service.rules import events, rounds, settlements, submissions
from service.world import OPTIONS, PARTIES, World, agreement, sent


def _jobs(world: World) -> list[Job]:
    with world.context.database.reading() as session:
        return list(session.scalars(select(Job).order_by(Job.id)))


def _change(world: World, **values: object) -> None:
    with world.context.database.writing() as session:
        session.execute(update(Job).values(**values))


def test_a_worker_is_given_what_was_submitted_and_chosen(world: World) -> None:
    round_id = world.round(submitted=True)
    options = Options(rho=0.25, teams=(("west", "north"), ("south",)), draws=500, force=True)
    settlements.start(world.context, world.operator, round_id, options)
    task = settlements.task_for(world.context, round_id)
    assert task.agreement == agreement()
    assert [one.to_json() for one in task.submissions] == [sent()[name] for name in PARTIES]
    assert (task.rho, task.settings.draws, task.settings.force) == (0.25, 500, True)
    assert task.teams == (("north", "west"), ("south",))
    assert task.settings.noise_secret is None
    [job] = _jobs(world)
    assert (job.kind, job.state, job.round_id) == ("settlement", "waiting", round_id)
    assert rounds.get(world.context, world.auditor, round_id).state == "settling"
    last = events.list_events(world.context, world.operator)[-1]
    assert (last["kind"], last["details"]["seed"]) == ("settlement-started", task.seed)


@pytest.mark.parametrize("mechanism", ["noise", "degraded"])
def test_the_noise_secret_is_made_once_and_shown_to_nobody(world: World, mechanism: str) -> None:
    round_id = world.round(agreement(reward={"mechanism": mechanism}), submitted=True)
    settlements.start(world.context, world.operator, round_id, OPTIONS)
    secret = settlements.task_for(world.context, round_id).settings.noise_secret
    assert secret is not None
    assert len(secret) == {"noise": 32, "degraded": 64}[mechanism]
    settlements.cancel(world.context, world.operator, round_id)
    settlements.start(world.context, world.operator, round_id, OPTIONS)
    assert settlements.task_for(world.context, round_id).settings.noise_secret == secret
    with world.context.database.reading() as session:
        kept = session.get_one(Round, round_id).noise_secret
        path = world.context.path_secret(session.get_one(Round, round_id).identity)
        assert {"noise": kept, "degraded": path}[mechanism] == secret
        assert (kept == secret) == (mechanism == "noise")
    assert secret not in str(events.list_events(world.context, world.operator))


def test_only_an_open_round_with_submissions_can_be_started(world: World) -> None:
    round_id = world.round()
    with pytest.raises(Conflict, match="nobody has submitted") as refused:
        settlements.start(world.context, world.operator, round_id, OPTIONS)
    assert refused.value.code == "no-submissions"
    submissions.accept(world.context, world.parties["south"], round_id, sent()["south"])
    settlements.start(world.context, world.operator, round_id, OPTIONS)
    with pytest.raises(Conflict, match="settling"):
        settlements.start(world.context, world.operator, round_id, OPTIONS)
    with pytest.raises(Conflict, match="cancel the settlement first"):
        rounds.close(world.context, world.operator, round_id)
    with pytest.raises(NotFound):
        settlements.start(world.context, world.operator, "nothere", OPTIONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options(teams=(("north",), ("south",))), "exactly once"),
        (Options(teams=(("north", "south", "west", "nobody"),)), "nobody"),
        (Options(budget=50), "leave it out"),
    ],
)
def test_mistakes_are_found_at_once(world: World, options: Options, message: str) -> None:
    round_id = world.round(submitted=True)
    with pytest.raises(Invalid, match=message):
        settlements.start(world.context, world.operator, round_id, options)
    assert rounds.get(world.context, world.operator, round_id).state == "open"
    assert _jobs(world) == []


@pytest.mark.parametrize(
    "document",
    [
        [], {"seed": 1}, {"rho": 0}, {"rho": 1.5}, {"rho": "most"},
        {"mechanism": "magic"}, {"teams": []}, {"teams": [[]]}, {"teams": "north"}, {"teams": [["a b"]]},
        {"precision": 0}, {"precision": float("nan")}, {"precision": float("inf")}, {"draws": 1}, {"draws": 10**9},
        {"draws": 1000.5}, {"budget": 0}, {"force": 1}, {"processes": 4}, {"noise_secret": "0" * 32},
    ],
)  # fmt: skip
def test_options_are_read_strictly(document: object) -> None:
    with pytest.raises(Invalid, match="options of the settlement"):
        Options.read(document)


def test_options_are_read_from_json() -> None:
    read = Options.read({"rho": "max", "teams": [["north"], ["south", "west"]], "precision": 1})
    assert (read.rho, read.teams, read.precision) == ("max", (("north",), ("south", "west")), 1.0)
    assert Options.read(read.to_json()) == read


def test_a_cancelled_settlement_can_be_started_again(world: World) -> None:
    round_id = world.round(submitted=True)
    settlements.start(world.context, world.operator, round_id, OPTIONS)
    settlements.cancel(world.context, world.operator, round_id)
    [job] = _jobs(world)
    assert (job.state, job.ended) == ("cancelled", world.clock.now)
    assert rounds.get(world.context, world.operator, round_id).state == "open"
    with pytest.raises(Conflict, match="no settlement to cancel"):
        settlements.cancel(world.context, world.operator, round_id)
    settlements.start(world.context, world.operator, round_id, Options(draws=900))
    assert [job.state for job in _jobs(world)] == ["cancelled", "waiting"]
    assert settlements.task_for(world.context, round_id).settings.draws == 900


def test_progress_is_told_with_time_left(world: World) -> None:
    round_id = world.round(submitted=True)
    north = world.parties["north"]
    before = settlements.progress(world.context, north, round_id)
    assert (before.state, before.job_state, before.planned) == ("open", None, None)
    settlements.start(world.context, world.operator, round_id, OPTIONS)
    waiting = settlements.progress(world.context, north, round_id)
    assert (waiting.state, waiting.job_state, waiting.elapsed_s, waiting.left_s) == ("settling", "waiting", None, None)
    now = world.clock.now
    _change(
        world, state="running", stage="valuing", planned=8, finished_of_planned=2, began=now - 9000,
        stage_began=now - 4000,
    )  # fmt: skip
    running = settlements.progress(world.context, world.auditor, round_id)
    assert (running.stage, running.done, running.planned) == ("valuing", 2, 8)
    assert (running.elapsed_s, running.left_s) == (9.0, 12.0)
    world.clock.now -= 10**7  # the clock is set back
    back = settlements.progress(world.context, world.auditor, round_id)
    assert (back.elapsed_s, back.left_s) == (0.0, 0.0)
    _change(world, state="failed", problem="north is odd", ended=now)
    assert settlements.progress(world.context, world.operator, round_id).problem == "north is odd"
    assert "north" not in str(settlements.progress(world.context, north, round_id).problem)
