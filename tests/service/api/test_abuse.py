"""Requests that pretend: forged, edited, replayed, for somebody else or for another service."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import rounds as small
from equipoise._util.canonical import canonical_json
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.requests import KEY, NONCE, SIGNATURE, TIME
from equipoise_service.rules import events, settlements
from service.api.calls import Answer, Key
from service.api.society import KIND, Society, new_round, submission


@pytest.fixture
def fresh(everybody: Society) -> str:
    """A round that no other test submits to."""
    return new_round(everybody.context, everybody.actor("olga"), everybody.agreement)


def put(everybody: Society, round_id: str, data: bytes, who: str) -> Answer:
    return everybody.caller.call("PUT", f"/v1/rounds/{round_id}/submission", data, key=everybody.keys[who])


def test_a_submission_is_receipted_once_and_only_as_it_was(everybody: Society, fresh: str) -> None:
    sent = everybody.submissions["north"]
    first, again = put(everybody, fresh, sent, "north"), put(everybody, fresh, sent, "north")
    assert (first.status, again.status) == (201, 200)
    assert first.body == again.body
    Receipt.parse(first.body).check(everybody.audience())
    other = json.dumps(json.loads(sent), indent=1).encode()  # the same release, written otherwise
    assert put(everybody, fresh, other, "north").status == 409
    call = everybody.caller.call
    assert call("GET", f"/v1/rounds/{fresh}/submission", key=everybody.keys["north"]).body == sent
    assert call("GET", f"/v1/rounds/{fresh}/receipt", key=everybody.keys["north"]).body == first.body
    assert call("GET", f"/v1/rounds/{fresh}/receipt", key=everybody.keys["south"]).status == 404


def edited(data: bytes, **changes: Any) -> bytes:
    return canonical_json({**json.loads(data), **changes}) + b"\n"


def test_forged_and_edited_submissions_are_refused(everybody: Society, fresh: str, tmp_path: Path) -> None:
    sent = everybody.submissions["north"]
    for forged, status in (
        (edited(sent, count=10**6), 422),
        (edited(sent, party="south"), 403),
        (edited(sent, signature="0" * 128), 422),
        (edited(sent, guarantee={"order": 2.0, "epsilon": 1e9}), 422),
        (edited(sent, extra=1), 422),
        (sent.replace(b'"count":', b'"count":1,"count":'), 422),
        (sent[:-20], 422),
        (b"\xff\xfe", 422),
        (b"[" * 1_000, 422),
        (b"[" * 100_000, 413),
        (b"", 422),
        (everybody.submissions["south"], 403),  # genuine, and another's
        (submission(everybody.agreement, "north", Key.new(tmp_path / "k"), tmp_path), 403),  # another key's
        (submission(small.agreement(KIND, 4), "north", everybody.keys["north"], tmp_path), 422),  # agreement
    ):
        assert put(everybody, fresh, forged, "north").status == status, forged[:80]
    assert put(everybody, fresh, sent, "north").status == 201


def test_an_edited_agreement_is_another_one(everybody: Society) -> None:
    """Whoever changes a word of it after the others agreed gets another identity, which no submission fits."""
    text = "format = 1\n[model]\n" + small.MODELS[KIND] + "\n[privacy]\norder = 2\nmax_epsilon = CAP\n"
    text += '[[parties]]\nname = "north"\n'
    identities = set()
    for cap in (100.0, 101.0, 100.0):
        answer = everybody.caller.call(
            "POST", "/v1/rounds", {"agreement": text.replace("CAP", str(cap))}, key=everybody.keys["olga"]
        )
        identities.add(answer.json["identity"])
        shown = everybody.caller.call("GET", f"/v1/rounds/{answer.json['id']}/agreement", key=everybody.keys["north"])
        assert shown.json["identity"] == answer.json["identity"]
        assert shown.json["agreement"]["privacy"]["max_epsilon"] == cap
    assert len(identities) == 2
    assert put(everybody, answer.json["id"], everybody.submissions["north"], "north").status == 422


def test_a_signed_request_counts_once_for_this_service_now_and_as_it_is(everybody: Society) -> None:
    key, call = everybody.keys["south"], everybody.caller.call
    audience, target = everybody.audience(), "/v1/me"
    headers = key.headers(audience, "GET", target)
    assert call("GET", target, headers=headers).status == 200
    assert call("GET", target, headers=headers).code == "replayed"

    def refused(name: str = "", value: str = "", *, method: str = "GET", path: str = target, body: bytes = b"") -> None:
        headers = key.headers(audience, "GET", target)
        if name:
            headers[name] = value
        answer = call(method, path, body, headers=headers)
        assert answer.status == 401

    refused(path="/v1/rounds")
    refused(path="/v1/me?as=olga")
    refused(path="/v1/%6de")
    refused(method="DELETE", path="/v1/tokens")
    refused(body=b"something")
    refused(KEY, everybody.keys["olga"].public)
    refused(NONCE, "0" * 32)
    refused(TIME, str(int(time.time()) - 1))
    refused(TIME, "now")
    refused(SIGNATURE, "x")
    other = key.headers("ab" * 32, "GET", target)
    assert call("GET", target, headers=other).status == 401
    for seconds in (-400, 400):
        late = key.headers(audience, "GET", target, at=int(time.time()) + seconds)
        assert call("GET", target, headers=late).code == "clock"
    del headers[NONCE]
    assert call("GET", target, headers=headers).status == 401


def test_the_query_is_signed_too(everybody: Society) -> None:
    target = "/v1/events?after=1&limit=2"
    answer = everybody.caller.call("GET", target, key=everybody.keys["anne"])
    assert [event["sequence"] for event in answer.json["events"]] == [2, 3]


def test_approval_needs_the_fingerprint(everybody: Society, tmp_path: Path) -> None:
    key = Key.new(tmp_path / "k")
    call, olga = everybody.caller.call, everybody.keys["olga"]
    asked = call("POST", "/v1/people", {"name": "late", "role": "party", "note": "from the east"}, key=key)
    assert (asked.status, asked.json["state"]) == (202, "requested")
    assert call("GET", "/v1/me", key=key).status == 401
    path = f"/v1/people/{asked.json['id']}/approval"
    assert call("POST", path, {"fingerprint": "0000-" * 8}, key=olga).code == "fingerprint"
    assert call("POST", path, {"fingerprint": asked.json["fingerprint"]}, key=olga).json["state"] == "approved"
    assert call("GET", "/v1/me", key=key).json["name"] == "late"
    token = call("POST", "/v1/tokens", key=key).json["token"]
    call("POST", f"/v1/people/{asked.json['id']}/revocation", key=olga)
    assert call("GET", "/v1/me", key=key).status == call("GET", "/v1/me", token=token).status == 401


def test_bodies_are_strict(everybody: Society) -> None:
    def answer(body: bytes, kind: str = "application/json") -> Answer:
        headers = {"content-type": kind}
        signed = everybody.keys["olga"].headers(everybody.audience(), "POST", "/v1/rounds", body)
        return everybody.caller.call("POST", "/v1/rounds", body, headers={**headers, **signed})

    for kind in ("text/plain", "application/xml", "multipart/form-data", "application/x-www-form-urlencoded", ""):
        assert answer(b'{"agreement": "x"}', kind).status == 415
    for body in (
        b'{"agreement": "x", "agreement": "y"}',
        b'{"agreement": NaN}',
        b'{"agreement": "x", "other": 1}',
        b'{"agreement": "x", "invite": "yes"}',
        b'{"agreement": "\\ud800"}',
        b'{"agreement": 1}',
        b'["agreement"]',
        b"null",
        b"{",
        b"",
        b"[" * 200_000,
        b'{"agreement": ' + b"9" * 100_000 + b"}",
        b'{"agreement": 1e999}',
        b"\xff",
        b'{"agreement": "x = ' + b"[" * 100_000 + b'"}',
    ):
        found = answer(body)
        assert found.status == 422, body[:60]
        assert b"Traceback" not in found.body


@pytest.mark.parametrize("number", ["500", "500.0", "5e2", "5.00E+2"])
def test_an_integer_may_be_written_as_any_number_of_json(everybody: Society, number: str) -> None:
    round_id = new_round(everybody.context, everybody.actor("olga"), everybody.agreement)
    assert put(everybody, round_id, everybody.submissions["north"], "north").status == 201

    def answer(path: str, body: str) -> Answer:
        headers = {"content-type": "application/json"}
        signed = everybody.keys["olga"].headers(everybody.audience(), "POST", path, body.encode())
        return everybody.caller.call("POST", path, body.encode(), headers={**headers, **signed})

    path = f"/v1/rounds/{round_id}/settlement"
    for wrong in ("500.5", '"500.0"', "true", "1e300"):
        assert answer(path, f'{{"draws": {wrong}}}').status == 422
    started = answer(path, f'{{"draws": {number}, "precision": 1.0, "rho": 1.0, "deviate": true}}')
    assert started.status < 300, started.body
    chosen = events.list_events(everybody.context, everybody.actor("olga"), limit=1_000)[-1]["details"]["options"]
    assert (chosen["draws"], chosen["precision"]) == (500, 1.0)
    assert [type(chosen[name]) for name in ("draws", "precision")] == [int, float]
    assert answer("/v1/people/clearing", f'{{"before": {number}}}').json == {"dropped": 0}
    settlements.cancel(everybody.context, everybody.actor("olga"), round_id)


def test_what_was_sent_is_not_repeated(everybody: Society) -> None:
    """A secret in the wrong place must not come back, or be logged by whoever logs responses."""
    secret = "s3cr3t" * 8
    for body in (
        {"secret": [secret], "name": "x"},
        {"secret": secret, "name": secret + " "},
        {"name": {secret: secret}},
    ):
        answer = everybody.caller.call("POST", "/v1/operators", body)
        assert answer.status == 422
        assert secret.encode() not in answer.body
