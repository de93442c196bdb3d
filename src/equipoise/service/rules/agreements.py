"""Agreements as the database keeps them; reading one takes a while, so those in use stay read."""

from functools import lru_cache

from equipoise._util.canonical import canonical_json, strict_json
from equipoise.agreement import Agreement

_LARGEST = 64 * 2**20


def written(agreement: Agreement) -> str:
    """As canonical JSON."""
    return canonical_json(agreement.model_dump(mode="json")).decode("ascii")


@lru_cache(maxsize=64)
def parsed(text: str) -> Agreement:
    """The agreement that was written."""
    return Agreement.model_validate(strict_json(text.encode("ascii"), max_bytes=_LARGEST))
