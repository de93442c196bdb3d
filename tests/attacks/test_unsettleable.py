"""A party that submits what nobody can settle with: refused, and where it is there already, left out by name."""

from pathlib import Path
from typing import Any

import pytest

import rounds as releases
from equipoise._util.canonical import sha256_hex
from equipoise.client.verify.check import check_export
from equipoise.errors import ConvergenceError, SubmissionError
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import GAVE_UP
from equipoise.mediation.appraisal import Evaluator
from equipoise.mediation.mediator import mediate
from equipoise.mediation.requests import Evaluation, Request
from equipoise.mediation.task import task_of
from equipoise.models import LARGEST_NOISE, layout_of
from equipoise.protocol.submission import StatedGuarantee, Submission
from equipoise_service.db.tables import SubmissionRow
from equipoise_service.errors import Conflict, Invalid, NotFound
from equipoise_service.options import Options
from equipoise_service.rules import events, results, rounds, settlements, submissions
from equipoise_service.rules.export import export
from equipoise_service.web.pages.rounds import parse_options
from service import conftest as services
from service.api.society import settle
from service.world import World, agreement, key_of, sent, signed

world = services.world
QUICK = Options(draws=500, precision=1.0)


def stated(epsilon: float) -> StatedGuarantee:
    return StatedGuarantee(order=agreement().privacy.order, epsilon=epsilon)


def noisiest() -> float:
    """The smallest ε that a release can state."""
    return agreement().privacy.order * 0.5 * (layout_of(agreement()).sensitivity / LARGEST_NOISE) ** 2


def hostile(**changes: Any) -> Submission:
    return signed(Submission.parse(sent()["north"]), key_of("north"), **changes)


