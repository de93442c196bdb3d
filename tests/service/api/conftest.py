"""One service with everybody in it, for all tests that change nothing others look at."""

from collections.abc import Iterator

import pytest

from service.api.society import Society, society
from tiers import needs_engine


@pytest.fixture(scope="session")
@needs_engine("bernoulli")
def everybody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Society]:
    made = society(tmp_path_factory.mktemp("society"))
    yield made
    made.caller.close()
    made.context.close()
