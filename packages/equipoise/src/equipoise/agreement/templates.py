"""Commented example agreements, one for each kind of model, as `equipoise agreement new` writes them."""

from equipoise.models import KINDS

_HEAD = """\
# An Equipoise agreement. Every party keeps the same file; its SHA-256 (shown by
# `equipoise agreement check`) is its identity, and comments or spacing do not change it.

format = 3
title = "{title}"
"""

_TAIL = """\
[privacy]
# Everyone's epsilon is Renyi differential privacy of this order, under replacing one row.
order = 2
# The weakest privacy (largest epsilon) anyone may choose.
max_epsilon = 1.0
# The largest table anyone may claim to have. A claim costs nothing and counts for much.
max_rows = 100_000

[reward]
# How rewards are held back: "degraded" ones stay as given. "tempering" predicts better at the
# same value, but whoever gets such a reward can undo it. "noise" is the paper's second way.
mechanism = "degraded"
# "surplus" shares what parties can gain, so that everybody gains; "proportional" is the paper's rule.
rule = "surplus"
# Fairness exponent: near 0 everyone gets nearly everything, with 1 a half contribution gets half of the gain.
rho = 0.5
# What the operator may choose otherwise, of "mechanism", "rho" and "teams":
# operator_may_choose = ["rho"]
"""

_PARTY = """
[[parties]]
name = "{name}"
# public_key = "64 hexadecimal digits printed by `equipoise party keygen`"
"""


def example_agreement(kind: str, parties: tuple[str, ...] = ("north", "south", "west")) -> str:
    """Return the TOML text of a commented, valid agreement for a kind of model."""
    title, model = KINDS[kind].template
    sections = [
        _HEAD.format(title=title),
        model,
        _TAIL + "".join(_PARTY.format(name=name) for name in parties),
    ]
    return "\n".join(sections)
