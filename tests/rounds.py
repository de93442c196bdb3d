"""Small rounds for tests of everything above inference: releases of simulated data, settled quickly."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import equipoise as eq
from equipoise._util.files import write_new_file
from equipoise.party.mechanism import noise_scale
from equipoise.party.release import release

NAMES = ("north", "south", "west", "east", "far", "near")

MODELS = {
    "gaussian": 'kind = "gaussian"\ntarget = { name = "y", bounds = [-3, 3] }',
    "bernoulli": 'kind = "bernoulli"\ntarget = { name = "y", labels = [0, 1] }',
    "categorical": 'kind = "categorical"\ntarget = { name = "y", categories = ["a", "b", "c"] }',
    "poisson": 'kind = "poisson"\ntarget = { name = "y", bounds = [0, 20] }',
    "exponential": 'kind = "exponential"\ntarget = { name = "y", bounds = [0, 5] }',
    "linear": """kind = "linear"
features = [{ name = "x", bounds = [-2, 2] }]
target = { name = "y", bounds = [-3, 3] }""",
    "logistic": """kind = "logistic"
features = [{ name = "x", bounds = [-2, 2] }]
target = { name = "y", labels = ["no", "yes"] }""",
}


LEFT_TO_THE_OPERATOR = 'operator_may_choose = ["mechanism", "rho", "teams"]'  # so that tests choose as they need
QUICKEST = ("bernoulli", "linear")  # a family and a regression


def models(*kinds: str) -> list[Any]:
    """Parameters of a test over models, all by default: the quickest in every run, the others in `make slow`."""
    chosen = kinds or tuple(sorted(MODELS))
    return [pytest.param(kind, marks=() if kind in QUICKEST else pytest.mark.slow) for kind in chosen]


def agreement_text(kind: str, parties: int = 3, reward: str = "") -> str:
    """The file of an agreement among so many parties."""
    members = "".join(f'[[parties]]\nname = "{name}"\n' for name in NAMES[:parties])
    privacy = "[privacy]\norder = 2\nmax_epsilon = 100.0\n"
    return f"format = 1\n[model]\n{MODELS[kind]}\n{privacy}[reward]\n{reward or LEFT_TO_THE_OPERATOR}\n{members}"


def agreement(kind: str, parties: int = 3, reward: str = "") -> eq.Agreement:
    """An agreement among so many parties."""
    return eq.Agreement.parse(agreement_text(kind, parties, reward))


def table(kind: str, rows: int, seed: int) -> dict[str, Any]:
    """Rows of one truth for all seeds."""
    rng = np.random.default_rng(seed)
    if kind == "linear":
        x = rng.normal(size=rows)
        return {"x": x, "y": 0.5 + 0.8 * x + 0.5 * rng.normal(size=rows)}
    if kind == "logistic":
        x = rng.normal(size=rows)
        yes = rng.uniform(size=rows) < 1 / (1 + np.exp(-1.5 * x))
        return {"x": x, "y": np.where(yes, "yes", "no").tolist()}
    draws: dict[str, Any] = {
        "gaussian": 0.7 + 0.8 * rng.normal(size=rows),
        "bernoulli": rng.integers(0, 10, rows) // 7,
        "categorical": rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=rows).tolist(),
        "poisson": rng.poisson(4.0, rows),
        "exponential": rng.exponential(1.2, rows),
    }
    return {"y": draws[kind]}


def submissions(
    agreed: eq.Agreement, folder: Path, epsilons: tuple[float, ...], *, rows: int = 300, seed: int = 0
) -> list[eq.Submission]:
    """One release for each ε, with rows of its own, and the same noise, key and id in every test run.

    The seed of a settlement follows from all that.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys = {party: Ed25519PrivateKey.from_private_bytes(_digest(party)) for party in agreed.party_names}
    for party, key in keys.items():
        if not (folder / f"{party}.ledger.key").exists():
            pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            write_new_file(folder / f"{party}.ledger.key", pem, mode=0o600)
    with mock.patch("equipoise.party.release.perturb", seeded(seed)):
        made = [
            release(
                agreed,
                table(agreed.model.kind, rows, seed + number),
                party=party,
                epsilon=epsilon,
                ledger=folder / f"{party}.ledger",
            )
            for number, (party, epsilon) in enumerate(zip(agreed.party_names, epsilons, strict=False))
        ]
    named = [one.model_copy(update={"id": _digest(f"{one.statistic} of {one.party}").hex()}) for one in made]
    return [one.model_copy(update={"signature": keys[one.party].sign(one.signed_bytes()).hex()}) for one in named]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def seeded(seed: int) -> Callable[..., list[int]]:
    """A mechanism with noise of the right scale that can be repeated; real releases have no seed."""
    rng = np.random.default_rng(seed + 1_000)

    def perturb(statistic: Sequence[int], *, sensitivity: int, zcdp: float) -> list[int]:
        scale = noise_scale(sensitivity, zcdp)
        return [int(value) + round(scale * rng.normal()) for value in statistic]

    return perturb
