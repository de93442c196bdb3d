"""The data sets Syn, CaliH and Diab (paper App. H.1), as agreements with tables.

The library works in units in which every column spans [−1, 1]; the paper states its priors in the data's own units.
With bounds ±b, D = diag(b₁ … b_w, 1) and B = diag(b₁ … b_w), the priors translate exactly: the precision of the weights
becomes D⁻¹ Λ D⁻¹, the scale of the variance β/b_y², the features' covariance B⁻¹ Σ B⁻¹. Divergences do not change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.models.base import Rows
from equipoise.reward.scoring import scaled_rows
from equipoise_paper import network, sources

PARTIES = ("1", "2", "3")
EPSILONS = {"1": 0.2, "2": 0.1, "3": 0.2}
ORDER = 2.0
# The seed of the noise that parties add to their statistics.
NOISE_SEED = 2023
RHO = 0.2
SHARES = (0.2, 0.3, 0.5)
LARGEST_EPSILON = 1e4
SYN_ROWS = (100, 200, 400)
SYN_TEST_ROWS = 1_000
OUTLIER = 4.0  # standard deviations
CLIP = 2.2
COMPONENTS = 4

Table = tuple[Floats, Floats]  # features [rows, columns], targets


@dataclass(frozen=True)
class Setting:
    """A data set that three parties share, test rows, and the prior in the data's own units.

    `regression` has shape, scale, weight_precision, mean_strength, covariance, degrees_of_freedom and scope;
    classification has max_squared_norm.
    """

    name: str
    tables: dict[str, Table]
    test: Table
    bounds: Floats  # one for each feature
    target_bound: float
    prior: Mapping[str, object]
    order: float = ORDER

    @property
    def kind(self) -> str:
        """The kind of the model."""
        return "logistic" if self.name == "Diab" else "linear"

    def agreement(self, parties: Sequence[str]) -> Agreement:
        """Return the agreement that such parties would have made."""
        names = [f"x{number}" for number in range(len(self.bounds))]
        features = [
            {"name": name, "bounds": [-bound, bound]} for name, bound in zip(names, self.bounds.tolist(), strict=True)
        ]
        model: dict[str, object] = {"kind": self.kind, "features": features}
        model |= self._logistic() if self.kind == "logistic" else self._linear()
        return Agreement.model_validate(
            {
                "format": 1,
                "title": f"{self.name} (paper's setting)",
                "model": model,
                "privacy": {"order": self.order, "max_epsilon": LARGEST_EPSILON},
                "reward": {"rho": RHO},
                "parties": [{"name": party} for party in parties],
            }
        )

    def _linear(self) -> dict[str, object]:
        prior = self.prior
        outer = np.diag(1 / np.append(self.bounds, 1.0))
        inner = np.diag(1 / self.bounds)
        precision = outer @ np.asarray(prior["weight_precision"], float) @ outer
        covariance = inner @ np.asarray(prior["covariance"], float) @ inner
        return {
            "target": {"name": "y", "bounds": [-self.target_bound, self.target_bound]},
            "prior": {
                "shape": prior["shape"],
                "scale": float(prior["scale"]) / self.target_bound**2,  # type: ignore[arg-type]
                # Symmetric to the last digit, as agreements require.
                "weight_precision": ((precision + precision.T) / 2).tolist(),
            },
            "data_prior": {
                "scope": prior["scope"],
                "mean_strength": prior["mean_strength"],
                "covariance": covariance.tolist(),
                "degrees_of_freedom": prior["degrees_of_freedom"],
            },
        }

    def _logistic(self) -> dict[str, object]:
        (bound,) = set(self.bounds.tolist())
        return {
            "target": {"name": "y", "labels": [-1, 1]},
            "prior": {
                "degrees_of_freedom": float(len(self.bounds)),
                "max_squared_norm": self.prior["max_squared_norm"],
                "weight_scale": bound,
                "bias_scale": 1.0,
            },
            "data_prior": {
                "scope": "shared",
                "mean_spread": 0.0,
                "concentration": 2.0,
                "sd_mean": 1 / bound,
                "sd_spread": 1 / bound,
                "sd_max": 2 / bound,
            },
        }

    @property
    def test_rows(self) -> Rows:
        """The rows that no party has, in the form that losses take."""
        features, targets = self.test
        answers = targets.astype(int).tolist() if self.kind == "logistic" else targets
        return scaled_rows(self.agreement(PARTIES), features, answers)

    def up_to(self, limit: float) -> "Setting":
        """Return the setting with only those rows whose first feature is at most `limit`; bounds and test rows stay."""
        tables = {}
        for party, (features, targets) in self.tables.items():
            kept = features[:, 0] <= limit
            tables[party] = features[kept], targets[kept]
        return replace(self, tables=tables)

    def halved(self) -> "Setting":
        """Return the setting with only the first half of every party's rows."""
        halves = {party: (x[: len(y) // 2], y[: len(y) // 2]) for party, (x, y) in self.tables.items()}
        return replace(self, tables=halves)


def syn(seed: int = 1, rows: Sequence[int] = SYN_ROWS) -> Setting:
    """Generate Syn: two features; weights, variance and every party's feature distribution are drawn from the prior."""
    rng = np.random.default_rng(seed)
    variance = 0.1 / rng.gamma(5.0)
    weights = rng.normal(size=3) * np.sqrt(variance / 0.025)

    def targets(features: Floats) -> Floats:
        noise: Floats = rng.normal(scale=np.sqrt(variance), size=len(features))
        return np.asarray(features @ weights[:2] + weights[2] + noise)

    tables, test = {}, []
    for party, number in zip(PARTIES, rows, strict=True):
        normal = rng.normal(size=(50, 2))
        covariance = np.linalg.inv(normal.T @ normal)  # W⁻¹(I, 50)
        mean = rng.multivariate_normal(np.zeros(2), covariance)
        features = rng.multivariate_normal(mean, covariance, size=number)
        tables[party] = features, targets(features)
        share = SYN_TEST_ROWS * number // sum(rows)
        test.append(rng.multivariate_normal(mean, covariance, size=share))
    unseen = np.concatenate(test)
    prior = {
        "shape": 5.0,
        "scale": 0.1,
        "weight_precision": 0.025 * np.eye(3),
        "scope": "per-party",
        "mean_strength": 1.0,
        "covariance": np.eye(2) / (50 - 2 - 1),  # ψ₀ = I
        "degrees_of_freedom": 50.0,
    }
    return _bounded("Syn", tables, (unseen, targets(unseen)), prior)


def calih(data: Path | None = None, seed: int = 2) -> Setting:
    """Prepare California housing: six features from a network trained on public rows; parties learn its last layer."""
    table = sources.load(sources.HOUSING, data)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table))
    public, private = np.split(table[order], [round(0.6 * len(table))])
    inputs = _robustly_scaled(public)
    centre, scale = public[:, -1].mean(), public[:, -1].std()

    def targets(rows: Floats) -> Floats:
        return np.asarray((rows[:, -1] - centre) / scale)

    layers = network.train(inputs(public), targets(public), seed)
    learnt = network.hidden(layers, inputs(public))
    mean, deviation = learnt.mean(axis=0), learnt.std(axis=0)

    def features(rows: Floats) -> Floats:
        return np.asarray((network.hidden(layers, inputs(rows)) - mean) / deviation)

    def usual(rows: Floats) -> Table:
        inner, wanted = features(rows), targets(rows)
        kept = np.all(np.abs(inner) <= OUTLIER, axis=1)
        return inner[kept], wanted[kept]

    cut = round(0.8 * len(private))
    ours = usual(private[:cut])
    design = np.column_stack([features(public), np.ones(len(public))])
    moment = design.T @ design / len(public)
    weights = np.linalg.lstsq(design, targets(public), rcond=None)[0]
    variance = float(np.mean((targets(public) - design @ weights) ** 2))
    significance = 10.0
    prior = {
        "shape": significance / 2,
        "scale": significance / 2 * variance,
        "weight_precision": significance * moment,
        "scope": "shared",
        "mean_strength": 0.01,  # Murphy's weakly data-dependent prior
        "covariance": np.diag(np.diag(moment)[:-1]),
        "degrees_of_freedom": 8.0,
    }
    return _bounded("CaliH", _split(ours, rng), usual(private[cut:]), prior)


def diab(data: Path | None = None, seed: int = 3) -> Setting:
    """Prepare PIMA diabetes: the first four principal components of eight features, labels ±1."""
    table = sources.load(sources.DIABETES, data)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(table))
    train, test = np.split(table[order], [round(0.8 * len(table))])
    inputs = _robustly_scaled(train)
    scaled = inputs(train)
    centre = scaled.mean(axis=0)
    _, _, directions = np.linalg.svd(scaled - centre, full_matrices=False)
    components = (scaled - centre) @ directions[:COMPONENTS].T
    deviation = components.std(axis=0)

    def prepared(rows: Floats, limit: float) -> Table:
        scores = (inputs(rows) - centre) @ directions[:COMPONENTS].T / deviation
        return np.clip(scores, -limit, limit), np.where(rows[:, -1] > 0, 1.0, -1.0)

    ours = prepared(train, CLIP)
    prior = {"max_squared_norm": 2.5 * _squared_norm(*ours)}
    tables, bounds = _split(ours, rng), np.full(COMPONENTS, CLIP)
    return Setting("Diab", tables, prepared(test, np.inf), bounds, 1.0, prior)


