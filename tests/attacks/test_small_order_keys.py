"""Keys that anybody can sign with: refused wherever a public key comes in."""

import json
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import builders
from equipoise.agreement import Agreement
from equipoise.client.connection import Connection
from equipoise.client.membership import Membership
from equipoise.errors import AgreementError, ServiceError, SubmissionError, VerificationError
from equipoise.models import layout_of
from equipoise.models.section import SMALL_ORDER
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.requests import SignedRequest
from equipoise.protocol.submission import StatedGuarantee, Submission

NEUTRAL = "01" + "00" * 31
FITS_ANYTHING = NEUTRAL + "00" * 32  # a genuine signature of every text by that key


@pytest.mark.parametrize("key", sorted(SMALL_ORDER))
def test_nobody_agrees_to_them(key: str) -> None:
    text = builders.TAIL.format(order=2, max_epsilon=1).replace(
        'name = "south"', f'name = "south"\npublic_key = "{key}"'
    )
    with pytest.raises(AgreementError, match=rf"parties\[1\].public_key: {key[:16]}… is nobody's key"):
        Agreement.parse(f'format = 1\n[model]\nkind = "gaussian"\ntarget = {{ name = "y", bounds = [0, 1] }}\n{text}')


def test_nobody_submits_with_them() -> None:
    agreed = builders.bernoulli()
    forged = Submission(
        format="equipoise-submission",
        version=1,
        agreement=agreed.identity,
        party="north",
        id="ab" * 32,
        guarantee=StatedGuarantee(order=2.0, epsilon=1.0),
        count=10,
        statistic=[0] * len(layout_of(agreed)),
        public_key=NEUTRAL,
        signature=FITS_ANYTHING,
    )
    with pytest.raises(SubmissionError, match=r"of 'north' cannot be trusted: 01000.*nobody's key"):
        forged.check(agreed)


def test_no_service_has_one(tmp_path: Path) -> None:
    told = {"public_key": NEUTRAL, "version": "0.6.0", "time": 0}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=told))
    with (
        Connection("https://service.example", transport=transport) as connection,
        pytest.raises(ServiceError, match="nobody's key"),
    ):
        connection.introduction()
    note = {"format": "equipoise-membership", "version": 1, "place": "https://service.example", "service": NEUTRAL}
    note |= {"name": "north", "role": "party", "key": "k", "ledger": None, "agreement": None, "ca": None}
    (tmp_path / "equipoise.json").write_text(json.dumps(note))
    with pytest.raises(ServiceError, match="nobody's key"):
        Membership.load(tmp_path / "equipoise.json")


def test_no_request_or_receipt_is_signed_with_one() -> None:
    request = SignedRequest(NEUTRAL, 0, "00" * 16, FITS_ANYTHING)
    with pytest.raises(VerificationError, match="nobody's key"):
        request.check(audience="ab" * 32, method="GET", target="/v1/rounds", body=b"")
    genuine = Receipt.signed(
        Ed25519PrivateKey.generate(),
        round="abcd",
        agreement="ab" * 32,
        party="north",
        submission="ab" * 32,
        digest="ab" * 32,
        received=0,
        event=1,
        event_digest="ab" * 32,
    )
    forged = genuine.model_copy(update={"service": NEUTRAL, "signature": FITS_ANYTHING})
    with pytest.raises(VerificationError, match="nobody's key"):
        forged.check(NEUTRAL)
