"""Requests signed with their sender's key.

The signature covers everything a request says: the service it is for, method, path with query, body, time and a nonce.
A request meant for one service is therefore useless at another. A replayed request is refused because its nonce is
known or, once nonces are forgotten, because it is too old. Confidentiality is left to TLS.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equipoise._util.canonical import sha256_hex
from equipoise.errors import VerificationError
from equipoise.protocol.keys import verify

KEY, TIME, NONCE, SIGNATURE = "Equipoise-Key", "Equipoise-Time", "Equipoise-Nonce", "Equipoise-Signature"
WINDOW = 300  # seconds that the sender's clock and the receiver's may be apart
_LENGTHS = {KEY: 64, NONCE: 32, SIGNATURE: 128}
_MAX_DIGITS = 12


@dataclass(frozen=True)
class SignedRequest:
    """The headers of a signed request: its sender's key, time, nonce and signature."""

    public_key: str
    time: int
    nonce: str
    signature: str

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Self | None:
        """Parse the headers; return None if all of them are missing."""
        stated = {name: headers.get(name) for name in (KEY, TIME, NONCE, SIGNATURE)}
        if not any(value is not None for value in stated.values()):
            return None
        for name, value in stated.items():
            if value is None:
                raise VerificationError(f"a signed request needs the header {name}, which is missing")
            if name in _LENGTHS and not (len(value) == _LENGTHS[name] and set(value) <= set("0123456789abcdef")):
                raise VerificationError(f"the header {name} must be {_LENGTHS[name]} lower-case hexadecimal digits")
        time = str(stated[TIME])
        if not (time.isascii() and time.isdigit() and len(time) <= _MAX_DIGITS):
            raise VerificationError(f"the header {TIME} must be seconds since 1970, in digits")
        return cls(str(stated[KEY]), int(time), str(stated[NONCE]), str(stated[SIGNATURE]))

    def check(self, *, audience: str, method: str, target: str, body: bytes) -> None:
        """Refuse a request that its sender did not sign for this service; the caller checks its age."""
        data = request_bytes(
            audience=audience, method=method, target=target, body=body, time=self.time, nonce=self.nonce
        )
        verify(self.public_key, self.signature, data, what="the request")


def sign_request(
    key: Ed25519PrivateKey, *, audience: str, method: str, target: str, body: bytes, time: int
) -> dict[str, str]:
    """Return the headers of a signed request; `audience` is the service's public key, `target` path and query."""
    nonce = secrets.token_hex(16)
    data = request_bytes(audience=audience, method=method, target=target, body=body, time=time, nonce=nonce)
    return {
        KEY: key.public_key().public_bytes_raw().hex(),
        TIME: str(time),
        NONCE: nonce,
        SIGNATURE: key.sign(data).hex(),
    }


def request_bytes(*, audience: str, method: str, target: str, body: bytes, time: int, nonce: str) -> bytes:
    """Return the signed bytes. No part but the target can hold a line break, and HTTP allows none there."""
    lines = ("equipoise-request-1", audience, method.upper(), target, sha256_hex(body), str(time), nonce)
    return "\n".join(lines).encode("utf-8", "surrogatepass")
