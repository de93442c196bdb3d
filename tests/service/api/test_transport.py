"""What surrounds every request: sizes, speeds, rates, names, methods, headers, logs."""

import asyncio
import io
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from equipoise.errors import ServiceError
from equipoise.models.guarantee import MAX_STATISTIC_LENGTH
from equipoise.protocol.submission import max_submission_bytes
from equipoise_service.context import Context
from equipoise_service.errors import RateLimited, Refusal
from equipoise_service.logs import configure_logging
from equipoise_service.settings import Rate, Rates, Settings
from equipoise_service.web.app import create_app
from equipoise_service.web.middleware import BodyLimit, ProxyOnly
from equipoise_service.web.rate_limit import TokenBuckets, client_address
from service.api.calls import HOST, URL, Caller, Key

SETTINGS = Settings(public_url=URL)
HEADERS = [(b"host", HOST.encode())]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    opened = Context.open(tmp_path_factory.mktemp("service") / "data")
    yield opened
    opened.close()


@pytest.fixture
def caller(context: Context) -> Iterator[Caller]:
    yield from called(create_app(context, SETTINGS))


def called(app: FastAPI) -> Iterator[Caller]:
    made = Caller(app)
    yield made
    made.close()


def test_a_large_body_is_refused_before_it_has_come(context: Context) -> None:
    for caller in called(create_app(context, replace(SETTINGS, max_body=1_000))):
        stated = [*HEADERS, (b"content-length", b"1001")]
        assert caller.raw("PUT", "/v1/rounds/abcd/submission", stated, []).status == 413  # nothing was read
        chunk = {"type": "http.request", "body": b"x" * 600, "more_body": True}
        answer = caller.raw("POST", "/v1/people", HEADERS, [chunk, chunk])  # the end never comes
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert caller.raw("POST", "/v1/people", [*HEADERS, (b"content-length", b"9" * 50)], []).status == 413


def test_a_slow_body_is_not_waited_for(context: Context) -> None:
    for caller in called(create_app(context, replace(SETTINGS, body_timeout=0.05))):
        chunk = {"type": "http.request", "body": b"x", "more_body": True}
        assert caller.raw("POST", "/v1/people", HEADERS, [chunk]).status == 408


def test_a_quick_beginning_buys_no_long_silence(context: Context) -> None:
    patient = replace(SETTINGS, body_timeout=0.05, min_body_rate=10)
    for caller in called(create_app(context, patient)):
        chunk = {"type": "http.request", "body": b"x" * 100, "more_body": True}  # 10 s at the slowest
        began = time.monotonic()
        assert caller.raw("POST", "/v1/people", HEADERS, [chunk]).status == 408
        assert time.monotonic() - began < 5


def test_bodies_together_have_a_limit_and_are_let_go() -> None:
    async def main() -> list[list[int]]:
        answer = asyncio.Event()

        async def inner(scope: Any, receive: Any, send: Any) -> None:
            status = 200
            try:
                await receive()
            except Refusal as refusal:
                status = refusal.status
            await answer.wait()
            await send({"type": "http.response.start", "status": status, "headers": []})

        whole = BodyLimit(inner, replace(SETTINGS, max_buffered=8_000))

        async def status(address: str, length: int) -> int:
            sent: list[Any] = []

            async def receive() -> Any:
                return {"type": "http.request", "body": b"x" * length, "more_body": False}

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {"type": "http", "client": (address, 1), "headers": [], "state": {}}
            await whole(scope, receive, send)
            return int(sent[0]["status"])

        found = []
        for asked in (
            [("192.0.2.1", 600), ("192.0.2.1", 600), ("192.0.2.2", 600), ("192.0.2.2", 400)],  # an eighth for one
            [(f"192.0.2.{number}", 950) for number in range(9)],  # 8,000 for all
            [("192.0.2.1", 1_000), ("192.0.2.2", 1_001)],
        ):
            answer.clear()
            tasks = [asyncio.create_task(status(*one)) for one in asked]
            await asyncio.sleep(0.01)
            answer.set()
            found.append(await asyncio.gather(*tasks))
            assert whole.buffered == len(whole.buffered_of) == 0
        return found

    assert asyncio.run(main()) == [[200, 503, 200, 200], [200] * 8 + [503], [200, 503]]


@pytest.mark.parametrize(
    ("method", "path", "most"),
    [
        ("POST", "/v1/people", 2**13),
        ("POST", "/v1/operators", 2**13),
        ("POST", "/v1/rounds/abcd/invitations", 2**16),
        ("POST", "/v1/rounds/abcd/settlement", 2**16),
        ("POST", "/v1/rounds", 2**21),
        ("PUT", "/v1/rounds/abcd/submission", max_submission_bytes(MAX_STATISTIC_LENGTH)),
    ],
)
def test_every_route_takes_so_much(caller: Caller, method: str, path: str, most: int) -> None:
    broken = {"content-type": "application/json"}
    answer = caller.call(method, path, b"[" * (most + 1), headers=broken)
    assert (answer.status, answer.code) == (413, "too-large")
    # As for the rest, nobody is signed in; an operator's secret is in the body.
    expected = 422 if path == "/v1/operators" else 401
    assert caller.call(method, path, b"[" * most, headers=broken).status == expected


