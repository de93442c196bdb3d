"""Do intervals cover, and do values fall as bounds widen? Standardised against conjugate prior, over many settings.

Rows come from a generator that shares nothing with the model: correlated features of several shapes (normal, skewed,
two values, heavy tails) with means of their own, clipped to their bounds, and a target that is linear in them. A round
is one party with three features; its weights are what the intervals must cover. Coverage is that of 90 % intervals of
all three weights over all rounds; |z| is the distance of the posterior mean from the truth in posterior standard
deviations.

    PYTHONPATH=src python benchmarks/priors.py --rounds 100 --output priors.json     # all 108 settings, an accelerator
    PYTHONPATH=src python benchmarks/priors.py --rounds 2 --reduced                  # eight settings, two cores

Needs JAX, NumPy and SciPy alone. All rounds of some settings are sampled side by side, `--group` settings at a time;
settings that differ in rows and ε only are neighbours, since they take about as many steps.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from equipoise.inference import collapsed
from equipoise.inference.models.linear import LinearRegression, StandardisedLinear, linear_prior
from equipoise.inference.models.standardised import Typical, standardised_prior
from equipoise.inference.observations import Observations
from equipoise.inference.runtime import double_precision, on_accelerator, use_compilation_cache
from equipoise.valuation.divergence import divergence
from side_by_side import LIMIT, Sampled, sampled_side_by_side

Floats = NDArray[np.float64]

WIDTH = 3
TARGET_DEVIATION = 0.25  # of the target, in half the width of its bounds
DEVIATIONS, EXPLAINED = (0.4, 0.2, 0.1, 0.05), (0.2, 0.6, 0.9)
ROWS, EPSILONS = (500, 5_000, 50_000), (0.2, 1.0, 4.0)
SHAPES = ("normal", "skewed", "two values", "heavy tails")  # by round, in turn
WIDENED = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Setting:
    """A feature's standard deviation within its bounds, R², rows and ε."""

    deviation: float
    explained: float
    rows: int
    epsilon: float

    def __str__(self) -> str:
        return f"{self.deviation:>5} {self.explained:>4} {self.rows:>7,} {self.epsilon:>4}"


@dataclass(frozen=True)
class Release:
    """What a party sends, the noise it was given, and the truth."""

    statistic: Floats
    deviations: Floats
    rows: int
    weights: Floats


def release(setting: Setting, rng: np.random.Generator, shape: str, *, widen: float = 1.0) -> Release:
    """Rows, their sums and noise; features' bounds are `widen` times as wide, for the same rows and the same noise."""
    rows, explained = setting.rows, setting.explained
    common = rng.normal(size=(rows, 1))
    normal = np.sqrt(0.7) * rng.normal(size=(rows, WIDTH)) + np.sqrt(0.3) * common
    if shape == "skewed":
        normal = np.exp(0.5 * normal)
    elif shape == "two values":
        normal = np.where(normal > 0.5, 1.0, 0.0)
    elif shape == "heavy tails":
        normal = normal / np.sqrt(rng.chisquare(6, size=(rows, 1)) / 6)
    standard = (normal - normal.mean(axis=0)) / normal.std(axis=0)
    features = np.clip(rng.uniform(-0.3, 0.3, WIDTH) + setting.deviation * standard, -1, 1)
    direction = rng.normal(size=WIDTH)
    signal = features @ direction
    slopes = direction * np.sqrt(explained) * TARGET_DEVIATION / signal.std()
    residual = np.sqrt(1 - explained) * TARGET_DEVIATION * rng.normal(size=rows)
    target = np.clip(rng.uniform(-0.2, 0.2) + (features - features.mean(axis=0)) @ slopes + residual, -1, 1)
    columns = np.column_stack([features / widen, target])
    first, second = np.triu_indices(WIDTH + 1)
    statistic = np.concatenate([columns.sum(axis=0), (columns.T @ columns)[first, second]])
    weight = np.floor(8 * np.sqrt((WIDTH + 4) / 2)) / 8  # of squares: `equipoise.models.linear`
    scale = (WIDTH + 2) / np.sqrt(setting.epsilon)  # Δ √(λ/2ε) at λ = 2
    squares = np.concatenate([np.zeros(WIDTH + 1, bool), first == second])
    deviations = np.where(squares, scale / weight, scale)
    return Release(statistic + deviations * rng.normal(size=len(statistic)), deviations, rows, slopes * widen)


