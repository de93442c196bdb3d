"""What strangers send is not read, and never parsed, before it is known that they may send it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from equipoise._util.canonical import canonical_json, strict_json
from equipoise.protocol.submission import Submission, max_submission_bytes
from equipoise_service.settings import Rate, Rates, Settings
from equipoise_service.web.api import routes
from equipoise_service.web.app import create_app
from service import conftest as services
from service.api.calls import HOST, URL, Caller, Key
from service.world import PARTIES, World, key_of, sent

world = services.world
FAST = Rate(1e6, 10**6)
SETTINGS = Settings(public_url=URL, rates=Rates(FAST, FAST, Rate(0.001, 3)))
JSON = {"content-type": "application/json"}
HEAD = [(b"host", HOST.encode()), (b"content-type", b"application/json")]


@pytest.fixture
def caller(world: World) -> Iterator[Caller]:
    made = Caller(create_app(world.context, SETTINGS))
    yield made
    made.close()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of all bodies that are parsed as JSON."""
    seen: list[int] = []
    plain = strict_json

    def noting(data: bytes, **options: bool) -> Any:
        seen.append(len(data))
        return plain(data, **options)

    monkeypatch.setattr(routes, "strict_json", noting)
    return seen


def test_json_of_nobody_known_is_not_parsed(caller: Caller, world: World, parsed: list[int], tmp_path: Path) -> None:
    body = b'{"agreement":[' + b"1," * 2**18 + b"1]}"
    unknown = Key.new(tmp_path / "unknown.key")
    olga = Key(key_of("olga"), tmp_path / "olga.key")
    now = world.clock.now // 1000
    genuine = olga.headers(world.context.public_key, "POST", "/v1/rounds", body, at=now)
    stranger = unknown.headers(world.context.public_key, "POST", "/v1/rounds", body, at=now)
    late = olga.headers(world.context.public_key, "POST", "/v1/rounds", body, at=now - 1_000)
    for headers in ({}, {"authorization": "Bearer wrong"}, stranger, late):
        assert caller.call("POST", "/v1/rounds", body, headers=JSON | headers).status == 401
    assert caller.call("POST", "/v1/rounds", body + b" ", headers=JSON | genuine).status == 401
    assert parsed == []
    assert caller.call("POST", "/v1/rounds", body, headers=JSON | genuine).status == 422
    assert parsed == [len(body)]


def test_the_body_of_nobody_known_is_not_read(caller: Caller, world: World, tmp_path: Path) -> None:
    """No message comes after the head, so that whoever waited for one would be answered 408."""
    long = [*HEAD, (b"content-length", b"%d" % 2**20)]
    chunked = [*HEAD, (b"transfer-encoding", b"chunked")]
    unknown = Key.new(tmp_path / "unknown.key")
    signed = unknown.headers(world.context.public_key, "POST", "/v1/rounds", b"", at=world.clock.now // 1000)
    wrong = [(name.lower().encode(), value.encode()) for name, value in signed.items()]
    for headers in (long, chunked, [*long, (b"authorization", b"Bearer wrong")], [*long, *wrong]):
        answer = caller.raw("POST", "/v1/rounds", headers, [])
        assert (answer.status, answer.headers["connection"]) == (401, "close")


def test_the_strangers_limit_comes_before_the_body(caller: Caller) -> None:
    for _ in range(3):
        caller.call("POST", "/v1/operators", {"secret": "x" * 30, "name": "eve"})
    answer = caller.raw("POST", "/v1/operators", [*HEAD, (b"transfer-encoding", b"chunked")], [])
    assert (answer.status, answer.headers["connection"]) == (429, "close")
    assert caller.call("POST", "/v1/operators", {"secret": "x", "name": "eve"}, client="192.0.2.2").status == 422


def test_a_small_body_is_taken_off_the_line_before_it_is_refused(caller: Caller) -> None:
    answer = caller.call("POST", "/v1/rounds", {"agreement": ""})
    assert answer.status == 401
    assert "connection" not in answer.headers  # the next request can follow


def test_a_submission_is_as_long_as_its_agreement_needs(caller: Caller, world: World, tmp_path: Path) -> None:
    round_id = world.round()
    name = PARTIES[0]
    key = Key(key_of(name), tmp_path / "key")
    genuine = sent()[name]
    numbers = len(Submission.parse(genuine).statistic)
    longest = Submission.parse(genuine).model_dump() | {"statistic": [-(2**63)] * numbers, "party": "n" * 64}
    longest |= {"guarantee": {"order": 1.2345678901234567e-300, "epsilon": 1.2345678901234567e-300}, "count": 2**53}
    assert len(canonical_json(longest)) < max_submission_bytes(numbers)
    target = f"/v1/rounds/{round_id}/submission"
    padded = json.dumps(json.loads(genuine) | {"statistic": [0] * 10_000}).encode()
    headers = key.headers(world.context.public_key, "PUT", target, padded, at=world.clock.now // 1000)
    answer = caller.call("PUT", target, padded, headers=JSON | headers)
    assert (answer.status, answer.code) == (413, "too-large")


def test_json_that_nests_without_end_is_refused(caller: Caller) -> None:
    answer = caller.call("POST", "/v1/operators", b"[" * 2**13, headers=JSON)
    assert answer.status == 422
    assert "nested too deeply" in answer.json["error"]["message"]


def test_the_limit_of_a_server_holds_for_routes_that_take_more(world: World) -> None:
    made = Caller(create_app(world.context, replace(SETTINGS, max_body=100)))
    assert made.call("POST", "/v1/rounds", b"x" * 101, headers=JSON).status == 413
    made.close()
