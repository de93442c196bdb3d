"""Explain how method "moments" differs from samplers that draw features too: weight its draws by what it leaves out.

    python benchmarks/samplers_agree.py write FOLDER --data DATA    # and sample, with 0.14 too
    python benchmarks/what_moments_assume.py FOLDER --settings "CaliH, normal, ε = 2" "demo regression"

"moments" integrates the feature moments m out as if they were normal, and holds the covariance of a row fixed. Here m
is drawn given each draw of the parameters, and pairs are weighted:

    positive     by 1 where m belongs to a distribution, its covariance being positive definite, and by 0 elsewhere
    agreed       by the agreed inverse Wishart prior of features over the normal beliefs, in place of that
    row          by the density of the releases with the covariance of a row at (parameters, m), over that at the mode

Printed are the effective number of weighted draws, the largest shift from the other sampler's means in its standard
deviations, and widths relative to its. With few effective draws they say little. Linear regressions with features of
one distribution: of all parties, or of the first alone where each has its own.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import equipoise as eq
from equipoise.agreement import Agreement
from equipoise.inference.batch import Asked, releases_of
from equipoise.inference.pooling import Releases, pool
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.observation import TargetObservation, observe_targets
from equipoise.inference.regression.problem import Settled, settle_row_covariances
from equipoise.inference.regression.row_covariance import row_covariance
from equipoise.inference.released import released_sums
from equipoise.models.linear import NormalInverseWishart
from equipoise_paper.settings import PARTIES

Floats = NDArray[np.float64]

DRAWS = 10_000
TOGETHER = 4_000  # pairs whose Jacobians are in memory


class Pairs(NamedTuple):
    """Parameters and feature moments, a pair a row."""

    weights: Floats
    variance: Floats
    features: Floats


def draw_features(model: RegressionModel, found: TargetObservation, pairs: Pairs, rng: np.random.Generator) -> Floats:
    """Draw m of each pair given its parameters: a draw of (m, observation) before the release is moved by what is left.

    The observation has the mean h(m̂, θ) + (J − G)(m − m̂) and the covariance R.
    """
    moments, features = model.moments, model.moments.features
    size, covariance = moments.width + 1, found.feature_covariance
    jacobian = np.zeros((len(pairs.weights), size + 1, features))
    for i in range(size):
        for j in np.flatnonzero(moments.places[i] < features):
            jacobian[:, i, moments.places[i, j]] += pairs.weights[:, j]
    jacobian[:, size] = np.einsum("ki,kif->kf", pairs.weights, jacobian[:, :size])
    through = jacobian - found.carried
    moved = through @ covariance
    gain = np.linalg.solve(moved @ through.transpose(0, 2, 1) + found.covariance, moved).transpose(0, 2, 1)
    products = pairs.weights @ moments.second_moments(found.features)
    mean = np.column_stack([products, np.sum(pairs.weights * products, axis=1) + pairs.variance])
    apart = rng.multivariate_normal(np.zeros(features), covariance, size=len(mean), method="cholesky")
    noise = rng.multivariate_normal(np.zeros(size + 1), found.covariance, size=len(mean), method="cholesky")
    left = found.observed - mean - np.einsum("kif,kf->ki", through, apart) - noise
    return np.asarray(found.features + apart + np.einsum("kfi,ki->kf", gain, left))


def log_agreed(model: RegressionModel, features: Floats, positive: NDArray[np.bool_]) -> Floats:
    """Log ratio of the agreed density of (mean, Σ) to the normal beliefs, up to a constant."""
    data, width = model.agreed.data_prior, model.moments.width
    assert isinstance(data, NormalInverseWishart)
    second = model.moments.second_moments(features[positive])
    mean = second[:, :width, width]
    covariance = second[:, :width, :width] - mean[:, :, None] * mean[:, None, :]
    inverse, log_volume = np.linalg.inv(covariance), np.linalg.slogdet(covariance)[1]
    degrees = width + 4.0 if data.degrees_of_freedom is None else data.degrees_of_freedom
    scale = np.array(model.agreed.feature_covariance) * (degrees - width - 1)  # type: ignore[attr-defined]
    far = mean - (0.0 if data.mean is None else np.array(data.mean))
    found = np.full(len(features), -np.inf)
    found[positive] = -0.5 * (
        (degrees + width + 2) * log_volume
        + np.einsum("ij,kji->k", scale, inverse)
        + data.mean_strength * np.einsum("ki,kij,kj->k", far, inverse, far)
        - np.sum((features[positive] - model.feature_prior.mean) ** 2 / model.feature_prior.variance, axis=1)
    )
    return found


def log_row(model: RegressionModel, releases: Releases, fixed: Floats, pairs: Pairs) -> Floats:
    """Log ratio of the releases' density with a row's covariance at each pair to that with a fixed one."""

    def log_density(covariance: Floats, mean: Floats) -> float:
        total = 0.0
        for statistic, rows, scale in zip(releases.statistic, releases.rows, releases.scale, strict=True):
            root = np.linalg.cholesky(rows * covariance + np.diag(scale * releases.shape))
            total -= np.log(np.diag(root)).sum() + 0.5 * np.sum(np.linalg.solve(root, statistic - rows * mean) ** 2)
        return float(total)

    found = np.empty(len(pairs.weights))
    for place, (weights, variance, features) in enumerate(zip(*pairs, strict=True)):
        second = model.moments.second_moments(features)
        products = second @ weights
        square = float(weights @ products + variance)
        mean = np.concatenate([features, products, [square]])
        found[place] = log_density(row_covariance(model.moments, second, products, square), mean)
        found[place] -= log_density(fixed, mean)
    return found


def weigh(
    model: RegressionModel, releases: Releases, settled: Settled, pairs: Pairs, rng: np.random.Generator
) -> Iterator[tuple[str, Floats]]:
    """Yield what draws are weighted by, and log weights."""
    found = observe_targets(model.moments, pool(releases, settled.covariances[0]), model.feature_prior)
    parts = [slice(first, first + TOGETHER) for first in range(0, len(pairs.weights), TOGETHER)]
    blocks = [draw_features(model, found, Pairs(*(one[part] for one in pairs)), rng) for part in parts]
    features, width = np.concatenate(blocks), model.moments.width
    second = model.moments.second_moments(features)
    mean = second[:, :width, width]
    smallest = np.linalg.eigvalsh(second[:, :width, :width] - mean[:, :, None] * mean[:, None, :])[:, 0]
    positive = smallest > 0
    yield "nothing", np.zeros(len(features))
    yield f"positive ({positive.mean():.2g})", np.where(positive, 0.0, -np.inf)
    agreed = np.where(positive, 0.0, -np.inf)
    if isinstance(model.agreed.data_prior, NormalInverseWishart):
        agreed = log_agreed(model, features, positive)
        yield "agreed", agreed
    few = slice(0, DRAWS)
    row = log_row(
        model, releases, settled.covariances[0], Pairs(pairs.weights[few], pairs.variance[few], features[few])
    )
    padded = np.full(len(features), -np.inf)
    padded[few] = row
    yield "row", padded
    yield "row and agreed", np.where(np.isfinite(agreed), padded + agreed, -np.inf)


def main() -> None:
    """Print a line for each round and weighting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--settings", nargs="+", required=True)
    parser.add_argument("--against", default="0.14.0 collapsed")
    parser.add_argument("--times", type=int, default=1, help="feature moments drawn for each draw of the parameters")
    options = parser.parse_args()
    for name in options.settings:
        place = options.folder / name
        agreement = Agreement.model_validate_json((place / "agreement.json").read_text(encoding="utf-8"))
        model = RegressionModel.of(agreement.model)  # type: ignore[arg-type]
        size = 1 if model.per_party else len(PARTIES)
        others: list[dict[str, Any]] = json.loads((place / f"{options.against}.result").read_text(encoding="utf-8"))
        for other in (one for one in others if one["coalition"] == size):
            sent = [eq.Submission.load(place / f"{other['round']}-{party}.submission.json") for party in PARTIES[:size]]
            inside = np.isin(agreement.party_names, PARTIES[:size]).astype(float)
            asked = Asked(inside, 1.0, np.zeros(len(inside)), None, DRAWS, 0)
            releases = releases_of(released_sums(agreement, sent), asked, model.moments.order)
            draws = eq.infer(agreement, sent, draws=DRAWS, progress=False).draws
            weights, variance = (np.concatenate([draws[key]] * options.times) for key in ("weights", "variance"))
            pairs = Pairs(weights, variance, np.empty((len(weights), 0)))
            columns = np.column_stack([weights, np.log(variance)])
            settled, rng = settle_row_covariances(model, releases), np.random.default_rng(other["round"])
            for what, logarithms in weigh(model, releases, settled, pairs, rng):
                if not np.any(np.isfinite(logarithms)):
                    continue
                share = np.exp(logarithms - logarithms.max())
                share /= share.sum()
                mean = share @ columns
                deviation = np.sqrt(share @ (columns - mean) ** 2)
                shift = float(np.max(np.abs(mean - other["mean"]) / other["sd"]))
                ratio = deviation / other["sd"]
                print(
                    f"{name}, round {other['round']}: {what:20} {1 / np.sum(share**2):8,.0f} effective, "
                    f"shift {shift:.2f}, widths {ratio.min():.2f} to {ratio.max():.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
