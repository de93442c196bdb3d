"""Keys, requests, receipts and the chain: what is genuine passes, and every single change is caught."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from equipoise._util.canonical import canonical_json
from equipoise.errors import VerificationError
from equipoise.models.section import SMALL_ORDER
from equipoise.protocol.keys import fingerprint, public_hex, same_fingerprint, verify
from equipoise.protocol.log import BEGINNING, check_chain, event_digest
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.requests import KEY, NONCE, SIGNATURE, TIME, SignedRequest, sign_request

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def _add(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    (x, y), (u, v) = first, second
    k = D * x * u * y * v % P
    return (x * v + y * u) * pow(1 + k, -1, P) % P, (y * v + x * u) * pow(1 - k, -1, P) % P


def _decoded(encoding: str) -> tuple[int, int]:
    number = int.from_bytes(bytes.fromhex(encoding), "little")
    y = (number & ((1 << 255) - 1)) % P
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    assert x * x % P == square
    return x, y


def test_the_refused_keys_are_those_of_small_order() -> None:
    """Eight times such a point is the neutral element; there are eight of them, written in fourteen ways."""
    points = set()
    for encoding in SMALL_ORDER:
        x, y = _decoded(encoding)
        points |= {(x, y), (-x % P, y)}
        eight = (x, y)
        for _ in range(3):
            eight = _add(eight, eight)
        assert eight == (0, 1)
    assert len(points) == 8
    assert len(SMALL_ORDER) == 14


def test_nobodys_key_is_refused_although_its_signature_is_genuine() -> None:
    one = "01" + "00" * 31
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(one)).verify(bytes.fromhex(one + "00" * 32), b"anything")
    with pytest.raises(VerificationError, match="nobody's key"):
        verify(one, one + "00" * 32, b"anything", what="it")


def test_fingerprints_are_compared_as_people_write_them() -> None:
    key = public_hex(Ed25519PrivateKey.generate())
    shown = fingerprint(key)
    assert len(shown) == 39
    assert same_fingerprint(shown, shown.upper().replace("-", " "))
    assert not same_fingerprint(shown, shown[:-1])
    assert not same_fingerprint(shown, fingerprint(public_hex(Ed25519PrivateKey.generate())))


ASKED: dict[str, Any] = {"audience": "ab" * 32, "method": "PUT", "target": "/v1/rounds/x?y=1", "body": b"{}"}


def test_a_signed_request_is_taken_and_any_other_refused() -> None:
    key = Ed25519PrivateKey.generate()
    headers = sign_request(key, **ASKED, time=1_700_000_000)
    found = SignedRequest.of(headers)
    assert found is not None
    found.check(**ASKED)
    others = {"audience": "cd" * 32, "method": "GET", "target": "/v1/rounds/x?y=2", "body": b"{ }"}
    for name, other in others.items():
        with pytest.raises(VerificationError, match="not signed"):
            found.check(**ASKED | {name: other})
    strangers = public_hex(Ed25519PrivateKey.generate())
    for name, value in ((TIME, "1700000001"), (NONCE, "0" * 32), (KEY, strangers)):
        changed = SignedRequest.of(headers | {name: value})
        assert changed is not None
        with pytest.raises(VerificationError):
            changed.check(**ASKED)


@pytest.mark.parametrize("name", [KEY, TIME, NONCE, SIGNATURE])
@pytest.mark.parametrize("value", [None, "", "x" * 64, "１２３", "1" * 13])
def test_malformed_headers_are_refused(name: str, value: str | None) -> None:
    headers: dict[str, str] = sign_request(Ed25519PrivateKey.generate(), **ASKED, time=1)
    if value is None:
        del headers[name]
    else:
        headers[name] = value
    with pytest.raises(VerificationError, match=name):
        SignedRequest.of(headers)


def test_a_request_without_these_headers_is_not_a_signed_one() -> None:
    assert SignedRequest.of({"Host": "x"}) is None


def _receipt(key: Ed25519PrivateKey) -> Receipt:
    return Receipt.signed(
        key,
        round="abcd",
        agreement="a" * 64,
        party="north",
        submission="b" * 64,
        digest="c" * 64,
        received=1,
        event=2,
        event_digest="d" * 64,
    )


def test_a_receipt_holds_until_anything_in_it_is_changed() -> None:
    key = Ed25519PrivateKey.generate()
    receipt = _receipt(key)
    Receipt.parse(receipt.to_json()).check(public_hex(key))
    changes: dict[str, Any] = {
        "round": "abce", "agreement": "e" * 64, "party": "south", "submission": "e" * 64, "digest": "e" * 64,
        "received": 2, "event": 3, "event_digest": "e" * 64, "signature": "0" * 128,
    }  # fmt: skip
    for name, value in changes.items():
        altered = Receipt.parse(canonical_json(receipt.model_dump() | {name: value}))
        with pytest.raises(VerificationError):
            altered.check(public_hex(key))
    with pytest.raises(VerificationError, match="names the service"):
        receipt.check(public_hex(Ed25519PrivateKey.generate()))


@pytest.mark.parametrize("text", [b"", b"[]", b'{"format": "equipoise-receipt"}', b"\xff", b'{"a":1,"a":2}'])
def test_what_is_no_receipt_is_refused(text: bytes) -> None:
    with pytest.raises(VerificationError, match="not a receipt"):
        Receipt.parse(text)


def _log(length: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    previous = BEGINNING
    for number in range(1, length + 1):
        event = {
            "sequence": number, "time": number, "actor": "ana", "kind": "k", "round": None, "details": {"n": number},
            "previous": previous,
        }  # fmt: skip
        event["digest"] = previous = event_digest(event)
        events.append(event)
    return events


def test_an_intact_log_passes_and_says_its_head() -> None:
    log = _log(5)
    assert check_chain(log) == log[-1]["digest"]
    assert check_chain([]) == BEGINNING
    assert check_chain(log[2:], previous=log[1]["digest"], first=3) == log[-1]["digest"]


def test_every_change_of_a_log_shows() -> None:
    log = _log(5)
    altered: list[list[dict[str, Any]]] = [log[1:], log[:2] + log[3:], [*log[:2], log[3], log[2], log[4]]]
    for place in range(5):
        for name in (*log[0],):
            copy = json.loads(json.dumps(log))
            copy[place][name] = {"n": -1} if name == "details" else "x"
            altered.append(copy)
            missing = json.loads(json.dumps(log))
            del missing[place][name]
            altered.append(missing)
    for events in altered:
        with pytest.raises(VerificationError):
            check_chain(events)