def test_who_hangs_up_is_not_answered(caller: Caller) -> None:
    sent: list[Any] = []

    async def hang_up() -> None:
        scope = {"type": "http", "method": "POST", "path": "/v1/people", "raw_path": b"/v1/people", "headers": HEADERS}
        scope |= {"query_string": b"", "root_path": "", "client": ("192.0.2.9", 1), "http_version": "1.1"}

        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await caller.app(scope, receive, send)

    asyncio.run(hang_up())
    assert sent == []


def test_addresses_and_strangers_have_rates(context: Context, tmp_path: Path) -> None:
    slow = Rates(address=Rate(0.001, 12), person=Rate(1, 1), sign_in=Rate(0.001, 2))
    for caller in called(create_app(context, replace(SETTINGS, rates=slow))):
        key = Key.new(tmp_path / "k")
        asked = [caller.call("POST", "/v1/people", {"name": "x", "role": "party"}, key=key).status for _ in range(3)]
        assert asked == [202, 202, 429]
        answers = [caller.call("GET", "/v1/service") for _ in range(10)]
        assert [one.status for one in answers] == [200] * 9 + [429]
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert caller.call("GET", "/v1/service", client="192.0.2.2").status == 200


def test_persons_have_rates(context: Context, tmp_path: Path) -> None:
    from equipoise_service.rules import authentication, people

    operator = people.claim_first_operator(context, people.first_operator_secret(context), name="olga")
    token, _ = authentication.new_token(context, operator)
    slow = Rates(person=Rate(0.001, 3))
    for caller in called(create_app(context, replace(SETTINGS, rates=slow))):
        addresses = (f"192.0.2.{number}" for number in range(4))
        assert [caller.call("GET", "/v1/me", token=token, client=one).status for one in addresses] == [200] * 3 + [429]


def test_buckets_fill_again_and_are_bounded() -> None:
    now = 0.0
    buckets = TokenBuckets(Rate(2.0, 4), clock=lambda: now, max_buckets=3)
    for _ in range(4):
        buckets.take("a")
    with pytest.raises(RateLimited, match="1 s"):
        buckets.take("a")
    now = 0.5
    buckets.take("a")
    with pytest.raises(RateLimited):
        buckets.take("a")
    for key in "bcdef":
        buckets.take(key)
    assert len(buckets) == 3


def test_free_addresses_share_a_bucket() -> None:
    def of(address: str) -> str:
        return client_address({"client": (address, 1)})

    assert of("2001:db8::1") == of("2001:db8::ffff:1") != of("2001:db8:0:1::1")
    assert of("::ffff:192.0.2.1") == of("192.0.2.1")
    assert client_address({"client": None}) == "unknown"


def test_only_the_services_own_name_is_answered(caller: Caller) -> None:
    for wrong in ([], [(b"host", b"evil.example")], [*HEADERS, *HEADERS], [(b"host", b"rounds.test:81")]):
        assert caller.call("GET", "/v1/service", raw_headers=wrong).status == 421
    assert caller.call("GET", "/v1/service", headers={"host": "Rounds.Test:80"}).status == 200
    assert Settings(public_url="https://a.example").hosts == {"a.example", "a.example:443"}
    assert Settings(public_url="http://localhost:8351/").hosts == {"127.0.0.1:8351", "localhost:8351", "[::1]:8351"}


@pytest.mark.parametrize("url", ["rounds.test", "ftp://x", "http://", "https://x/path", "https://me@x", "https://x?a"])
def test_public_addresses_are_checked(url: str) -> None:
    with pytest.raises(ServiceError, match="public-url"):
        Settings(public_url=url)


def test_allow_lists_all_methods_of_a_path(caller: Caller) -> None:
    paths: dict[str, dict[str, Any]] = caller.call("GET", "/v1/openapi.json").json["paths"]
    for path, operations in paths.items():
        answer = caller.call("PATCH", path.format(round="abcd", person=1))
        allowed = ", ".join(sorted(method.upper() for method in operations))
        assert (answer.status, answer.headers["allow"]) == (405, allowed), path
        assert f"PATCH is not understood at this address, but {allowed}" in answer.json["error"]["message"]
    assert len(paths["/v1/rounds/{round}/settlement"]) == 3
    assert caller.call("PATCH", "/rounds/new").headers["allow"] == "GET, POST"  # a page


