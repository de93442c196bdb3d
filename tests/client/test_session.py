"""A whole party's side without the command line: join, look, submit, fetch, in a shared folder."""

from pathlib import Path

import pytest

import reward_posteriors
from equipoise.agreement import Agreement
from equipoise.client import session
from equipoise.errors import AgreementError, PrivacyError, ServiceError
from equipoise.protocol.submission import Submission
from reward_posteriors import some_reward

TEXT = f'format = 1\n[model]\nkind = "linear"\n{reward_posteriors.TARGETS["linear"]}\n{reward_posteriors.TAIL}'


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "round"
    place.mkdir()
    (place / "agreement.toml").write_text(TEXT)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    Path("north.csv").write_text("age,bmi,progression\n" + "50,25,120\n" * 40)
    return place


def test_a_partys_side_in_python(shared: Path) -> None:
    joined = session.join(str(shared), name="north")
    assert (joined.state, joined.by_link, joined.path) == ("approved", False, Path("equipoise.json"))
    assert session.join(str(shared), name="north").fingerprint == joined.fingerprint
    seen = session.preview("north.csv", epsilon=0.5)
    assert seen.submission.count == 40
    assert session.status().rounds[0].submitted == ()
    asked: list[Agreement] = []
    found = session.submit("north.csv", epsilon=0.5, announce=asked.append, confirm=lambda _: True)
    assert (found.spent, found.unread, found.receipt) == (True, None, None)
    assert asked[0].identity == found.submission.agreement
    again = session.submit("north.csv")
    assert (again.spent, again.unread, again.submission) == (False, Path("north.csv"), found.submission)
    assert Submission.load(shared / "submissions" / "north.submission.json") == found.submission
    (status,) = session.status().rounds
    assert (status.state, status.mine) == ("open", True)
    with pytest.raises(ServiceError, match="not yet"):
        session.fetch()

    (shared / "for" / "north").mkdir(parents=True)
    some_reward("linear").save(shared / "for" / "north" / "reward.nc")
    (shared / "settlement.json").write_text("{}")
    (last,) = session.watch()
    assert last.rounds[0].state == "settled"
    got = session.fetch(wait=True)
    assert (got.reward.party, got.reward_path, got.report_path, got.deviations) == ("north", Path("north.nc"), None, ())
    assert got.reward_path.exists()


def test_what_is_refused_costs_nothing(shared: Path) -> None:
    with pytest.raises(ServiceError, match="there is no role 'guest'"):
        session.join(str(shared), name="north", role="guest")
    session.join(str(shared), name="north")
    with pytest.raises(AgreementError, match="say how much privacy to spend"):
        session.submit("north.csv")
    with pytest.raises(PrivacyError, match="has no finished release"):
        session.submit()
    Path("other.toml").write_text(TEXT.replace("max_epsilon = 1.0", "max_epsilon = 2.0"))
    with pytest.raises(AgreementError, match="they mean different things"):
        session.submit("north.csv", epsilon=0.5, agreement="other.toml")
    for option in ({"key": "another.key"}, {"again": True}):
        with pytest.raises(ServiceError, match="a round takes one release, signed by the key that joined"):
            session.submit("north.csv", epsilon=0.5, **option)
    assert not Path("north.ledger").exists()
