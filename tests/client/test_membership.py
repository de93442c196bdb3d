"""A member's note of what it joined."""

import json
from pathlib import Path

import pytest

from equipoise.client.membership import Membership, Place
from equipoise.errors import ServiceError

SERVICE = "ab" * 32


def note(folder: Path) -> Membership:
    return Membership(
        Place(url="https://a.example"), SERVICE, "north", "party", folder / "keys" / "n.key", folder / "n.ledger"
    )


def test_the_folder_can_be_moved_as_a_whole(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    note(before).save(before / "equipoise.json")
    note(before).save(before / "equipoise.json")  # again is no mistake
    before.rename(after)
    assert Membership.load(after / "equipoise.json") == note(after)
    assert (after / "equipoise.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in after.iterdir()] == ["equipoise.json"]


def test_a_shared_folder_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "round").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    Membership(Place(folder=Path("../round")), None, "north", "party", Path("n.key")).save(Path("equipoise.json"))
    monkeypatch.chdir(tmp_path)
    found = Membership.load(Path("home/equipoise.json"))
    assert found.place.folder is not None
    assert found.place.folder.resolve() == tmp_path / "round"
    assert found.key == Path("home/n.key")
    with pytest.raises(ServiceError, match="where no service answers"):
        found.url  # noqa: B018


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"role": "king"}, "role"),
        ({"service": "ab"}, "service"),
        ({"service": None}, "names no key"),
        ({"place": "http://a.example"}, "in the clear"),
        ({"extra": 1}, "extra"),
        ({"name": "../north"}, "name"),
    ],
)
def test_what_is_no_membership(tmp_path: Path, change: dict[str, object], says: str) -> None:
    path = tmp_path / "equipoise.json"
    note(tmp_path).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ServiceError, match=says):
        Membership.load(path)


def test_without_one_it_says_how_to_join(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="equipoise join"):
        Membership.load(tmp_path / "equipoise.json")
