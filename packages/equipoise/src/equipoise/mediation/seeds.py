"""Seeds of a settlement: all follow from what was submitted, so that nobody tries seeds until an outcome suits.

The first one must depend on nothing that whoever settles can vary. Digests of events would not do: they hold the
service's clock and all that happened before, of which the service could try a thousand until it likes the seed. Nor
would the round's name, which is new for every round under the same agreement. What is left is the agreement and the
submissions, which are their parties' words, signed by them. So the same submissions have the same seed in whatever
round, however often, and with whatever options they are settled. All other seeds are derived from that one.

Who could still try is whoever sends the last submission and knows all the others: a party in league with the mediator.
It could as well send whatever it likes.
"""

from collections.abc import Mapping

from equipoise._util.canonical import canonical_json, sha256_hex

LABEL = "equipoise-seed-1"


def seed_of(agreement: str, submissions: Mapping[str, str]) -> int:
    """52 bits, which any reader of JSON keeps, from the agreement's identity and each party's SHA-256."""
    return int(sha256_hex(canonical_json([LABEL, agreement, dict(submissions)]))[:13], 16)


def derived_seed(seed: int | None, *purpose: object) -> int:
    """A seed of its own for everything that is random in a run: 52 bits, which any reader of JSON keeps."""
    return int(sha256_hex(canonical_json([seed, *purpose]))[:13], 16)


def path_of(secret: str) -> str:
    """What the paths of degraded rewards follow from: 256 bits of SHA-256, the same however often a round is settled.

    With other noise each time, whoever got a reward of every settlement could average it away.
    """
    return sha256_hex(canonical_json(["equipoise-path", secret]))


def derived_noise(secret: str, *purpose: object) -> str:
    """Noise of its own for a purpose: 128 bits of SHA-256, so that it is as hard to guess as the secret."""
    return sha256_hex(canonical_json([secret, *purpose]))[:32]
