"""Requests: what is repeated and what is not, what is believed and what is not."""

import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from client.listening import member
from equipoise.client.connection import ATTEMPTS, LONGEST_WAIT, Connection, RefusedError
from equipoise.client.service_round import connect
from equipoise.errors import ServiceError
from equipoise.protocol.keys import create_key
from equipoise.protocol.requests import NONCE
from service.world import World


class Network:
    """One that answers as the test says, and remembers what it was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.seen: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def connected(tmp_path: Path) -> Callable[[Network], Connection]:
    key = create_key(tmp_path / "a.key")

    def make(network: Network) -> Connection:
        return Connection(
            "https://a.example",
            key=key,
            audience="ab" * 32,
            transport=httpx.MockTransport(network),
            sleep=network.waits.append,
        )

    return make


Connected = Callable[[Network], Connection]
FINE = httpx.Response(200, json={"fine": True})


def test_a_request_is_repeated_with_a_new_signature(connected: Connected) -> None:
    network = Network(
        httpx.ConnectError("no route"),
        httpx.ReadError("reset"),
        httpx.Response(503, headers={"Retry-After": "7"}, json={"error": {"code": "unavailable", "message": "busy"}}),
        httpx.Response(429, headers={"Retry-After": "86400"}),
        httpx.Response(502, text="<html>"),
        FINE,
    )
    assert connected(network).get("/v1/me") == {"fine": True}
    assert len({request.headers[NONCE] for request in network.seen}) == len(network.seen) == ATTEMPTS
    assert network.waits[2:4] == [7.0, LONGEST_WAIT]
    assert 0 < network.waits[0] < network.waits[1] < 2


def test_it_gives_up_after_a_while(connected: Connected) -> None:
    network = Network(*[httpx.ConnectError("no route")] * ATTEMPTS)
    with pytest.raises(ServiceError, match="cannot be reached"):
        connected(network).get("/v1/me")
    busy = httpx.Response(503, json={"error": {"code": "unavailable", "message": "the database is away"}})
    with pytest.raises(RefusedError, match="the database is away"):
        connected(Network(*[busy] * ATTEMPTS)).get("/v1/me")


def test_what_may_have_been_done_is_not_repeated(connected: Connected) -> None:
    network = Network(httpx.ReadTimeout("slow"), FINE)
    with pytest.raises(ServiceError, match="may have been done or not"):
        connected(network).post("/v1/rounds", {})
    assert len(network.seen) == 1
    assert connected(Network(httpx.ConnectError("no route"), FINE)).post("/v1/rounds", {}) == {"fine": True}


def test_what_a_service_is_not_sure_of_is_repeated_if_that_is_harmless(connected: Connected) -> None:
    unsure = httpx.Response(500, json={"error": {"code": "outcome-unknown", "message": "may have been done or not"}})
    network = Network(unsure, FINE)
    assert connected(network).request("PUT", "/v1/rounds/abcd/submission", body=b"x").json() == {"fine": True}
    network = Network(unsure, FINE)
    with pytest.raises(RefusedError, match="may have been done or not"):
        connected(network).post("/v1/rounds", {})
    assert len(network.seen) == 1


def test_a_certificate_that_is_not_trusted_is_not_tried_again(connected: Connected) -> None:
    error = httpx.ConnectError("failed")
    error.__cause__ = ssl.SSLCertVerificationError("unable to get local issuer certificate")
    network = Network(error, FINE)
    with pytest.raises(ServiceError, match="--ca"):
        connected(network).get("/v1/me")
    assert len(network.seen) == 1


def test_redirects_are_not_followed(connected: Connected) -> None:
    network = Network(httpx.Response(307, headers={"Location": "https://b.example/v1/me"}), FINE)
    with pytest.raises(ServiceError, match=r"sends elsewhere \(https://b\.example"):
        connected(network).get("/v1/me")
    assert len(network.seen) == 1


def test_answers_are_limited_and_must_be_json(connected: Connected) -> None:
    with pytest.raises(ServiceError, match="more than 10 bytes"):
        connected(Network(httpx.Response(200, content=b"x" * 11))).request("GET", "/v1/me", max_bytes=10)
    with pytest.raises(ServiceError, match="something else than JSON"):
        connected(Network(httpx.Response(200, text="<html>"))).get("/v1/me")
    with pytest.raises(ServiceError, match="answered 500, in words of something else"):
        connected(Network(httpx.Response(500, text="<html>"))).get("/v1/me")
    with pytest.raises(ServiceError, match="not a service of Equipoise"):
        connected(Network(httpx.Response(200, json={"public_key": "zz", "version": "1", "time": 1}))).introduction()


def test_a_clock_that_is_wrong_is_set_by_the_services(world: World, url: str, tmp_path: Path) -> None:
    me = member(tmp_path / "home", url, world.context.public_key, "east")
    world.clock.now -= 10_000_000_000  # months
    with connect(me) as connection:
        assert connection.post("/v1/people", {"name": "east", "role": "party"}, repeatable=True)["state"] == "requested"
        with pytest.raises(RefusedError, match="not approved") as refused:
            connection.get("/v1/me")
    assert (refused.value.status, refused.value.code) == (401, "not-signed-in")


def test_another_service_at_the_address_is_noticed(world: World, url: str, tmp_path: Path) -> None:
    me = member(tmp_path / "home", url, "cd" * 32, "east")
    with connect(me) as connection, pytest.raises(ServiceError, match="another key"):
        connection.introduction()
    with connect(me) as connection, pytest.raises(ServiceError, match=r"another key.*than the one you joined"):
        connection.get("/v1/me")  # rather than what that service says of the signature


def test_a_refusal_by_the_right_service_stays_its_own(connected: Connected) -> None:
    refused = httpx.Response(401, json={"error": {"code": "not-signed-in", "message": "not approved"}})
    right = httpx.Response(200, json={"public_key": "ab" * 32, "version": "1", "time": 1})
    network = Network(refused, right, refused)
    connection = connected(network)
    for _ in range(2):  # the key is compared once
        with pytest.raises(RefusedError, match="not approved"):
            connection.get("/v1/me")
    assert [request.url.path for request in network.seen] == ["/v1/me", "/v1/service", "/v1/me"]


def test_tls_where_none_is_spoken(url: str) -> None:
    refused = pytest.raises(ServiceError, match="does not speak TLS there.*http://, or another port")
    with Connection(url.replace("http:", "https:")) as connection, refused:
        connection.introduction()


def test_it_says_once_that_it_tries_again(connected: Connected, capsys: pytest.CaptureFixture[str]) -> None:
    connection = connected(Network(httpx.ConnectError("no route"), httpx.ReadError("reset"), FINE))
    connection.get("/v1/me")
    said = capsys.readouterr()
    assert said.err == "https://a.example cannot be reached; trying again for about 16 s\n"
    assert said.out == ""
