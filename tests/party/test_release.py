"""A release does what it says, in the order it says, and refuses before it touches data."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import equipoise.party.release as release_module
from builders import ALL_MODELS, linear, random_table, reference_statistic
from equipoise.agreement import Agreement
from equipoise.errors import (
    AgreementError,
    BudgetError,
    ClippingWarning,
    EquipoiseError,
    GuaranteeError,
    KeyFileError,
    LedgerError,
    PrivacyError,
    SubmissionError,
    TableError,
)
from equipoise.models import layout_of
from equipoise.models.guarantee import Guarantee
from equipoise.party.ledger import Ledger
from equipoise.party.mechanism import noise_scale, perturb
from equipoise.party.release import Plan, certified_zcdp, preview, release, resend
from equipoise.protocol.keys import create_key, load_key, load_or_create_key, public_hex
from equipoise.protocol.submission import Submission

AGREED = linear(1, max_epsilon=2.0)
TABLE = np.ones((10, 2))


class Untouchable:
    """A table that fails the test if anyone so much as looks at it."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError("the table was touched")


@pytest.mark.parametrize("name", ALL_MODELS)
def test_released_statistic_is_the_exact_one_plus_the_agreed_noise(name: str, tmp_path: Path) -> None:
    agreed = ALL_MODELS[name]
    table = random_table(agreed, 50, seed=5)
    import pyarrow as pa

    submission = release(agreed, pa.table(table), party="north", epsilon=50.0, ledger=tmp_path / "l")
    submission.check(agreed)
    layout = layout_of(agreed)
    deviations = layout.noise_deviations(agreed.guarantee(epsilon=50.0))
    exact = [float(value) for value in reference_statistic(agreed, table)]
    z = [(o - s) / d for o, s, d in zip(submission.values(agreed), exact, deviations, strict=True)]
    assert np.abs(z).max() < 6
    assert submission.count == 50


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"party": "east"}, AgreementError, "not a party"),
        ({"epsilon": 0}, EquipoiseError, "positive"),
        ({"epsilon": 3.0}, AgreementError, "above the agreed maximum"),
        ({"epsilon": None}, AgreementError, "exactly one way"),
        ({"zcdp": 0.1}, AgreementError, "exactly one way"),
        ({"cap_zcdp": 0.01}, BudgetError, "more than the cap"),
        ({"key": "nowhere.key"}, KeyFileError, "cannot read the key"),
    ],
)
def test_refused_before_the_table_is_touched(
    options: dict[str, Any], error: type[Exception], says: str, tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {"party": "north", "epsilon": 1.0, "ledger": tmp_path / "l", **options}
    for action in (release, preview):
        with pytest.raises(error, match=says):
            action(AGREED, Untouchable(), **arguments)
    assert list(tmp_path.iterdir()) == []


def test_spent_budget_is_refused_before_the_table_is_touched(tmp_path: Path) -> None:
    release(AGREED, TABLE, party="north", epsilon=1.0, ledger=tmp_path / "l")
    with pytest.raises(BudgetError, match="already released under this agreement"):
        release(AGREED, Untouchable(), party="north", epsilon=1.0, ledger=tmp_path / "l")
    with pytest.raises(BudgetError, match="of the cap"):
        release(AGREED, Untouchable(), party="north", epsilon=1.0, ledger=tmp_path / "l", again=True)


def test_bad_table_charges_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="missing"):
        release(AGREED, np.array([[1.0, np.nan]]), party="north", epsilon=1.0, ledger=tmp_path / "l")
    assert list(tmp_path.iterdir()) == []


