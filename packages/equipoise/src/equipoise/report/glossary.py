"""The glossary of a report: terms that a reader may not know."""

from equipoise.report.page import Section
from equipoise.reward.targets import SharingRule

TERMS = (
    (
        "Nat",
        "The unit of information. A posterior worth v nats has, on average, narrowed belief to one part in e^v of what "
        "was thought possible before: 1 nat to about a third, 3 nats to about a twentieth.",
    ),
    (
        "Value of a coalition",
        "How much the releases of these parties, taken together, change what is believed about the model: the "
        "Kullback–Leibler divergence from the prior to the posterior, also called Bayesian surprise.",
    ),
    ("Prior", "What all parties agreed to believe before any data was released."),
    (
        "Posterior",
        "What is believed after the releases, the noise in them taken into account. A reward is a posterior.",
    ),
    (
        "ε (epsilon)",
        "How much a release can reveal about any one row; smaller is more private. The reading (ε, δ) is the one most "
        "laws and guidelines use. The agreement's own unit is Rényi ε, for which it fixes the order λ of the "
        "divergence; zCDP is that divided by λ, and adds up over releases. The numbers differ, the guarantee is one.",
    ),
    (
        "Guess",
        "What a guarantee means at worst: somebody who knows all other rows, and holds two values of the last one for "
        "equally likely, can tell which it is so often and no more. A coin is right 50 % of the time.",
    ),
    (
        "Shapley value",
        "A party's fair share of what all are worth together: what it adds to a coalition, averaged over all orders in "
        "which the parties could have joined.",
    ),
    ("Target", "What a party's reward should be worth: {target}."),
    ("ρ (rho), the fairness exponent", "{exponent}; a smaller ρ is kinder to those who contribute less."),
    (
        "κ (kappa)",
        "How much of the team's evidence goes into a reward: 1 is the team's posterior, 0 the prior.",
    ),
    ("τ (tau)", "How much noise is added to the team's releases before a reward is made from them; 0 adds none."),
    (
        "Similarity",
        "Minus the divergence from the team's posterior to the reward, in nats: 0 is the same, lower is further away.",
    ),
    (
        "Standard error (±)",
        "How far a computed number may be from what endless computation would give. Twice the error either way covers "
        "the true number about 95 times in 100; charts show that range as bars.",
    ),
    ("R̂ and effective draws", "Checks of the computation: R̂ near 1 and thousands of effective draws are good."),
    ("Digest (SHA-256)", "A fingerprint of a file: change one byte and it is another."),
)


RULES: dict[SharingRule, dict[str, str]] = {
    "surplus": {
        "target": "what it knows alone, and of what it can gain the share that is its Shapley value divided by the "
        "largest in the team, to the power ρ",
        "exponent": "With ρ = 1 shares of what each can gain are in proportion to Shapley values",
    },
    "proportional": {
        "target": "the value of its team, times its Shapley value divided by the largest in the team, to the power ρ",
        "exponent": "With ρ = 1 targets are in proportion to Shapley values",
    },
}


def glossary(rule: SharingRule) -> Section:
    """Build the glossary, with definitions for the agreed rule."""
    return Section("glossary", "Glossary", terms=[(term, meaning.format(**RULES[rule])) for term, meaning in TERMS])
