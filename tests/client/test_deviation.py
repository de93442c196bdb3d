"""A service whose operator left the agreement: members, readers of the dashboard and verifiers are told."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from client.listening import Commands, known_member
from equipoise.client.local_files import made_otherwise
from equipoise.errors import VerificationError
from equipoise.inference.scenario import Scenario
from equipoise_service.errors import Invalid
from equipoise_service.options import Options
from equipoise_service.rules import authentication, results, settlements
from equipoise_service.rules.export import export
from service.api.society import settle
from service.world import World, agreement

WORDS = "rho = 0.05 was used where the agreement says 0.5"
CHOSEN = Options(rho=0.05, draws=500, precision=1.0)


@pytest.mark.engine
@pytest.mark.group("gaussian")
@pytest.mark.slow
def test_everybody_is_told(world: World, url: str, command: Commands, tmp_path: Path) -> None:
    round_id = world.round(agreement(reward={"rho": 0.5}), submitted=True)
    with pytest.raises(Invalid, match=f"{WORDS}.*--deviate"):
        settlements.start(world.context, world.operator, round_id, CHOSEN)
    settlements.start(world.context, world.operator, round_id, CHOSEN.model_copy(update={"deviate": True}))
    settle(world.context, round_id)

    north = command.at(tmp_path / "home")
    known_member(tmp_path / "home", url, world.context.public_key, "north")
    assert north("fetch")["deviations"] == [WORDS]
    north.said("fetch")
    assert f"The agreement was not kept: {WORDS}." in north.errors

    shown = results.summary(world.context, world.parties["north"], round_id)
    assert shown["deviations"] == [WORDS]
    assert {one["code"]: one["verdict"] for one in shown["audit"]}["P3"] == "fails"
    session = authentication.start_session(world.context, world.parties["north"])
    for page, mark in ((f"/rounds/{round_id}", "trouble fails"), (f"/rounds/{round_id}/mine", "alarm fails")):
        text = httpx.get(f"{url}{page}", cookies={"equipoise_session": session}).text
        assert f'<p class="{mark}">' in text
        assert WORDS in text

    (tmp_path / "round.zip").write_bytes(export(world.context, world.operator, round_id))
    with pytest.raises(VerificationError, match=f"the agreement was not kept: {WORDS}") as refused:
        command.said("verify", "round.zip")
    assert refused.value.exit_code == 12


@pytest.mark.parametrize(
    ("scenario", "agreed", "left", "told"),
    [
        (Scenario(("north",), kappa=0.3), "tempering", (), ""),
        (Scenario(("north",), tau={"north": 4.0}), "noise", (), ""),
        (Scenario(("north",)), "noise", (), ""),  # all of it
        (Scenario(("north",), kappa=0.0), "noise", (), ""),  # nothing of it
        (Scenario(("north",), kappa=0.3), "noise", (), 'mechanism = "tempering" was used'),
        (Scenario(("north",), tau={"north": 4.0}), "tempering", (), 'mechanism = "noise" was used'),
        (Scenario(("north",), tau={"north": 4.0}), "tempering", ("mechanism",), ""),
        (Scenario(("north", "south"), tau={"south": 4.0}), "degraded", (), ""),
        (Scenario(("north", "south"), tau={"south": 4.0}), "noise", (), 'mechanism = "degraded" was used'),
        (Scenario(("north", "south"), tau=dict.fromkeys(("north", "south"), 4.0)), "degraded", (), '"noise" was used'),
    ],
)
def test_a_reward_that_hides_how_it_was_made(scenario: Scenario, agreed: str, left: tuple[str, ...], told: str) -> None:
    terms = agreement(reward={"mechanism": agreed, "operator_may_choose": list(left)})
    reward: Any = SimpleNamespace(party="north", posterior=SimpleNamespace(scenario=scenario), agreement=terms)
    found = made_otherwise(reward)
    assert len(found) == bool(told)
    assert all(told in words for words in found)