def conjugate() -> tuple[Any, Any]:
    """The default of format 1."""
    degrees = WIDTH + 4.0
    return LinearRegression(WIDTH, 1, True), linear_prior(
        shape=2.0,
        scale=0.1,
        weight_mean=np.zeros(WIDTH + 1),
        weight_precision=np.diag([0.25 * WIDTH] * WIDTH + [0.1]),
        feature_mean=np.zeros(WIDTH),
        mean_strength=1.0,
        scatter=0.25 * np.eye(WIDTH) * (degrees - WIDTH - 1),
        degrees_of_freedom=degrees,
    )


def standardised(stated: float | None = None) -> tuple[Any, Any]:
    """The default of format 2; `stated` is the standard deviation that a typical range says."""
    typical = Typical(0.0, 0.25, 1.0) if stated is None else Typical(0.0, stated, 0.5)
    return StandardisedLinear(WIDTH, 1, True), standardised_prior(
        [typical] * WIDTH,
        effect=np.sqrt(2 / WIDTH),
        concentration=2.0,
        mean_spread=2.0,
        target_middle=0.0,
        target_spread=0.5,
        residual=(0.15, 1.0),
    )


def sample(model: Any, prior: Any, releases: Sequence[Release], chains: int, lengths: int, seed: int) -> Sampled:
    """Draws of every round's posterior, all side by side."""
    statistic = np.stack([one.statistic for one in releases])[:, None]
    variance = np.stack([one.deviations**2 for one in releases])[:, None]
    rows = np.array([[float(one.rows)] for one in releases])
    nothing = np.zeros_like(statistic)
    observations = Observations(*(jnp.asarray(part) for part in (statistic, rows, variance, nothing, nothing)))
    return sampled_side_by_side(model, prior, observations, chains, lengths, seed)


def measured(releases: Sequence[Release], found: Sampled) -> dict[str, Any]:
    """Coverage, |z| and cost of rounds of one setting."""
    truth = np.stack([one.weights for one in releases])
    draws = found.weights[:, :, :WIDTH]
    low, high = np.quantile(draws, [0.05, 0.95], axis=1)
    z = (truth - draws.mean(axis=1)) / draws.std(axis=1)
    return {
        "coverage": float(np.mean((low <= truth) & (truth <= high))),
        "mean_z": float(np.mean(np.abs(z))),
        "largest_z": float(np.max(np.abs(z))),
        "unconverged": float(np.mean(found.rhat > LIMIT)),
        "gradients": float(np.mean(found.gradients)),
    }


def settings_of(*, reduced: bool) -> list[Setting]:
    """All 108 settings, or eight of them."""
    grid = itertools.product(DEVIATIONS, EXPLAINED, ROWS, EPSILONS)
    if reduced:
        grid = itertools.product((0.2, 0.05), (0.2, 0.9), (5_000,), (0.2, 4.0))
    return [Setting(*one) for one in grid]


def groups(settings: Sequence[Setting], size: int) -> Iterator[Sequence[Setting]]:
    """Settings that are sampled side by side."""
    for start in range(0, len(settings), size):
        yield settings[start : start + size]


