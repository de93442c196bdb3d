"""Requests signed by their sender's key.

The signature covers everything a request says: which service it is for, method, path with query, body, time and a
nonce. A request meant for one service is therefore nothing to another; one that was recorded is refused because its
nonce is known, and once nonces are forgotten, because it is old. TLS still keeps what is said from others.
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
    """What the headers of a request say: who sent it, when, and the signature."""

    public_key: str
    time: int
    nonce: str
    signature: str

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Self | None:
        """Read from headers; None if none of them is there."""
        found = {name: headers.get(name) for name in (KEY, TIME, NONCE, SIGNATURE)}
        if not any(value is not None for value in found.values()):
            return None
        for name, value in found.items():
            if value is None:
                raise VerificationError(f"a signed request needs the header {name}, which is missing")
            if name in _LENGTHS and not (len(value) == _LENGTHS[name] and set(value) <= set("0123456789abcdef")):
                raise VerificationError(f"the header {name} must be {_LENGTHS[name]} lower-case hexadecimal digits")
        time = str(found[TIME])
        if not (time.isascii() and time.isdigit() and len(time) <= _MAX_DIGITS):
            raise VerificationError(f"the header {TIME} must be seconds since 1970, in digits")
        return cls(str(found[KEY]), int(time), str(found[NONCE]), str(found[SIGNATURE]))

    def check(self, *, audience: str, method: str, target: str, body: bytes) -> None:
        """Refuse a request that its sender did not sign for this service; whether it is too old, the caller judges."""
        data = request_bytes(
            audience=audience, method=method, target=target, body=body, time=self.time, nonce=self.nonce
        )
        verify(self.public_key, self.signature, data, what="the request")


def sign_request(
    key: Ed25519PrivateKey, *, audience: str, method: str, target: str, body: bytes, time: int
) -> dict[str, str]:
    """Headers that make a request a signed one; `audience` is the service's public key, `target` path and query."""
    nonce = secrets.token_hex(16)
    data = request_bytes(audience=audience, method=method, target=target, body=body, time=time, nonce=nonce)
    return {
        KEY: key.public_key().public_bytes_raw().hex(),
        TIME: str(time),
        NONCE: nonce,
        SIGNATURE: key.sign(data).hex(),
    }


def request_bytes(*, audience: str, method: str, target: str, body: bytes, time: int, nonce: str) -> bytes:
    """What is signed. None of the parts but the target can hold a line break, and HTTP allows none there."""
    lines = ("equipoise-request-1", audience, method.upper(), target, sha256_hex(body), str(time), nonce)
    return "\n".join(lines).encode("utf-8", "surrogatepass")
