"""Ed25519 keys of parties and services: private keys in files, fingerprints of public ones, signatures.

A private key is a PEM file that only its owner can read. A public key is 64 hexadecimal digits on the wire. People
compare its fingerprint, half as long: the first 128 bits of its SHA-256 in groups of four digits. Nobody can find a
second key with the same fingerprint.
"""

import os
import shlex
import stat
import warnings
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from equipoise._util.canonical import sha256_hex
from equipoise._util.files import exists, write_new_file
from equipoise.errors import KeyFileError, KeyFileWarning, VerificationError
from equipoise.models.section import validate_public_key

MAX_BYTES = 2**16
_GROUPS = 8  # groups of four digits in a fingerprint


def create_key(path: Path) -> Ed25519PrivateKey:
    """Create a key and write it to a file that only its owner can read. An existing file is never overwritten."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        write_new_file(path, pem, mode=0o600)
    except FileExistsError as error:
        raise KeyFileError(f"{str(path)!r} exists and will not be overwritten; choose another name") from error
    except OSError as error:
        raise KeyFileError(f"cannot write the key {str(path)!r}: {error.strerror}") from error
    return key


def load_or_create_key(path: Path) -> Ed25519PrivateKey:
    """Load the key in a file, or create it; if two processes do so at once, one of them creates it."""
    if not exists(path):
        try:
            return create_key(path)
        except KeyFileError:
            if not exists(path):
                raise
    return load_key(path)


def load_key(path: Path) -> Ed25519PrivateKey:
    """Read a key written by `create_key` (or any unencrypted Ed25519 key in PEM form)."""
    try:
        with path.open("rb") as file:
            mode, data = os.fstat(file.fileno()).st_mode, file.read(MAX_BYTES)
        _check_mode(path, mode)
        key = load_pem_private_key(data, password=None)
    except OSError as error:
        raise KeyFileError(
            f"cannot read the key {str(path)!r}: {error.strerror}; make one with `equipoise party keygen`"
        ) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyFileError(
            f"{str(path)!r} is not an unencrypted private key in PEM form; make one with `equipoise party keygen`"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{str(path)!r} is not an Ed25519 key; make one with `equipoise party keygen`")
    return key


def _check_mode(path: Path, mode: int) -> None:
    """Warn if others can read a key, as where a disk is shared on purpose; refuse a key that anybody can replace."""
    if os.name == "nt" or not mode & (stat.S_IRWXG | stat.S_IRWXO):
        return
    seen, remedy = f"{stat.S_IMODE(mode):03o}", f"chmod 600 {shlex.quote(str(path))}"
    if mode & stat.S_IWOTH:
        raise KeyFileError(
            f"the key {str(path)!r} can be replaced by anybody on this machine (mode {seen}); see that it is yours, "
            f"then `{remedy}`"
        )
    warnings.warn(
        f"the key {str(path)!r} is open to others on this machine (mode {seen}), who could sign as you; `{remedy}`",
        KeyFileWarning,
        stacklevel=3,
    )


def public_hex(key: Ed25519PrivateKey) -> str:
    """Return the public half as the 64 hexadecimal digits that agreements and submissions use."""
    return key.public_key().public_bytes_raw().hex()


def fingerprint(public_key: str) -> str:
    """Return the fingerprint that people read to each other, as in 2c26-b46b-68ff-c68f-f99b-453c-1d30-4134."""
    digits = sha256_hex(bytes.fromhex(public_key))
    return "-".join(digits[4 * group : 4 * group + 4] for group in range(_GROUPS))


def same_fingerprint(first: str, second: str) -> bool:
    """Return whether two fingerprints agree, ignoring dashes, spaces and capitals."""
    return _bare(first) == _bare(second)


def verify(public_key: str, signature: str, data: bytes, *, what: str) -> None:
    """Refuse a signature that the key did not make; `what` names the signed document in the message."""
    try:
        validate_public_key(public_key)
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
