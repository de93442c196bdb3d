"""Secrets that a service hands out: one-time links, tokens, sessions. It keeps only their hashes.

They have 256 random bits, so that a plain hash cannot be searched: no slow hash is needed, as it would be for a
password that a person chose.
"""

import secrets

from equipoise._util.canonical import sha256_hex


def new_secret() -> str:
    """43 letters, digits, - and _."""
    return secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    """What is kept of it."""
    return sha256_hex(secret.encode("utf-8", "surrogatepass"))
