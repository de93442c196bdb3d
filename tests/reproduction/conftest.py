"""The paper's settings, and one small sweep, for all tests that only look at them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise_paper import posteriors, settings, sources
from equipoise_paper.settings import Setting
from equipoise_paper.sweep import Run, Variation, vary_epsilon
from reproduction.small import TINY
from tiers import needs_engine

DATA = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session")
def data() -> Path:
    """Where the two public tables are."""
    if not (DATA / sources.HOUSING).is_file():
        pytest.skip(f"the two public tables are not in {DATA}")
    return DATA


@pytest.fixture(scope="session")
def syn() -> Setting:
    return settings.syn()


@pytest.fixture(scope="session")
def diab(data: Path) -> Setting:
    return settings.diab(data)


@pytest.fixture(scope="session")
@needs_engine("settings", slow=True)
def calih(data: Path) -> Setting:
    return settings.calih(data)


@pytest.fixture(scope="session")
def one_process() -> Iterator[None]:
    """Sample here: processes take longer to start than these posteriors to sample."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posteriors, "usable_cores", lambda: 1)
        yield


@pytest.fixture(scope="session")
@needs_engine("sweep", slow=True)
def runs(syn: Setting, one_process: None) -> list[Run]:
    """Party 2 of Syn at two levels of privacy: the strong one it has in the paper, and hardly any."""
    return vary_epsilon(syn, TINY, Variation(levels=(0.1, 12.5)))