def _robustly_scaled(known: Floats) -> Callable[[Floats], Floats]:
    """Return a function that centres features at the median of known rows and divides by their interquartile range."""
    middle = np.median(known[:, :-1], axis=0)
    spread = np.subtract(*np.quantile(known[:, :-1], [0.75, 0.25], axis=0))
    return lambda rows: np.asarray((rows[:, :-1] - middle) / spread)


def _squared_norm(features: Floats, labels: Floats) -> float:
    """Return the squared norm of the coefficients, bias included, of the best fit without privacy."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1e6, max_iter=10_000).fit(features, labels)
    return float(np.sum(fitted.coef_**2) + np.sum(fitted.intercept_**2))


def _split(table: Table, rng: np.random.Generator) -> dict[str, Table]:
    features, targets = table
    order = rng.permutation(len(targets))
    cuts = np.round(np.cumsum(SHARES[:-1]) * len(order)).astype(int)
    return {party: (features[rows], targets[rows]) for party, rows in zip(PARTIES, np.split(order, cuts), strict=True)}


def _bounded(name: str, tables: dict[str, Table], test: Table, prior: dict[str, object]) -> Setting:
    """Build a setting whose bounds are taken from the data, which only an experiment may do."""
    bounds = np.max([np.abs(features).max(axis=0) for features, _ in tables.values()], axis=0)
    largest = max(float(np.abs(targets).max()) for _, targets in tables.values())
    return Setting(name, tables, test, bounds, largest, prior)
