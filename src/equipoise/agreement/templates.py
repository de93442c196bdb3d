"""Commented example agreements, one for each model: what `equipoise agreement new` writes."""

_HEAD = """\
# An Equipoise agreement. Every party keeps the same file; its SHA-256 (shown by
# `equipoise agreement check`) is its identity, and comments or spacing do not change it.

format = 2
title = "{title}"
"""

_BOUNDS = """\
# Public bounds. Choose them from common knowledge, NEVER from the data: they are mapped to [-1, 1],
# values outside are clipped, and wider bounds mean more noise in the data's own units.
"""

_TYPICAL = """\
# A column may also say where about 95 % of its values lie, from common knowledge like the bounds:
#   { name = "height", bounds = [50, 230], typical = [150, 195] }
# It changes beliefs, not noise. Unless stated, the middle half of the bounds is taken.
"""

_NORM = """\
# Optional: the largest Euclidean norm of a row's features once each spans [-1, 1]. Rows beyond it are
# pulled in. A value well below sqrt(number of features) lowers the noise.
# norm_bound = 1.2
"""

_SCOPE = """\
# "shared": all parties' features come from one distribution; "per-party": each has its own.
scope = "shared"
"""

_MODELS = {
    "linear": (
        "Disease progression across hospitals",
        f"""\
[model]
kind = "linear"
{_BOUNDS}{_TYPICAL}features = [
  {{ name = "age", bounds = [18, 100] }},
  {{ name = "bmi", bounds = [15, 60] }},
  {{ name = "blood_pressure", bounds = [50, 140] }},
]
target = {{ name = "progression", bounds = [0, 400] }}
{_NORM}
# Beliefs before any data; these are the defaults. kind = "conjugate" is the paper's prior, for columns that fill
# their bounds.
[model.prior]
kind = "standardised"
# effect = 0.816         # change of the target for one standard deviation of a feature, in residual deviations; unless
#                          stated, all features together are as likely as not to explain half of its variance
residual = 0.6           # residual deviation, as a share of the target's typical one, ...
residual_spread = 1.0    # ... within a factor of e^1, about 3

[model.data_prior]
{_SCOPE}concentration = 2.0      # LKJ prior of the features' correlations
sd_spread = 1.0          # features' standard deviations are typical within a factor of e^1, about 3, ...
stated_spread = 0.5      # ... and of e^0.5, about 1.6, where a typical range is stated
mean_spread = 2.0        # features' means are within 2 typical deviations of the middle
""",
    ),
    "logistic": (
        "Readmission across hospitals",
        f"""\
[model]
kind = "logistic"
{_BOUNDS}{_TYPICAL}features = [
  {{ name = "age", bounds = [18, 100] }},
  {{ name = "bmi", bounds = [15, 60] }},
  {{ name = "glucose", bounds = [40, 300] }},
]
# The two values of the target exactly as the tables have them: [negative, positive].
target = {{ name = "readmitted", labels = ["no", "yes"] }}
{_NORM}
# Beliefs before any data; these are the defaults. kind = "conjugate" is the paper's prior, for columns that fill
# their bounds.
[model.prior]
kind = "standardised"
effect = 1.25            # change of the log odds for one standard deviation of a feature
bias_spread = 2.0        # log odds where all features are at their means

[model.data_prior]
{_SCOPE}concentration = 2.0      # LKJ prior of the features' correlations
sd_spread = 1.0          # features' standard deviations are typical within a factor of e^1, about 3, ...
stated_spread = 0.5      # ... and of e^0.5, about 1.6, where a typical range is stated
mean_spread = 2.0        # features' means are within 2 typical deviations of the middle
""",
    ),
    "bernoulli": (
        "Share of defaulting loans across banks",
        """\
[model]
kind = "bernoulli"
# The two values of the column exactly as the tables have them: [negative, positive].
target = { name = "defaulted", labels = [0, 1] }

# Share of the positive label ~ Beta(positive, negative).
[model.prior]
positive = 1.0
negative = 1.0
""",
    ),
    "categorical": (
        "Blood groups across clinics",
        """\
[model]
kind = "categorical"
# Every value the column may have; a value outside the list is an error.
target = { name = "blood_group", categories = ["0", "A", "B", "AB"] }

# Shares ~ Dirichlet; one concentration for all categories, or a list with one for each.
[model.prior]
concentration = 1.0
""",
    ),
    "poisson": (
        "Emergency visits per day across hospitals",
        f"""\
[model]
kind = "poisson"
{_BOUNDS}target = {{ name = "visits", bounds = [0, 60] }}

# Rate ~ Gamma(shape, rate), in the data's own units. Without `rate`, the prior mean is the middle of the bounds.
[model.prior]
shape = 1.0
""",
    ),
    "exponential": (
        "Days between failures across plants",
        f"""\
[model]
kind = "exponential"
{_BOUNDS}target = {{ name = "days", bounds = [0, 90] }}

# Rate ~ Gamma(shape, rate), in the data's own units. Without `rate`, the prior mean puts a typical
# waiting time at the middle of the bounds.
[model.prior]
shape = 1.0
""",
    ),
    "gaussian": (
        "Systolic blood pressure across practices",
        f"""\
[model]
kind = "gaussian"
{_BOUNDS}target = {{ name = "pressure", bounds = [70, 220] }}

# Beliefs in units where the column spans [-1, 1]; these are the defaults.
[model.prior]
shape = 3.0              # variance ~ InverseGamma(shape, scale)
scale = 0.5
mean = 0.0
mean_strength = 0.25     # how many rows the belief about the mean is worth
""",
    ),
}

_TAIL = """\
[privacy]
# Everyone's epsilon is Renyi differential privacy of this order, under replacing one row.
order = 2
# The weakest privacy (largest epsilon) anyone may choose.
max_epsilon = 1.0

[reward]
mechanism = "tempering"  # or "noise"
# Fairness exponent: near 0 rewards everyone alike, 1 in proportion to contribution;
# "max" is the largest that leaves nobody worse off than alone.
rho = "max"
# What the operator may choose otherwise, of "mechanism", "rho" and "teams":
# operator_may_choose = ["rho"]
"""

_PARTY = """
[[parties]]
name = "{name}"
# public_key = "64 hexadecimal digits printed by `equipoise party keygen`"
"""


def example_agreement(kind: str, parties: tuple[str, ...] = ("north", "south", "west")) -> str:
    """TOML text of a commented, valid agreement for a model."""
    title, model = _MODELS[kind]
    sections = [
        _HEAD.format(title=title),
        model,
        _TAIL + "".join(_PARTY.format(name=name) for name in parties),
    ]
    return "\n".join(sections)