HOSTILE: dict[str, dict[str, Any]] = {
    "least": {"guarantee": stated(5e-324)},
    "small": {"guarantee": stated(1e-300)},
    "noisier than numbers": {"guarantee": stated(0.99 * noisiest())},
    "high": {"statistic": [2**63 - 1] * 2},
    "low": {"statistic": [-(2**63)] * 2},
    "both": {"statistic": [-(2**63), 2**63 - 1]},
    "rows": {"count": 2**53},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_it_is_refused_wherever_it_arrives(kind: str, world: World) -> None:
    one = hostile(**HOSTILE[kind])
    with pytest.raises(SubmissionError, match="the submission of 'north'"):
        one.check(agreement())
    with pytest.raises(Invalid, match="the submission of 'north'"):
        submissions.accept(world.context, world.parties["north"], world.round(), one.to_json())
    with pytest.raises(SubmissionError, match="the submission of 'north'"):  # from a folder, or files
        task_of(agreement(), [one, Submission.parse(sent()["south"])], partial=True)


def stuck(world: World) -> str:
    """A round in which a submission lies that an earlier version took."""
    round_id = world.round(submitted=True)
    data = hostile(**HOSTILE["least"]).to_json()
    with world.context.database.writing() as session:
        kept = session.get_one(SubmissionRow, (round_id, "north"))
        kept.content, kept.digest = data, sha256_hex(data)
    return round_id


def test_the_operator_is_told_who_it_is_and_starts_without(world: World) -> None:
    round_id = stuck(world)
    with pytest.raises(Invalid, match=r"the submission of 'north' states epsilon .*--without"):
        settlements.start(world.context, world.operator, round_id, QUICK)
    without = QUICK.model_copy(update={"without": ("north",)})
    with pytest.raises(Invalid, match="'nobody' is no party"):
        settlements.start(world.context, world.operator, round_id, QUICK.model_copy(update={"without": ("nobody",)}))
    everybody = QUICK.model_copy(update={"without": ("north", "south", "west")})
    with pytest.raises(Conflict, match="nobody else has submitted"):
        settlements.start(world.context, world.operator, round_id, everybody)
    settlements.start(world.context, world.operator, round_id, without)
    assert settlements.task_for(world.context, round_id).parties == ("south", "west")
    started = events.list_events(world.context, world.operator)[-1]
    assert (started["kind"], started["details"]["options"]["without"]) == ("settlement-started", ["north"])
    seats = {seat.party: seat.left_out for seat in rounds.get(world.context, world.parties["south"], round_id).seats}
    assert seats == {"north": True, "south": False, "west": False}
    settlements.cancel(world.context, world.operator, round_id)
    assert not any(seat.left_out for seat in rounds.get(world.context, world.operator, round_id).seats)


@pytest.mark.engine
@pytest.mark.group("gaussian")
def test_a_settlement_without_somebody_says_so_and_verifies(world: World, tmp_path: Path) -> None:
    round_id = world.round(submitted=True)
    without = QUICK.model_copy(update={"without": ("north",)})
    settlements.start(world.context, world.operator, round_id, without)
    settle(world.context, round_id)
    assert results.settlement(world.context, world.operator, round_id).absent == ("north",)
    summary = results.summary(world.context, world.parties["south"], round_id)
    assert (summary["left_out"], summary["teams"]) == (["north"], [["south", "west"]])
    with pytest.raises(NotFound, match="took no part"):
        results.reward(world.context, world.parties["north"], round_id)
    path = tmp_path / "round.zip"
    path.write_bytes(export(world.context, world.operator, round_id))
    found = check_export(path)
    assert {one.outcome for one in found} == {"ok"}, found
    assert any("started without north" in one.message for one in found)


def test_the_page_takes_names() -> None:
    options, mistakes = parse_options({"without": " north, south "})
    assert mistakes == {}
    assert options is not None
    assert options.without == ("north", "south")
    assert parse_options({"without": "<north>"})[1] == {"without": "'<north>' cannot be used."}


@pytest.mark.slow
@pytest.mark.engine
def test_a_claim_of_absurdly_many_rows_is_settled_and_pointed_at(tmp_path: Path) -> None:
    """Eighty million rows with sums of 0 were sampled for ever in 0.14, and given up in 0.15."""
    agreed = releases.agreement("linear", 2)
    north, south = releases.submissions(agreed, tmp_path, (4.0, 4.0))
    zeros = [0] * len(north.statistic)
    claim = signed(north, key_of("north"), count=80_000_000, statistic=zeros)
    settlement = mediate(agreed, [claim, south], draws=500, precision=0.5, processes=1, progress=False)
    assert settlement.awards["north"].posterior.converged
    assert settlement.awards["south"].posterior.converged
    found = {(remark.kind, remark.parties) for remark in settlement.remarks}
    assert ("prior conflict", ()) in found
    assert ("unlike the others", ("north",)) in found


def test_who_is_to_blame_for_posteriors_that_have_not_converged() -> None:
    def answers(*failing: tuple[str, ...]) -> tuple[list[Request], list[Evaluation]]:
        every = [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]
        problems = dict.fromkeys(failing, ("R-hat is 2", f"{GAVE_UP} at last"))
        requests = [Request(coalition, 100, 0) for coalition in every]
        return requests, [
            Evaluation(Estimate(1.0, 0.1), 100, 1.0, 1e3, problems.get(coalition, ())) for coalition in every
        ]

    refuse = Evaluator._refuse
    refuse(None, *answers())  # type: ignore[arg-type]
    with pytest.raises(ConvergenceError, match="The release of 'b' is to blame: it is there by itself"):
        refuse(None, *answers(("b",), ("a", "b"), ("a", "b", "c")))  # type: ignore[arg-type]
    with pytest.raises(ConvergenceError, match="'b' is to blame: it is there in every coalition that has not"):
        refuse(None, *answers(("a", "b"), ("b", "c")))  # type: ignore[arg-type]
    with pytest.raises(ConvergenceError, match=r"posterior of \{a\}.*Ask for more draws"):
        refuse(None, *answers(("a",), ("b", "c")))  # type: ignore[arg-type]
