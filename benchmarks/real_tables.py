"""Do intervals cover on real tables, and how well do posteriors predict? Eleven public tables among three parties.

    python benchmarks/real_tables.py coverage --data FOLDER [--tables pima wine] [--epsilon 1] [--repetitions 10]
    python benchmarks/real_tables.py shapes --data FOLDER
    python benchmarks/real_tables.py losses --data FOLDER [--diffprivlib FOLDER]
    python benchmarks/real_tables.py print --output real_tables.json

`public_tables.py` has the tables and the agreements. Five tables come with statsmodels, which must be installed. Of
tables with fewer than 3,000 rows, 3,000 are drawn with replacement.

`coverage` measures how often 90 % intervals contain the true effects, in repetitions of one of four kinds (`--kinds`):

* `model`: the rows' features are drawn from the table with replacement, and their outcome from the regression fitted to
  all rows. The truth is the fitted coefficients, so intervals should cover 9 times out of 10.
* `rows`: features and outcome are drawn together. The truth is the fit to the whole table. Real outcomes do not follow
  a regression exactly, so intervals cover 9 times out of 10 only as far as they do.
* `noise`: the rows are the table's, and only the noise differs. The truth is the fit to these rows. Intervals are for
  other rows too, so they should cover more often than 9 times out of 10, and nearly always if there is little noise.
* `normal`: as `model`, but numbers are drawn from normal distributions with the table's covariance, and its means at
  every combination of levels. If `model` covers less often than this, the shape of the numbers is to blame.

`shapes` prints the skewness and the excess kurtosis of numbers. `losses` compares the loss on held-out rows with that
of other methods.

Truths are of features moved to their reach, which is what a regression is agreed to be of, and of targets as they are:
what moving targets does to effects counts as an error. With `--mistake` the agreed typical ranges are wrong: half or
twice as wide as they should be, or off by half their width.

The standard error is over repetitions, because effects of one repetition are not independent. Results are added to
`--output`, so you can make a long measurement in parts.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats
from sklearn.linear_model import LogisticRegression

from equipoise._util.cores import one_core_each
from equipoise.inference.pooling import Releases
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.posterior import sample_posterior
from equipoise.models.guarantee import DEFAULT_DELTA, Guarantee
from equipoise.reward.prediction import feature_matrix
from public_tables import MISTAKES, PARTIES, TABLES, Table

Floats = NDArray[np.float64]

KINDS = ("model", "rows", "noise", "normal")
ORDER = 2.0
LEAST_ROWS = 3_000
HELD_OUT = 0.25  # of the rows
SHARE = 0.9  # of an interval


@dataclass(frozen=True)
class Rows:
    """Terms [rows, terms + 1], moved to their ranges, a last column of ones, and the target as it is, in such units."""

    terms: Floats
    target: Floats

    def moved(self) -> "Rows":
        """Move targets beyond their range to its ends too, as before a release."""
        return Rows(self.terms, np.clip(self.target, -1, 1))

    def take(self, places: NDArray[np.intp]) -> "Rows":
        """Some of them, or some of them several times."""
        return Rows(self.terms[places], self.target[places])

    def __len__(self) -> int:
        return len(self.target)


class Study:
    """One table: its agreement, and its rows as the agreement codes them."""

    def __init__(
        self,
        table: Table,
        data: Path | None,
        draws: int,
        effect: float | None = None,
        version: int = 3,
        mistake: str = "none",
    ) -> None:
        self.table, self.agreement = table, table.agreement(effect, version, mistake)
        agreed = self.agreement.model
        frame = table.load(data)
        terms = agreed.scaled_features(feature_matrix(self.agreement, frame))
        self.rows = Rows(terms, self._targets(frame[agreed.target.name]))
        self.coding = agreed.coding  # type: ignore[attr-defined]
        self.model, self.draws = RegressionModel.of(agreed), draws  # type: ignore[arg-type]

    def _targets(self, cells: "pd.Series[Any]") -> Floats:
        target = self.agreement.model.target
        if self.table.kind == "logistic":
            return np.where(cells == target.labels[1], 1.0, -1.0)  # type: ignore[union-attr]
        lower, upper = target.scaled_range  # type: ignore[union-attr]
        return np.asarray((cells.to_numpy(float) - (lower + upper) / 2) / ((upper - lower) / 2))

    def fit(self, rows: Rows) -> Floats:
        """Coefficients without a penalty, the bias last."""
        return least_squares(rows) if self.table.kind == "linear" else log_odds(rows)

    def population(self, truth: Floats, rows: Rows, rng: np.random.Generator) -> Rows:
        """The same features with targets drawn from a regression; a linear one has the residual deviation of rows."""
        predicted = rows.terms @ truth
        if self.table.kind == "logistic":
            return Rows(rows.terms, np.where(rng.uniform(size=len(rows)) < special.expit(predicted), 1.0, -1.0))
        deviation = np.sqrt(np.mean((self.rows.target - self.rows.terms @ truth) ** 2))
        return Rows(rows.terms, predicted + deviation * rng.normal(size=len(rows)))

    def with_normal_numbers(self, rows: Rows, rng: np.random.Generator) -> Rows:
        """The same levels, with numbers from normal distributions whose means depend on the levels."""
        numbers, levels = list(self.coding.numbers), [*self.coding.level_terms, -1]
        there = np.ones((len(self.rows), len(numbers)), bool)
        for number, indicator in self.coding.gaps:
            there[:, numbers.index(number)] = self.rows.terms[:, indicator] == 0
        whole = there.all(axis=1)
        known = self.rows.terms[whole]
        slopes = np.linalg.lstsq(known[:, levels], known[:, numbers])[0]
        spread = np.cov((known[:, numbers] - known[:, levels] @ slopes).T).reshape(len(numbers), len(numbers))
        terms = rows.terms.copy()
        noise = rng.multivariate_normal(np.zeros(len(numbers)), spread, size=len(rows))
        terms[:, numbers] = np.clip(terms[:, levels] @ slopes + noise, -1, 1)
        for number, indicator in self.coding.gaps:
            terms[terms[:, indicator] == 1, number] = 0
        return Rows(terms, rows.target)

    def sums(self, rows: Rows) -> Floats:
        """Compute the statistic of some rows, moved to ±1, in the order of the model's moments."""
        rows = rows.moved()
        columns = np.column_stack([rows.terms, rows.target])
        first, second = self.model.moments.pairs.T
        return np.asarray((columns.T @ columns)[first, second])

    def deviations(self, epsilon: float) -> Floats:
        """Compute the standard deviation of the noise on each entry."""
        guarantee = Guarantee(order=ORDER, epsilon=epsilon)
        return self.model.moments.ordered(self.agreement.layout.noise_deviations(guarantee))

    def released(self, rows: Rows, epsilon: float, rng: np.random.Generator) -> Releases:
        """Deal rows to three parties at random, a third each, and perturb their sums."""
        places = np.array_split(rng.permutation(len(rows)), len(PARTIES))
        return self.perturbed([rows.take(own) for own in places], epsilon, rng)

    def perturbed(self, parts: Sequence[Rows], epsilon: float, rng: np.random.Generator) -> Releases:
        """Perturb the sums of every party's rows."""
        deviations, moments = self.deviations(epsilon), self.model.moments
        # Noise is drawn in the order of the layout, so that a seed gives the noise that earlier versions had.
        sums = [self.sums(own) + deviations * moments.ordered(rng.normal(size=len(deviations))) for own in parts]
        counts = np.array([len(own) for own in parts], float)
        return Releases(np.stack(sums), counts, np.ones(len(parts)), deviations**2)

    def sample(self, releases: Releases, seed: int) -> tuple[Floats, bool]:
        """Draw coefficients from everybody's posterior [draws, terms + 1], and say if the draws converged."""
        with one_core_each():
            found = sample_posterior(self.model, releases, np.random.default_rng(seed), self.draws)
        return self.model.parameters(found.coordinates).weights, found.diagnostics.converged


