"""A round in a shared folder."""

from dataclasses import replace
from pathlib import Path

import pytest

import rounds
from equipoise.agreement.templates import example_agreement
from equipoise.client import folder_round as by_folder
from equipoise.client.folder_round import FolderRound
from equipoise.client.membership import Membership, Place
from equipoise.client.round import check_identity
from equipoise.client.session import round_of
from equipoise.errors import AgreementError, ServiceError, SubmissionError
from equipoise.protocol.keys import create_key


@pytest.fixture
def me(tmp_path: Path) -> Membership:
    create_key(tmp_path / "north.key")
    place = tmp_path / "round"
    place.mkdir()
    (place / "agreement.toml").write_text(example_agreement("gaussian", ("north", "south")))
    return Membership(Place(folder=place), None, "north", "party", tmp_path / "north.key", tmp_path / "north.ledger")


def test_submissions_are_never_replaced(me: Membership) -> None:
    shared = FolderRound(me)
    shared.check_open()
    assert shared.submit(b"one") is None
    assert shared.submit(b"one") is None
    with pytest.raises(SubmissionError, match="never replaced"):
        shared.submit(b"two")
    assert (shared.folder / "submissions" / "north.submission.json").read_bytes() == b"one"
    with pytest.raises(SubmissionError, match="submits once"):
        shared.check_open()
    (round_,) = shared.status().rounds
    assert (round_.state, round_.submitted, round_.mine) == ("open", ("north",), True)


@pytest.mark.parametrize("where", [".", "settlement"])
@pytest.mark.parametrize(
    ("reward", "report"),
    [("for/north/reward.nc", "for/north/report.html"), ("rewards/north.nc", "reports/north.html")],
    ids=["now", "up to 0.6"],
)
def test_what_the_mediator_left_is_found(me: Membership, where: str, reward: str, report: str) -> None:
    shared = FolderRound(me)
    for name in (reward, report):
        path = shared.folder / where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert shared.reward() is None  # the settlement is written last
    (shared.folder / where / "settlement.json").write_text("{}")
    assert (shared.reward(), shared.report()) == (reward.encode(), report.encode())
    assert shared.status().rounds[0].state == "settled"
    with pytest.raises(ServiceError, match="is settled"):
        shared.check_open()
    (shared.folder / where / reward).unlink()
    with pytest.raises(ServiceError, match=r"no '.*for/north/reward.nc'; did 'north' submit"):
        shared.reward()


def test_a_party_that_is_not_let_in_is_told_whom_to_ask(me: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = FolderRound(me)
    (shared.folder / "settlement.json").write_text("{}")

    def refuse(*_: object, **__: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(by_folder, "read_limited", refuse)
    with pytest.raises(ServiceError, match=r"Permission denied; ask the operator to let you into '.*for/north', or to"):
        shared.reward()


def test_mistakes(me: Membership) -> None:
    with pytest.raises(ServiceError, match="leave out --round"):
        round_of(me, round_id="abcd")
    agreed = FolderRound(me).agreement()
    check_identity(agreed, {"yours": agreed.identity}, where="there")
    other = rounds.agreement("gaussian").identity
    with pytest.raises(AgreementError, match=f"{agreed.identity}.*{other}"):
        check_identity(agreed, {"yours": other}, where="there")
    (FolderRound(me).folder / "agreement.toml").unlink()
    with pytest.raises(ServiceError, match=r"has no agreement\.toml"):
        FolderRound(me).agreement()
    for place, says in (("rounds.example", "write https://rounds.example"), ("nowhere", "is the path right")):
        with pytest.raises(ServiceError, match=f"there is no folder '{place}'.*{says}"):
            FolderRound(replace(me, place=Place(folder=Path(place)))).agreement()