def test_spend_is_on_disk_before_noise_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the moment noise is drawn the spend has been written and fsynced, and so has its folder."""
    import os

    synced: list[str] = []
    real_fsync = os.fsync

    def watched_fsync(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real_fsync(handle)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    seen: list[int] = []

    def spy(*arguments: Any, **options: Any) -> list[int]:
        assert str(tmp_path / "l") in synced
        assert str(tmp_path) in synced
        seen.append(len(Ledger(tmp_path / "l").read().spends))
        return perturb(*arguments, **options)

    monkeypatch.setattr(release_module, "perturb", spy)
    release(AGREED, TABLE, party="north", epsilon=1.0, ledger=tmp_path / "l")
    assert seen == [1]


def test_failure_after_the_spend_counts_as_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> list[int]:
        raise RuntimeError("the power went")

    monkeypatch.setattr(release_module, "perturb", broken)
    with pytest.raises(RuntimeError):
        release(AGREED, TABLE, party="north", epsilon=1.0, ledger=tmp_path / "l")
    monkeypatch.undo()
    history = Ledger(tmp_path / "l").read()
    assert history.total_zcdp == 0.5
    assert len(history.unfinished) == 1
    with pytest.raises(BudgetError, match="was cut off and counts all the same"):
        release(AGREED, TABLE, party="north", epsilon=1.0, ledger=tmp_path / "l")
    with pytest.raises(BudgetError, match="1 recorded spend was never finished.*count all the same"):
        release(AGREED, TABLE, party="north", epsilon=1.0, ledger=tmp_path / "l", again=True)


def test_resending_is_free_and_identical(tmp_path: Path) -> None:
    submission = release(AGREED, TABLE, party="north", epsilon=1.0, ledger=tmp_path / "l")
    before = (tmp_path / "l").read_bytes()
    assert resend(AGREED, party="north", ledger=tmp_path / "l").to_json() == submission.to_json()
    assert (tmp_path / "l").read_bytes() == before
    with pytest.raises(LedgerError, match="no finished submission of 'south'"):
        resend(AGREED, party="south", ledger=tmp_path / "l")


def test_noise_anew_always_costs(tmp_path: Path) -> None:
    first = release(AGREED, TABLE, party="north", epsilon=0.5, ledger=tmp_path / "l", cap_zcdp=1.0)
    second = release(AGREED, TABLE, party="north", epsilon=0.5, ledger=tmp_path / "l", again=True)
    assert first.statistic != second.statistic
    assert first.id != second.id
    assert Ledger(tmp_path / "l").read().total_zcdp == 0.5
    assert resend(AGREED, party="north", ledger=tmp_path / "l") == second


def test_preview_spends_nothing_and_shows_no_data(tmp_path: Path) -> None:
    """The previewed numbers are noise around zero: rows at the upper bound would show as sums near +20000."""
    agreed = linear(1, max_epsilon=100.0)
    table = np.tile([2.0, 10.0], (20_000, 1))
    seen = preview(agreed, table, party="north", epsilon=100.0, ledger=tmp_path / "l")
    assert list(tmp_path.iterdir()) == []
    assert max(abs(value) for value in seen.submission.values(agreed)) < 100
    assert seen.submission.count == 20_000
    real = release(agreed, table, party="north", epsilon=100.0, ledger=tmp_path / "l")
    assert min(real.values(agreed)) > 19_000
    assert set(real.model_dump()) == set(seen.submission.model_dump())


def test_three_ways_to_state_one_guarantee(tmp_path: Path) -> None:
    approx_epsilon = AGREED.guarantee(epsilon=0.5).epsilon_at(1e-6)
    ways: list[dict[str, Any]] = [{"epsilon": 0.5}, {"zcdp": 0.25}, {"approx": (approx_epsilon, 1e-6)}]
    stated = [
        release(AGREED, TABLE, party="north", ledger=tmp_path / f"{k}", **way).guarantee.epsilon
        for k, way in enumerate(ways)
    ]
    assert stated == pytest.approx([0.5, 0.5, 0.5], rel=1e-6)


def test_key_beside_the_ledger_is_kept(tmp_path: Path) -> None:
    first = release(AGREED, TABLE, party="north", epsilon=0.5, ledger=tmp_path / "l", cap_zcdp=1.0)
    second = release(AGREED, TABLE, party="north", epsilon=0.5, ledger=tmp_path / "l", again=True)
    assert first.public_key == second.public_key == public_hex(load_key(tmp_path / "l.key"))


def test_pinned_key_must_be_used(tmp_path: Path) -> None:
    mine, other = create_key(tmp_path / "mine.key"), create_key(tmp_path / "other.key")
    assert public_hex(mine) != public_hex(other)
    document = AGREED.model_dump()
    document["parties"][0]["public_key"] = public_hex(mine)
    pinned = Agreement.model_validate(document)
    options: dict[str, Any] = {"party": "north", "epsilon": 1.0, "ledger": tmp_path / "l"}
    with pytest.raises(KeyFileError, match="give its file with --key"):
        release(pinned, Untouchable(), **options)
    with pytest.raises(KeyFileError, match="give the right file"):
        release(pinned, Untouchable(), key=tmp_path / "other.key", **options)
    release(pinned, TABLE, key=tmp_path / "mine.key", **options).check(pinned)


def test_key_files(tmp_path: Path) -> None:
    create_key(tmp_path / "k")
    with pytest.raises(KeyFileError, match="will not be overwritten"):
        create_key(tmp_path / "k")
    (tmp_path / "bad").write_text("hello")
    (tmp_path / "bad").chmod(0o600)
    with pytest.raises(KeyFileError, match="not an unencrypted private key"):
        load_key(tmp_path / "bad")
    with pytest.raises(KeyFileError, match="cannot write"):
        create_key(tmp_path / "no" / "folder")


def test_noise_scale_is_certified_and_least() -> None:
    """OpenDP's own map certifies the scale, and one part in 10¹² less is refused."""
    from equipoise.party.mechanism import _gaussian

    for sensitivity, zcdp in ((2**32, 0.05), (48 * 2**32, 1e-4), (12345678901, 3.0)):
        scale = noise_scale(sensitivity, zcdp)
        assert _gaussian(scale).map(float(sensitivity)) <= zcdp
        assert _gaussian(scale * (1 - 1e-12)).map(float(sensitivity)) > zcdp
        assert scale == pytest.approx(sensitivity / np.sqrt(2 * zcdp), rel=1e-12)


def test_mechanism_refuses_what_opendp_would_swallow() -> None:
    for bad in ([float("nan")], [1.0], [2**63], [True]):
        with pytest.raises(ValueError, match="integers"):
            perturb(bad, sensitivity=2**32, zcdp=1.0)  # type: ignore[arg-type]


