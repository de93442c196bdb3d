"""One small settled round, and what can be made of it without sampling again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import equipoise as eq
import rounds
import run_folder
from equipoise.mediation.settlement import Award, Settlement
from tiers import needs_engine


@pytest.fixture(scope="session")
@needs_engine("gaussian")
def settled() -> Settlement:
    """Three parties, a mean and a variance, rewards by tempering."""

    def settle(folder: Path) -> None:
        agreed = rounds.agreement("gaussian")
        sent = rounds.submissions(agreed, folder / "ledgers", (8.0, 2.0, 0.5))
        test: Any = (None, [0.1, 0.9, 1.2])
        eq.mediate(agreed, sent, seed=3, draws=1_000, precision=0.2, processes=1, test=test, folder=folder / "out")

    return eq.Settlement.load(run_folder.once("report-round", settle) / "out")


@pytest.fixture(scope="session")
def noised(settled: Settlement) -> Settlement:
    """As if rewards had been made by adding noise."""
    curve = tuple(
        replace(point, kappa=1.0, tau=place + 1.0, recipient=party)
        for party in settled.parties[1:]
        for place, point in enumerate(sorted(settled.curve, key=lambda one: -one.value.value))
    )
    awards = {
        party: replace(award, kappa=1.0, tau=0.0 if award.kappa == 1 else 2.5)
        for party, award in settled.awards.items()
    }
    return replace(settled, options=settled.options | {"mechanism": "noise"}, curve=curve, awards=awards)


def renamed(settlement: Settlement, names: dict[str, str]) -> Settlement:
    """The same settlement among parties with other names."""
    document = settlement.agreement.model_dump(mode="json")
    for party in document["parties"]:
        party["name"] = names[party["name"]]

    def many(members: Any) -> tuple[str, ...]:
        return tuple(names[name] for name in members)

    def award(one: Award) -> Award:
        epsilons = {names[name]: epsilon for name, epsilon in one.epsilons.items()}
        return replace(one, party=names[one.party], team=many(one.team), epsilons=epsilons)

    return replace(
        settlement,
        agreement=eq.Agreement.model_validate(document),
        contributions={names[party]: one for party, one in settlement.contributions.items()},
        teams=tuple(map(many, settlement.teams)),
        coalitions=tuple(replace(one, members=many(one.members)) for one in settlement.coalitions),
        shapley={names[party]: one for party, one in settlement.shapley.items()},
        curve=tuple(
            replace(one, team=many(one.team), recipient=one.recipient and names[one.recipient])
            for one in settlement.curve
        ),
        awards={names[party]: award(one) for party, one in settlement.awards.items()},
    )
