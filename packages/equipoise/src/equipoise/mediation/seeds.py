"""Seeds of a settlement. All follow from the submissions, so that nobody can try seeds until an outcome suits.

The first seed must not depend on anything that the mediator can vary. Digests of events would not do: they depend on
the service's clock and on all earlier events, and the service could try a thousand variants until it likes the seed.
The name of the round would not do either, because every round under the same agreement has a new one. What remains is
the agreement and the submissions, which the parties signed. So the same submissions have the same seed in any round,
however often and with whatever options they are settled. All other seeds are derived from that one.

One attack remains: a party that sends the last submission and knows all others, in league with the mediator, can try
seeds. But it could as well send any numbers it likes.
"""

from collections.abc import Mapping

from equipoise._util.canonical import canonical_json, sha256_hex

LABEL = "equipoise-seed-1"


def seed_of(agreement: str, submissions: Mapping[str, str]) -> int:
    """Derive the first seed from the agreement's identity and each party's SHA-256: 52 bits, exact in JSON."""
    return int(sha256_hex(canonical_json([LABEL, agreement, dict(submissions)]))[:13], 16)


def derived_seed(seed: int | None, *purpose: object) -> int:
    """Derive a separate seed for each random part of a run: 52 bits, which any JSON reader keeps exactly."""
    return int(sha256_hex(canonical_json([seed, *purpose]))[:13], 16)


def path_of(secret: str) -> str:
    """Derive the seed of the noise paths of degraded rewards: 256 bits, the same however often a round is settled.

    With new noise each time, a party with a reward of every settlement could average the noise away.
    """
    return sha256_hex(canonical_json(["equipoise-path", secret]))


def derived_noise(secret: str, *purpose: object) -> str:
    """Derive a separate noise seed for a purpose: 128 bits of SHA-256, too many to guess."""
    return sha256_hex(canonical_json([secret, *purpose]))[:32]