def test_release_takes_no_seed() -> None:
    import inspect

    for function in (release, perturb, noise_scale):
        assert not {"seed", "rng", "random_state"} & set(inspect.signature(function).parameters)


def test_submission_is_checked_before_it_is_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    real_check = Submission.check

    def watched(self: Submission, agreed: Agreement) -> None:
        real_check(self, agreed)
        checked.append(self.id)

    monkeypatch.setattr(Submission, "check", watched)
    submission = release(AGREED, TABLE, party="north", epsilon=1.0, ledger=tmp_path / "l")
    assert checked == [submission.id]


@given(order=st.floats(1.01, 100), epsilon=st.floats(1e-9, 100))
def test_certified_zcdp_is_below_the_exact_ratio(order: float, epsilon: float) -> None:
    zcdp = certified_zcdp(Guarantee(order=order, epsilon=epsilon))
    assert Fraction(zcdp) * Fraction(order) <= Fraction(epsilon)


@pytest.mark.parametrize("epsilon", [1e-320, 1e-30, 1e-16])
def test_noise_beyond_numbers_is_refused_before_it_is_paid_for(epsilon: float, tmp_path: Path) -> None:
    with pytest.raises(GuaranteeError, match="more noise than 64-bit numbers hold"):
        release(AGREED, Untouchable(), party="north", epsilon=epsilon, ledger=tmp_path / "l")
    assert list(tmp_path.iterdir()) == []


def test_a_preview_can_never_pass_for_a_release(tmp_path: Path) -> None:
    """Nor if its count is varied until all-zero key and signature match, which they do for one text in four."""
    create_key(tmp_path / "k")
    for key in (tmp_path / "k", None):
        seen = preview(AGREED, TABLE, party="north", epsilon=1.0, ledger=tmp_path / "l", key=key)
        for count in range(1, 60):
            with pytest.raises(SubmissionError, match="is a preview"):
                seen.submission.model_copy(update={"count": count}).check(AGREED)


def test_much_clipping_is_told_to_the_party_alone(tmp_path: Path) -> None:
    beyond = np.full((9, 2), 99.0)
    with pytest.raises(TableError, match="100% of the first values of 'x0', 100% .* of 'y' .*nothing was spent"):
        release(AGREED, beyond, party="north", epsilon=1.0, ledger=tmp_path / "l")
    assert list(tmp_path.iterdir()) == []
    with pytest.warns(ClippingWarning, match="100% of the first values of 'x0' lie beyond.*agreed unit"):
        submission = release(AGREED, beyond, party="north", epsilon=1.0, ledger=tmp_path / "l", allow_clipping=True)
    assert b"clip" not in submission.to_json()
    assert b"clip" not in (tmp_path / "l").read_bytes()


def test_one_in_five_may_be_clipped(tmp_path: Path) -> None:
    """The limit is a share of a column's values, and one that is reached is not exceeded."""
    rows = np.zeros((10, 2))
    rows[:2, 0] = 99.0
    release(AGREED, rows, party="north", epsilon=1.0, ledger=tmp_path / "l")
    rows[:3, 0] = 99.0
    with pytest.raises(TableError, match="30% of the first values of 'x0' lie"):
        release(AGREED, rows, party="north", epsilon=1.0, ledger=tmp_path / "other")


def test_a_release_is_confirmed_before_it_is_paid_for(tmp_path: Path) -> None:
    plans: list[Plan] = []

    def ask(plan: Plan) -> bool:
        plans.append(plan)
        return len(plans) != 1

    chosen: dict[str, Any] = {"party": "north", "ledger": tmp_path / "l", "cap_zcdp": 2.0, "confirm": ask}
    with pytest.raises(PrivacyError, match="not confirmed; nothing was spent"):
        release(AGREED, TABLE, zcdp=0.5, **chosen)
    assert list(tmp_path.iterdir()) == []
    release(AGREED, TABLE, zcdp=0.5, **chosen)
    release(AGREED, TABLE, zcdp=1.0, again=True, **chosen)
    seen = [(one.new_ledger, one.spent_zcdp, one.cap_zcdp, one.guarantee.zcdp) for one in plans]
    assert seen == [(True, 0.0, 2.0, 0.5), (True, 0.0, 2.0, 0.5), (False, 0.5, 2.0, 1.0)]
    assert {(one.count, tuple(one.clipped)) for one in plans} == {(len(TABLE), ("x0", "y"))}


def test_two_first_releases_share_one_key(tmp_path: Path) -> None:
    assert public_hex(load_or_create_key(tmp_path / "k")) == public_hex(load_or_create_key(tmp_path / "k"))


@pytest.mark.parametrize(
    "wrong", [{"epsilon": "abc"}, {"zcdp": "much"}, {"approx": 1.0}, {"approx": (1.0, "x")}, {"approx": (1e308, 1e-6)}]
)
def test_guarantees_that_are_no_numbers(wrong: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(EquipoiseError, match="must be a"):
        release(AGREED, Untouchable(), party="north", ledger=tmp_path / "l", **wrong)
