"""Where a round takes place, as users write it."""

from pathlib import Path

import pytest

from equipoise.client.membership import Place, address_meant, place_of
from equipoise.errors import ServiceError


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("https://Rounds.Example", Place(url="https://rounds.example")),
        ("https://rounds.example:8443/", Place(url="https://rounds.example:8443")),
        ("http://127.0.0.1:8351", Place(url="http://127.0.0.1:8351")),
        ("http://localhost", Place(url="http://localhost")),
        ("http://[::1]:80", Place(url="http://[::1]:80")),
        ("https://a.example/first#S-e_c", Place(url="https://a.example", secret="S-e_c")),
        ("../shared/round", Place(folder=Path("../shared/round"))),
    ],
)
def test_places(text: str, place: Place) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("http://rounds.example", "in the clear"),
        ("http://127.0.0.1.example", "in the clear"),
        ("http://10.0.0.1", "in the clear"),
        ("ftp://rounds.example", "not the address of a service"),
        ("https://", "not the address of a service"),
        ("https://a.example:port", "not an address"),
        ("https://me:secret@a.example", "no user name"),
        ("https://a.example/rounds/abc", "more than the address"),
        ("https://a.example?x=1", "more than the address"),
        ("https://a.example/#secret", "more than the address"),
    ],
)
def test_what_is_no_place(text: str, says: str) -> None:
    with pytest.raises(ServiceError, match=says) as refused:
        place_of(text)
    assert "secret" not in str(refused.value)


def test_a_host_that_was_taken_for_a_folder() -> None:
    assert address_meant(Path("rounds.example:8443/first")) == "https://rounds.example:8443"
    assert address_meant(Path("localhost:8351")) == "http://localhost:8351"
    assert address_meant(Path("localhost")) == "http://localhost"
    assert address_meant(Path("[::1]:80")) == "http://[::1]:80"
    for folder in ("../shared/round.1", "./a", "round", "/mnt/a.example", "C:/round"):
        assert address_meant(Path(folder)) is None
