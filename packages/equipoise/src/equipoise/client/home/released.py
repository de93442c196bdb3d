"""Reader of own rows for a reward; it refuses a table whose release is not the one in the reward.

A reward carries its party's own submission. If somebody combines north's reward with south's table by mistake, south's
rows count twice and north's not at all, and nothing looks wrong. Two things tell the tables apart: the number of rows,
which is public, and the sums. The released sums are those of the table plus noise of a known variance, so that
Σ ((released − exact)/σ)² has a χ² distribution with as many degrees of freedom as there are sums.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import scipy

from equipoise.client.home.rows import OwnRows, columns_with_target, own_rows
from equipoise.errors import TableError
from equipoise.models import layout_of
from equipoise.party.statistics import exact_statistic
from equipoise.reward.model import Reward

# Sums of the right table are farther off with this probability, so that a refusal is never due to chance.
IMPROBABLE = 1e-9


def read_own_rows(reward: Reward, table: Any, *, allow_clipping: bool = False, other_rows: bool = False) -> OwnRows:
    """Read a party's own rows; refuse a table that was not released, unless `other_rows` allows it."""
    own = own_rows(reward.agreement, table, allow_clipping=allow_clipping)
    if reward.release is not None and not other_rows:
        _check_released(reward, table, own)
    return own


def _check_released(reward: Reward, table: Any, own: OwnRows) -> None:
    release = reward.release
    assert release is not None
    layout = layout_of(reward.agreement)
    exact = None
    if not own.without_target:
        exact = exact_statistic(layout, table)
    elif layout.individuals is None or layout.individuals.aggregate is None:
        # A release refuses rows without a target, so it was made of the table without them.
        exact = exact_statistic(layout, pa.table(columns_with_target(reward.agreement, table)[0]))
    count = len(own) if exact is None else exact.count
    remedy = (
        f"is it the table of {release.party!r}, in the agreed units? If rows were added, removed or corrected since "
        "the release, go on with --other-rows (other_rows=True)"
    )
    if count != release.count:
        raise TableError(
            f"this table has {count:,} rows, and the reward of {release.party!r} was made for a release of "
            f"{release.count:,}; {remedy}"
        )
    # If some rows of an individual lack a target, it is unknown which of them were released.
    if exact is None:
        return
    errors = np.subtract(release.statistic, exact.values, dtype=float) / layout.noise_steps(release.stated)
    if scipy.special.chdtrc(len(errors), float(errors @ errors)) < IMPROBABLE:
        raise TableError(
            f"the sums of this table are not those that {release.party!r} released, by more than the noise explains; "
            f"{remedy}"
        )