def least_squares(rows: Rows) -> Floats:
    """Ordinary least squares."""
    return np.asarray(np.linalg.lstsq(rows.terms, rows.target)[0])


def log_odds(rows: Rows) -> Floats:
    """Logistic regression with next to no penalty."""
    found = LogisticRegression(C=1e6, fit_intercept=False, tol=1e-8, max_iter=10_000).fit(rows.terms, rows.target)
    return np.asarray(found.coef_[0])


def enough(rows: Rows, rng: np.random.Generator) -> Rows:
    """The rows, or `LEAST_ROWS` drawn from them if there are fewer."""
    return rows if len(rows) >= LEAST_ROWS else rows.take(rng.integers(len(rows), size=LEAST_ROWS))


# Coverage.


def releases(study: Study, kind: str, epsilon: float, numbers: Sequence[int]) -> Iterator[tuple[int, Floats, Releases]]:
    """Yield every repetition's number, truth and releases."""
    table = enough(study.rows, np.random.default_rng(0))
    truth = study.fit(table if kind == "noise" else study.rows)
    for number in numbers:
        rng = np.random.default_rng([number, KINDS.index(kind), *map(ord, study.table.name)])
        rows = table
        if kind != "noise":
            rows = study.rows.take(rng.integers(len(study.rows), size=len(table)))
        if kind == "normal":
            rows = study.with_normal_numbers(rows, rng)
        if kind in ("model", "normal"):
            rows = study.population(truth, rows, rng)
        yield number, truth, study.released(rows, epsilon, rng)