def coverage(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Coverage and |z| of every setting under both priors."""
    found, shapes = [], options.shapes
    for group in groups(settings_of(reduced=options.reduced), options.group):
        releases = {
            setting: [
                release(setting, np.random.default_rng([number, *map(ord, str(setting))]), shapes[number % len(shapes)])
                for number in range(options.rounds)
            ]
            for setting in group
        }
        every = [one for each in releases.values() for one in each]
        by_prior = {}
        start = time.perf_counter()
        for name, (model, prior) in (("conjugate", conjugate()), ("standardised", standardised())):
            by_prior[name] = sample(model, prior, every, options.chains, options.lengths, options.seed)
        seconds = time.perf_counter() - start
        for place, setting in enumerate(group):
            part = slice(place * options.rounds, (place + 1) * options.rounds)
            row: dict[str, Any] = {**setting.__dict__}
            for name, sampled in by_prior.items():
                row[name] = measured(releases[setting], sampled.some(part))
            found.append(row)
            old, new = row["conjugate"], row["standardised"]
            print(
                f"{setting} | {old['coverage']:>5.0%} {old['mean_z']:>6.2f} {old['largest_z']:>6.1f} "
                f"{old['gradients']:>9,.0f} | {new['coverage']:>5.0%} {new['mean_z']:>6.2f} {new['largest_z']:>6.1f} "
                f"{new['gradients']:>9,.0f} {new['unconverged']:>5.0%} | {seconds:.0f} s",
                flush=True,
            )
    return found


def widening(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Mean value of a release as the features' bounds get wider, with the same rows and noise."""
    found = []
    print(f"\n{'value in nats, bounds widened':40}" + "".join(f"{factor:>8g}×" for factor in WIDENED))
    rows_and_epsilons = ((5_000, 1.0),) if options.reduced else ((500, 1.0), (5_000, 1.0), (50_000, 4.0))
    for (rows, epsilon), explained in itertools.product(rows_and_epsilons, (0.2, 0.9)):
        setting = Setting(0.3, explained, rows, epsilon)
        number = min(options.rounds, 20)
        for name in ("conjugate", "standardised", "standardised, typical range stated"):
            values = []
            for factor in WIDENED:
                releases = [
                    release(setting, np.random.default_rng(seed), SHAPES[seed % len(SHAPES)], widen=factor)
                    for seed in range(number)
                ]
                stated = setting.deviation / factor if "stated" in name else None
                model, prior = conjugate() if name == "conjugate" else standardised(stated)
                sampled = sample(model, prior, releases, options.chains, options.lengths, options.seed)
                own = [collapsed.own_coordinates(model, prior, one) for one in sampled.positions]
                values.append(float(np.mean([divergence(one).value for one in own])))
            found.append({**setting.__dict__, "prior": name, "values": values})
            print(
                f"{rows:>6,} rows, ε {epsilon:g}, R² {explained:g}, {name:36}"
                + "".join(f"{value:>9.2f}" for value in values),
                flush=True,
            )
    return found


@double_precision
def main() -> None:
    """Print and write both tables."""
    wide = on_accelerator()
    parser = argparse.ArgumentParser(description="Coverage of intervals and values under two priors.")
    parser.add_argument("--rounds", type=int, default=100 if wide else 2)
    parser.add_argument("--reduced", action="store_true", help="eight settings")
    parser.add_argument("--chains", type=int, default=32 if wide else 16)
    parser.add_argument("--lengths", type=int, default=4, help="rounds of 40 draws of every chain")
    parser.add_argument("--group", type=int, default=9 if wide else 1, help="settings sampled side by side")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES, help="of features, by round in turn")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    use_compilation_cache()
    start = time.perf_counter()
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}: {options.rounds} rounds of each setting")
    print(f"{'setting':24} | {'conjugate prior':31} | standardised prior")
    print("   sd   R²    rows    ε | cover  mean z   max    gradients | cover  mean z   max    gradients  R̂>1.05")
    cells = coverage(options)
    for name in ("conjugate", "standardised"):
        parts = [row[name] for row in cells]
        inside = np.mean([0.85 <= part["coverage"] <= 0.95 for part in parts])
        print(
            f"{name}: coverage {np.mean([part['coverage'] for part in parts]):.1%} over all, smallest "
            f"{min(part['coverage'] for part in parts):.0%}, 85 to 95 % in {inside:.0%} of settings; mean |z| "
            f"{np.mean([part['mean_z'] for part in parts]):.2f}, largest of a setting "
            f"{max(part['mean_z'] for part in parts):.2f}"
        )
    values = widening(options)
    print(f"\n{time.perf_counter() - start:.0f} s")
    if options.output:
        document = {"rounds": options.rounds, "shapes": list(options.shapes), "coverage": cells, "values": values}
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
