"""One settled round, which tests only look at; whatever changes something gets a service of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import equipoise as eq
from equipoise.mediation.settlement import Settlement
from service.pages.dashboard import World, agreement, sent, settle, world
from tiers import needs_engine


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[eq.Agreement, list[eq.Submission]]:
    """What three parties send for a hostile agreement."""
    agreed = agreement("gaussian")
    return agreed, sent(agreed, tmp_path_factory.mktemp("ledgers"))


@pytest.fixture(scope="session")
@needs_engine("gaussian")
def settlement(releases: tuple[eq.Agreement, list[eq.Submission]]) -> Settlement:
    """Of these releases."""
    return eq.mediate(*releases, seed=3, draws=400, precision=0.5, processes=1)


@pytest.fixture(scope="session")
def looked_at(
    tmp_path_factory: pytest.TempPathFactory,
    releases: tuple[eq.Agreement, list[eq.Submission]],
    settlement: Settlement,
) -> Iterator[tuple[World, str]]:
    """A service with a settled round, and the round's name."""
    made = world(tmp_path_factory.mktemp("service"))
    agreed, submissions = releases
    round_id = made.round_with(submissions, agreed)
    settle(made, round_id, settlement)
    yield made, round_id
    made.context.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[World]:
    """A service with an operator and an auditor."""
    made = world(tmp_path / "service")
    yield made
    made.context.close()