def coverage(study: Study, kind: str, epsilon: float, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Measure every repetition's distances of truths from posterior means, and which effects are covered."""
    found = []
    for number, truth, released in releases(study, kind, epsilon, numbers):
        start = time.process_time()
        weights, converged = study.sample(released, number)
        low, high = np.quantile(weights, [(1 - SHARE) / 2, (1 + SHARE) / 2], axis=0)
        mean, deviation = weights.mean(axis=0), weights.std(axis=0)
        found.append(
            {
                "number": number,
                "covered": ((low <= truth) & (truth <= high))[:-1].tolist(),
                "z": ((truth - mean) / deviation)[:-1].round(3).tolist(),
                "deviation": deviation[:-1].round(5).tolist(),
                "converged": converged,
                "seconds": round(time.process_time() - start, 2),
            }
        )
    return found


def summary(repetitions: list[dict[str, Any]]) -> dict[str, float]:
    """Summarise coverage with its standard error, mean and spread of distances, and the share that did not converge."""
    covered = np.array([one["covered"] for one in repetitions], float)
    z = np.array([one["z"] for one in repetitions])
    number, effects = covered.shape
    by_repetition = float(covered.mean(axis=1).std(ddof=1) / np.sqrt(number)) if number > 1 else 0.0
    return {
        "repetitions": number,
        "effects": effects,
        "coverage": float(covered.mean()),
        # No smaller than if effects were independent, since few repetitions may all cover alike.
        "error": max(by_repetition, float(np.sqrt(SHARE * (1 - SHARE) / covered.size))),
        "bias": float(np.abs(z.mean(axis=0)).max()),
        "spread": float(np.sqrt(np.mean(z**2))),
        "unconverged": float(np.mean([not one["converged"] for one in repetitions])),
        "seconds": float(np.median([one["seconds"] for one in repetitions])),
    }


def shapes(study: Study) -> None:
    """Print the shape of each number relative to its means at the levels, and of the predictor's numeric part.

    Rows with marked gaps are left out.
    """
    truth, coding = study.fit(study.rows), study.coding
    gaps = [indicator for _, indicator in coding.gaps]
    terms = study.rows.terms[study.rows.terms[:, gaps].sum(axis=1) == 0]
    numbers, levels = list(coding.numbers), [*coding.level_terms, -1]
    centred = terms[:, numbers] - terms[:, levels] @ np.linalg.lstsq(terms[:, levels], terms[:, numbers])[0]
    names = [coding.terms[place].name for place in numbers]
    columns = np.column_stack([centred, centred @ truth[numbers]])
    for name, values in zip([*names, "all, by their effects"], columns.T, strict=True):
        skewness, kurtosis = stats.skew(values), stats.kurtosis(values)
        print(f"| {study.table.name} | {name} | {values.std():.2f} | {skewness:+.2f} | {kurtosis:+.2f} |", flush=True)


# Held-out loss.


def loss(study: Study, probabilities_or_means: Floats, test: Rows) -> float:
    """Mean negative log probability of labels, or mean squared error as a share of the target's variance."""
    if study.table.kind == "linear":
        return float(np.mean((test.target - probabilities_or_means) ** 2) / np.var(test.target))
    right = np.where(test.target > 0, probabilities_or_means, 1 - probabilities_or_means)
    return float(-np.mean(np.log(np.clip(right, 1e-12, 1))))


def predicted(study: Study, weights: Floats, test: Rows) -> Floats:
    """Probabilities of the second label, or means: averages over rows of `weights`."""
    values = test.terms @ np.atleast_2d(weights).T
    return np.asarray((special.expit(values) if study.table.kind == "logistic" else values).mean(axis=1))


def adassp(study: Study, rows: Rows, epsilon: float, rng: np.random.Generator) -> Floats:
    """AdaSSP (Wang 2018) on three parties' releases: XᵀX, Xᵀy and its smallest eigenvalue, a third of ρ for each.

    Replacing a row of norm B changes XᵀX by √2 B² at most, Xᵀy by 2B, and the eigenvalue by B²; B² is 1 for the bias
    and 1 for each number or block, and |y| ≤ 1. Everybody adds noise of their own, as in our releases.
    """
    rows = rows.moved()
    square, width = study.coding.directions + 1.0, rows.terms.shape[1]
    unit = np.sqrt(len(PARTIES)) / np.sqrt(2 * Guarantee(order=ORDER, epsilon=epsilon).zcdp / 3)
    upper = np.triu(rng.normal(size=(width, width)))
    gram = rows.terms.T @ rows.terms + np.sqrt(2) * square * unit * (upper + np.triu(upper, 1).T)
    both = rows.terms.T @ rows.target + 2 * np.sqrt(square) * unit * rng.normal(size=width)
    failing = 0.05
    smallest = np.linalg.eigvalsh(rows.terms.T @ rows.terms)[0] + square * unit * rng.normal()
    smallest = max(smallest - square * unit * np.sqrt(2 * np.log(6 / failing)), 0.0)
    ridge = max(0.0, np.sqrt(2) * square * unit * np.sqrt(width * np.log(2 * width**2 / failing)) - smallest)
    return np.asarray(np.linalg.solve(gram + ridge * np.eye(width), both))


DIFFPRIVLIB = """
import sys, warnings
import numpy as np
from diffprivlib import models
warnings.simplefilter("ignore")
given = np.load(sys.argv[1])
x, y, epsilon, seed = given["terms"], given["target"], float(given["epsilon"]), int(given["seed"])
if str(given["kind"]) == "linear":
    bounds = given["lower"], np.ones(x.shape[1])
    found = models.LinearRegression(epsilon=epsilon, bounds_X=bounds, bounds_y=(-1, 1), random_state=seed)
    found.fit(x, y)
else:
    found = models.LogisticRegression(epsilon=epsilon, data_norm=float(given["norm"]), random_state=seed).fit(x, y)
np.save(sys.argv[1] + ".npy", np.append(np.ravel(found.coef_), found.intercept_))
"""


def diffprivlib(study: Study, rows: Rows, epsilon: float, seed: int, folder: Path) -> Floats:
    """Its regression on all rows in one place, in an interpreter of its own: it needs an older scikit-learn.

    Its guarantee is pure, so that it is given the ε that we have at δ = 1e-6.
    """
    rows = rows.moved()
    with tempfile.TemporaryDirectory() as place:
        given = Path(place) / "given.npz"
        np.savez(
            given,
            terms=rows.terms[:, :-1],
            target=rows.target,
            epsilon=Guarantee(order=ORDER, epsilon=epsilon).epsilon_at(DEFAULT_DELTA),
            seed=seed,
            kind=study.table.kind,
            norm=np.sqrt(study.coding.directions),
            lower=[0.0 if term.is_level else -1.0 for term in study.coding.terms],
        )
        subprocess.run(
            [sys.executable, "-c", DIFFPRIVLIB, str(given)], check=True, env={**os.environ, "PYTHONPATH": str(folder)}
        )
        return np.asarray(np.load(f"{given}.npy"))


def losses(study: Study, epsilon: float, number: int, folder: Path | None) -> dict[str, float]:
    """Of everybody's posterior and of others, on a quarter of the rows."""
    rng = np.random.default_rng([number, *map(ord, study.table.name)])
    places = rng.permutation(len(study.rows))
    apart = round(HELD_OUT * len(places))
    test, rows = study.rows.take(places[:apart]), enough(study.rows.take(places[apart:]), rng)
    of = partial(predicted, study, test=test)
    weights, converged = study.sample(study.released(rows, epsilon, rng), number)
    own = rows.take(rng.permutation(len(rows))[: len(rows) // len(PARTIES)])
    if len(study.rows) < LEAST_ROWS:  # a third of the rows there are, not of those drawn from them
        own = study.rows.take(places[apart : apart + (len(places) - apart) // len(PARTIES)])
    constant = np.full(len(test), rows.target.mean())
    found = {
        "number": float(number),
        "nothing": loss(study, constant if study.table.kind == "linear" else (1 + constant) / 2, test),
        "own": loss(study, of(study.fit(own)), test),
        "ours": loss(study, of(weights), test),
        "pooled": loss(study, of(study.fit(rows)), test),
        "converged": float(converged),
    }
    if study.table.kind == "linear":
        found["adassp"] = loss(study, of(adassp(study, rows, epsilon, rng)), test)
    if folder is not None:
        found["diffprivlib"] = loss(study, of(diffprivlib(study, rows, epsilon, number, folder)), test)
    return found


# Printing.


def printed(document: dict[str, Any]) -> None:
    """Tables of everything measured so far."""
    for kind in KINDS:
        cells = {
            tuple(key.split("/")[1:]): value for key, value in document["coverage"].items() if key.startswith(kind)
        }
        if not cells:
            continue
        epsilons = sorted({float(epsilon) for _, epsilon in cells})
        print(f"\n{kind}\n\n| table | " + " | ".join(f"ε = {one:g}" for one in epsilons) + " |")
        print("|---|" + "---|" * len(epsilons))
        for name in TABLES:
            texts = []
            for epsilon in epsilons:
                repetitions = cells.get((name, f"{epsilon:g}"))
                if not repetitions:
                    texts.append("–")
                    continue
                one = summary(repetitions)
                late = f", {one['unconverged']:.0%} not converged" if one["unconverged"] else ""
                texts.append(
                    f"{one['coverage']:.0%} ± {one['error']:.0%} ({one['repetitions']}; z {one['spread']:.2f}, "
                    f"bias {one['bias']:.1f}{late})"
                )
            if any(text != "–" for text in texts):
                print(f"| {name} | " + " | ".join(texts) + " |")
    columns = ("nothing", "own", "ours", "pooled", "adassp", "diffprivlib")
    if document["losses"]:
        print("\n| table | ε | rounds | " + " | ".join(columns) + " |\n|---|---|---|" + "---|" * len(columns))
    for key, rounds in document["losses"].items():
        name, epsilon = key.split("/")
        means = [
            f"{np.mean([one[column] for one in rounds]):.3f}" if column in rounds[0] else "–" for column in columns
        ]
        print(f"| {name} | {epsilon} | {len(rounds)} | " + " | ".join(means) + " |")


def saved(document: dict[str, Any], output: Path | None) -> None:
    """Write what is there so far."""
    if output:
        output.write_text(json.dumps(document) + "\n", encoding="utf-8")


def main() -> None:
    """Measure, add to what was measured before, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("coverage", "losses", "print", "shapes"))
    parser.add_argument("--data", type=Path, help="folder of the two files")
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=list(TABLES))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["model"])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--effect", type=float, help="the prior's size of effects, if not the default")
    parser.add_argument("--version", type=int, default=3, help="of the agreements: 2 scales noise by bounds")
    parser.add_argument("--mistake", choices=MISTAKES, default="none", help="in the typical ranges of all numbers")
    parser.add_argument("--draws", type=int, default=2_560)
    parser.add_argument("--diffprivlib", type=Path, help="folder made by pip install --target with diffprivlib in it")
    parser.add_argument("--output", type=Path, help="JSON file, whose repetitions are not made again")
    options = parser.parse_args()
    document: dict[str, Any] = {"coverage": {}, "losses": {}}
    if options.output and options.output.exists():
        document = json.loads(options.output.read_text(encoding="utf-8"))
    if options.what == "shapes":
        print("| table | number | standard deviation | skewness | excess kurtosis |\n|---|---|---|---|---|")
    for name in options.tables if options.what != "print" else ():
        study = Study(TABLES[name], options.data, options.draws, options.effect, options.version, options.mistake)
        if options.what == "shapes":
            shapes(study)
            continue
        for epsilon in options.epsilon:
            if options.what == "losses":
                done = document["losses"].setdefault(f"{name}/{epsilon:g}", [])
                done += [losses(study, epsilon, n, options.diffprivlib) for n in range(len(done), options.repetitions)]
                saved(document, options.output)
                continue
            for kind in options.kinds:
                done = document["coverage"].setdefault(f"{kind}/{name}/{epsilon:g}", [])
                done += coverage(study, kind, epsilon, range(len(done), options.repetitions))
                shown = {key: round(value, 3) for key, value in summary(done).items()}
                print(f"{kind} {name} {epsilon:g}: {shown}", flush=True)
                saved(document, options.output)
    printed(document)


if __name__ == "__main__":
    main()
