"""Options of a release: one object for Python, the client and the command line."""

from dataclasses import fields
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import equipoise as eq
from equipoise.agreement.templates import example_agreement
from equipoise.cli.releasing import release_options
from equipoise.errors import AgreementError
from equipoise.party.options import ReleaseOptions

AGREEMENT = eq.Agreement.parse(example_agreement("gaussian"))
ROWS = np.full(9, 120.0)


def test_options_and_single_ones_by_name_mean_the_same(tmp_path: Path) -> None:
    options = ReleaseOptions(epsilon=0.5, cap_zcdp=2.0, family="patients")
    first = eq.release(AGREEMENT, ROWS, options, party="north", ledger=tmp_path / "a")
    second = eq.release(
        AGREEMENT, ROWS, ReleaseOptions(epsilon=2.0, family="patients"), party="north", ledger=tmp_path / "b",
        epsilon=0.5, cap_zcdp=2.0,
    )  # fmt: skip
    assert first.stated == second.stated
    histories = [eq.Ledger(tmp_path / name).read() for name in "ab"]
    assert [(history.cap_zcdp, history.family) for history in histories] == [(2.0, "patients")] * 2
    seen = eq.preview(AGREEMENT, ROWS, options, party="north", ledger=tmp_path / "c")
    assert seen.submission.stated == first.stated


def test_an_option_that_does_not_exist_spends_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="there is no option 'epsilom' of a release; there are epsilon, zcdp"):
        eq.release(AGREEMENT, ROWS, party="north", ledger=tmp_path / "ledger", epsilom=1.0)
    with pytest.raises(AgreementError, match="exactly one"):
        eq.release(AGREEMENT, ROWS, party="north", ledger=tmp_path / "ledger")
    assert not list(tmp_path.iterdir())


def test_the_command_line_has_every_option_with_its_default() -> None:
    names = [field.name for field in fields(ReleaseOptions)]
    seen = []

    @release_options(*names)
    def command(options: ReleaseOptions, other: int = 1) -> None:
        seen.append((options, other))

    assert list(command.__annotations__) == [*names, "other", "return"]
    assert get_args(command.__annotations__["cohort"])[0] is str
    command(**{field.name: field.default for field in fields(ReleaseOptions)} | {"epsilon": 1.0}, other=2)
    assert seen == [(ReleaseOptions(epsilon=1.0), 2)]
