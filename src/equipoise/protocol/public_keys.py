"""Public keys as people compare them, and signatures made with them.

A key is 64 hexadecimal digits on the wire. People compare its fingerprint, half as long: the first 128 bits of its
SHA-256 in groups of four, which no one can find a second key for.
"""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from equipoise._util.canonical import sha256_hex
from equipoise.errors import VerificationError
from equipoise.models.section import somebodys_key

_GROUPS = 8  # of four digits


def fingerprint(public_key: str) -> str:
    """What people read to each other, as in 2c26-b46b-68ff-c68f-f99b-453c-1d30-4134."""
    digits = sha256_hex(bytes.fromhex(public_key))
    return "-".join(digits[4 * group : 4 * group + 4] for group in range(_GROUPS))


def same_fingerprint(first: str, second: str) -> bool:
    """Whether two people mean the same, however they wrote dashes, spaces and capitals."""
    return _bare(first) == _bare(second)


def verify(public_key: str, signature: str, data: bytes, *, what: str) -> None:
    """Refuse a signature that the key did not make; `what` is what was signed, for the message."""
    try:
        somebodys_key(public_key)
    except ValueError as error:
        raise VerificationError(f"{what} cannot be trusted: {error}") from error
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), data)
    except (InvalidSignature, ValueError) as error:
        raise VerificationError(
            f"{what} was not signed with the key {fingerprint(public_key)}, or was altered afterwards"
        ) from error


def _bare(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