def test_other_methods_and_paths_are_refused_in_the_same_words(caller: Caller) -> None:
    for method in ("HEAD", "OPTIONS", "TRACE", "PATCH", "PUT", "CONNECT", "BREW"):
        answer = caller.call(method, "/v1/service")
        assert (answer.status, answer.headers["allow"]) == (405, "GET")
    for path in (
        "/v1/service/",
        "/v1//service",
        "/v1/",
        "/v1/../etc/passwd",
        "/v1/rounds/../service",
        "/v1/%2e%2e/%2e%2e/etc/passwd",
        "/V1/service",
        "/v1/service%00",
        "/v1/rounds/%2fetc",
        "/.git/config",
        "//evil.example/v1/service",
        "http://evil.example/v1/service",
    ):
        answer = caller.call("GET", path)
        assert answer.status in (401, 404), path
        assert b"Traceback" not in answer.body
    assert caller.call("GET", "/v1/nothing").code == "not-found"
    assert caller.call("GET", "/v1/rounds/UPPER").status == 401


def test_browsers_are_told_to_be_careful(caller: Caller, context: Context) -> None:
    for target in ("/v1/service", "/v1/nothing", "/v1/docs", "/nothing"):
        headers = caller.call("GET", target).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers
        assert "strict-transport-security" not in headers
    for secure in called(create_app(context, Settings(public_url=f"https://{HOST}"))):
        assert "strict-transport-security" in secure.call("GET", "/v1/service").headers


def test_the_api_documents_itself_without_fetching_anything(caller: Caller) -> None:
    page = caller.call("GET", "/v1/docs").body.decode()
    assert "PUT /v1/rounds/{round}/submission" in page
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    document = caller.call("GET", "/v1/openapi.json").json
    assert document["info"]["title"] == "Equipoise"
    for methods in document["paths"].values():
        for operation in methods.values():
            shown = operation["responses"]["422"]["content"]["application/json"]["schema"]["$ref"]
            assert shown == "#/components/schemas/Problem"


def test_the_unforeseen_is_a_reference_into_the_log(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    @caller.app.get("/v1/broken")
    def broken() -> None:
        raise RuntimeError("the inside of the service")

    answer = caller.call("GET", "/v1/broken")
    assert (answer.status, answer.code) == (500, "unexpected")
    assert b"inside" not in answer.body
    reference = answer.headers["x-request-id"]
    assert reference in answer.json["error"]["message"]
    (record,) = [one for one in caplog.records if one.name == "equipoise.failures"]
    assert record.__dict__["fields"]["request"] == reference
    assert "the inside of the service" in record.__dict__["fields"]["trace"]


def test_nothing_secret_is_logged(caller: Caller, context: Context, tmp_path: Path) -> None:
    from equipoise_service.rules import people

    before = logging.getLogger().handlers[:], logging.getLogger().level
    stream = io.StringIO()
    configure_logging(stream)
    try:
        secret = people.first_operator_secret(context)
        claimed = caller.call("POST", "/v1/operators", {"secret": secret, "name": "oscar"})
        token = claimed.json["token"]
        caller.call("GET", "/v1/me", token=token)
        key = Key.new(tmp_path / "k")
        claimed = caller.call(
            "POST", "/v1/operators", {"secret": people.first_operator_secret(context), "name": "otto"}, key=key
        )
        link = caller.call("POST", "/v1/sign-in", key=key).json["url"]
        caller.call("GET", f"/first/{secret}?secret={secret}")
        caller.call("GET", f"/v1/rounds/{secret}?{secret}", token=token)
        caller.call("GET", f"/v1/rounds/{'a' * 12}", token=token)
        stranger = Key.new(tmp_path / "s")
        caller.call("GET", "/v1/me", key=stranger, headers={"cookie": f"equipoise_session={token}"})
    finally:
        logging.getLogger().handlers[:], level = before
        logging.getLogger().setLevel(level)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["status"] for line in lines] == [200, 200, 200, 200, 404, 404, 404, 401]
    assert lines[1]["person"] == "oscar"
    assert lines[6]["route"] == "/v1/rounds/{round}"
    assert lines[6]["round"] == "a" * 12
    for hidden in (secret, token, link.partition("#")[2], key.public):
        assert hidden not in stream.getvalue()


def test_behind_a_proxy_nobody_else_connects() -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def status(address: str) -> int:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        scope = {"type": "http", "client": (address, 1), "method": "GET", "path": "/", "headers": []}
        await ProxyOnly(inner, ("10.0.0.0/24",))(scope, receive, send)
        return int(sent[0]["status"])

    found = {one: asyncio.run(status(one)) for one in ("10.0.0.7", "::ffff:10.0.0.7", "127.0.0.1", "10.0.1.7", "::2")}
    assert found == {"10.0.0.7": 200, "::ffff:10.0.0.7": 200, "127.0.0.1": 200, "10.0.1.7": 403, "::2": 403}
