"""Do other samplers find the same posterior? Method "moments" against Gibbs sampling and against earlier versions.

    python benchmarks/samplers_agree.py write FOLDER --data DATA
    python benchmarks/samplers_agree.py sample FOLDER [--method gibbs] [--only Syn CaliH]
    python benchmarks/samplers_agree.py print FOLDER

`write` makes agreements and releases, `sample` samples each of them by the version of equipoise on the path, and
`print` compares everything in the folder. Versions from 0.14 on can sample the same folder, so that their collapsed
sampler, which drew features and parameters together, can be compared:

    git worktree add OLD cb55f3f    # 0.14
    PYTHONPATH=OLD/src python benchmarks/samplers_agree.py sample FOLDER

Settings have the paper's data sets and the demo. "normal" has rows of normal features instead, 400, 600 and 1,000 of
the three parties, with the means and covariances of the set's own, or with the variances alone.

Agreements of the demo are of format 2, which 0.14 knows, and have `scope = "per-party"`: with shared features 0.14
believed that what is learnt of a column's spread says something about its weight. "shared" keeps that difference.

Each release is sampled for all parties and for the first alone. Noise has fixed seeds.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import equipoise as eq
from equipoise._version import __version__
from equipoise.agreement import Agreement
from equipoise.inference.diagnostics import ess_bulk
from equipoise_paper import settings
from equipoise_paper.releases import plain_submissions
from equipoise_paper.settings import PARTIES, Setting

Floats = NDArray[np.float64]

NORMAL_ROWS = (400, 600, 1_000)
DRAWS = {"moments": 10_000, "collapsed": 5_000, "gibbs": 5_000}
OURS = "moments"
WIDE = 4.0  # bounds of normal features with a deviation of 1
# The demo's patients up to 0.18: five scores from 0 to 4, and points of recovery for a point of each.
HOSPITALS, DEMO_EPSILONS, TEST_ROWS, PATIENTS = (50, 55, 60), (4.0, 3.5, 3.0), 2_000, 2037
POINTS, CENTRE, NOISE, SLOPE = (-7.0, 6.0, 5.0, 4.0, 6.0), 50.0, 21.0, 16.0


class Demo(Setting):
    """The demo's columns, under an agreement that 0.14 can read."""

    scope = "per-party"

    @property
    def kind(self) -> str:
        """The kind of model that is learnt."""
        return "linear" if "regression" in self.name else "logistic"

    def agreement(self, parties: Sequence[str]) -> Agreement:
        """Write what the hospitals would have agreed on by format 2."""
        target: dict[str, object] = {"name": "y", "labels": [-1, 1]}
        if self.kind == "linear":
            target = {"name": "y", "bounds": [0, 100], "typical": [5, 95]}
        features = [{"name": f"x{place}", "bounds": [0, 4], "typical": [0, 4]} for place in range(len(POINTS))]
        return Agreement.model_validate(
            {
                "format": 2,
                "model": {
                    "kind": self.kind,
                    "features": features,
                    "target": target,
                    "data_prior": {"scope": self.scope},
                },
                "privacy": {"order": self.order, "max_epsilon": 4.0},
                "parties": [{"name": party} for party in parties],
            }
        )


class SharedDemo(Demo):
    """The same, all parties' features having one distribution."""

    scope = "shared"


def demo(name: str, kind: type[Demo] = Demo) -> Demo:
    """Deal out the demo's patients of versions up to 0.18."""
    rng = np.random.default_rng(PATIENTS)
    number = sum(HOSPITALS) + TEST_ROWS
    scores = rng.integers(0, 5, size=(number, len(POINTS)))
    expected = CENTRE + (scores - 2) @ np.array(POINTS)
    answers = np.clip(np.round(expected + NOISE * rng.normal(size=number)), 0, 100)
    if "regression" not in name:
        answers = np.where(rng.random(number) < 1 / (1 + np.exp(-(expected - CENTRE) / SLOPE)), 1.0, -1.0)
    ends = np.cumsum([0, *HOSPITALS])
    tables = {
        party: (scores[start:end].astype(float), answers[start:end])
        for party, start, end in zip(PARTIES, ends, ends[1:], strict=False)
    }
    return kind(name, tables, tables[PARTIES[0]], np.full(len(POINTS), 4.0), 1.0, {})


def normal_demo(name: str) -> Setting:
    """Deal out patients with normal scores."""
    return with_normal_rows(demo(name))


def with_normal_rows(setting: Setting, *, correlated: bool = True) -> Setting:
    """Draw normal features like all parties' own, and targets from the regression fitted to their rows.

    Next to nothing is clipped: the demo's columns and residuals get half their deviations, and Diab wider bounds.
    """
    rng = np.random.default_rng(4)
    features = np.concatenate([features for features, _ in setting.tables.values()])
    targets = np.concatenate([targets for _, targets in setting.tables.values()])
    design = np.column_stack([features, np.ones(len(features))])
    mean, covariance = features.mean(axis=0), np.cov(features.T)
    covariance = covariance if correlated else np.diag(np.diag(covariance))
    if isinstance(setting, Demo):
        covariance = covariance / 4
    elif setting.kind == "logistic":
        setting = replace(setting, bounds=np.full_like(setting.bounds, WIDE))
    if setting.kind == "linear":
        weights = np.linalg.lstsq(design, targets)[0]
        deviation = float(np.std(targets - design @ weights)) / (2 if isinstance(setting, Demo) else 1)
    else:
        from sklearn.linear_model import LogisticRegression

        weights = LogisticRegression(C=1e6, fit_intercept=False, max_iter=10_000).fit(design, targets).coef_[0]
    tables = {}
    for party, rows in zip(PARTIES, NORMAL_ROWS, strict=True):
        drawn = rng.multivariate_normal(mean, covariance, size=rows)
        drawn = np.clip(drawn, *_limits(setting))
        expected = drawn @ weights[:-1] + weights[-1]
        if setting.kind == "linear":
            answers = expected + deviation * rng.normal(size=rows)
            answers = np.clip(answers, 0, 100) if isinstance(setting, Demo) else answers
        else:
            answers = np.where(rng.random(rows) < 1 / (1 + np.exp(-expected)), 1.0, -1.0)
        tables[party] = drawn, answers
    if isinstance(setting, Demo) or setting.kind == "logistic":
        return replace(setting, tables=tables)
    largest = max(float(np.abs(answers).max()) for _, answers in tables.values())
    return replace(setting, tables=tables, target_bound=largest)


def _limits(setting: Setting) -> tuple[Floats, Floats]:
    """Bounds of the features; those of the demo begin at 0."""
    return (np.zeros(len(setting.bounds)) if isinstance(setting, Demo) else -setting.bounds), setting.bounds


def cases(data: Path | None) -> dict[str, tuple[Callable[[], Setting], Sequence[float]]]:
    """Name every setting, with what makes it and the ε of its parties."""
    paper, clear = tuple(settings.EPSILONS.values()), (2.0,) * len(PARTIES)
    sets: dict[str, Callable[[], Setting]] = {
        "Syn, normal": lambda: settings.syn(rows=NORMAL_ROWS),
        "CaliH": lambda: settings.calih(data),
        "CaliH, normal": lambda: with_normal_rows(settings.calih(data)),
        "CaliH, normal, uncorrelated": lambda: with_normal_rows(settings.calih(data), correlated=False),
        "Diab": lambda: settings.diab(data),
        "Diab, normal": lambda: with_normal_rows(settings.diab(data)),
    }
    found: dict[str, tuple[Callable[[], Setting], Sequence[float]]] = {
        f"{name}, {word}": (make, epsilons)
        for name, make in sets.items()
        for word, epsilons in (("paper's ε", paper), ("ε = 2", clear))
    }
    found["CaliH, normal, ε = 200"] = sets["CaliH, normal"], (200.0,) * len(PARTIES)
    for name in ("demo regression", "demo classification"):
        found[name] = partial(demo, name), DEMO_EPSILONS
        found[f"{name}, normal"] = partial(normal_demo, name), DEMO_EPSILONS
        found[f"{name}, shared"] = partial(demo, name, SharedDemo), DEMO_EPSILONS
    return found


def write(folder: Path, data: Path | None, rounds: int, only: tuple[str, ...]) -> None:
    """Write each setting's agreement, and its releases of every round."""
    for name, (make, epsilons) in cases(data).items():
        if not name.startswith(only):
            continue
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        setting = make()
        for number in range(rounds):
            agreement, sent = plain_submissions(setting, dict(zip(PARTIES, epsilons, strict=True)), number)
            for one in sent:
                one.save(place / f"{number}-{one.party}.submission.json")
        (place / "agreement.json").write_text(agreement.model_dump_json(exclude_none=True), encoding="utf-8")
        print(name, flush=True)


def sample(place: Path, method: Any, rounds: int) -> tuple[str, list[dict[str, Any]]]:
    """Sample a setting's rounds, and summarise each posterior. Which methods there are depends on the version."""
    agreement = Agreement.model_validate_json((place / "agreement.json").read_text(encoding="utf-8"))
    found = []
    for number in range(min(rounds, len(list(place.glob("*-1.submission.json"))))):
        sent = [eq.Submission.load(place / f"{number}-{party}.submission.json") for party in PARTIES]
        for coalition in (list(PARTIES), [PARTIES[0]]):
            start = time.process_time()
            posterior = eq.infer(
                agreement, sent, coalition=coalition, method=method, draws=DRAWS[method], progress=False
            )
            seconds = time.process_time() - start
            name = posterior.method
            columns = posterior.draws["weights"]
            if "variance" in posterior.draws:
                columns = np.column_stack([columns, np.log(posterior.draws["variance"])])
            value = eq.surprise(agreement, posterior, force=True)
            found.append(
                {
                    "round": number,
                    "coalition": len(coalition),
                    "mean": columns.mean(axis=0).tolist(),
                    "sd": columns.std(axis=0).tolist(),
                    "effective": ess_bulk(columns.reshape(posterior.chains, -1, columns.shape[1])).tolist(),
                    "value": value.value,
                    "error": value.error,
                    "converged": posterior.converged,
                    "seconds": seconds,
                }
            )
    return name, found


def compare(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> str:
    """Say how far apart two samplers are: the cells of a row of the table."""
    pairs = list(zip(ours, theirs, strict=False))  # those of the first rounds, which are first in both
    shifts = [np.abs(np.subtract(a["mean"], b["mean"])) / b["sd"] for a, b in pairs]
    errors = [np.sqrt(1 / np.array(a["effective"]) + 1 / np.array(b["effective"])).max() for a, b in pairs]
    widths = np.concatenate([np.divide(a["sd"], b["sd"]) for a, b in pairs])
    values, apart = [b["value"] for _, b in pairs], [a["value"] - b["value"] for a, b in pairs]
    of_values = max(float(np.hypot(a["error"], b["error"])) for a, b in pairs)
    late = sum(not one["converged"] for pair in pairs for one in pair)
    # The first posterior of a program includes its compiling.
    rates = [np.median([min(one["effective"]) / one["seconds"] for one in side[1:] or side]) for side in (ours, theirs)]
    cells = [
        f"{np.max([shift.max() for shift in shifts]):.2f}",
        f"{np.median(np.concatenate(shifts)):.2f}",
        f"{np.max(errors):.2f}",
        f"{widths.min():.2f} to {widths.max():.2f}",
        f"{min(values):.1f} to {max(values):.1f}",
        f"{min(apart):+.2f} to {max(apart):+.2f}",
        f"{of_values:.2f}",
        str(late),
        f"{rates[0]:,.0f} and {rates[1]:,.0f}",
    ]
    return " | ".join(cells)


def printed(folder: Path) -> None:
    """Print every comparison with method "moments" of the newest version."""
    titles = (
        *("setting", "parties", "against", "largest shift", "median", "its error", "widths", "values", "difference"),
        *("its error", "not converged", "effective draws a second"),
    )
    print(f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}")
    for place in sorted(one for one in folder.iterdir() if one.is_dir()):
        results = {one.stem: json.loads(one.read_text(encoding="utf-8")) for one in sorted(place.glob("*.result"))}
        base = max((one for one in results if one.endswith(OURS)), default="")
        for name, result in results.items():
            if not base or name == base:
                continue
            for size, word in ((len(PARTIES), "all"), (1, "one")):
                both = ([one for one in side if one["coalition"] == size] for side in (results[base], result))
                print(f"| {place.name} | {word} | {name} | {compare(*both)} |")


def main() -> None:
    """Write releases, sample them, or compare what was sampled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "sample", "print"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="folder of the paper's two tables")
    parser.add_argument("--rounds", type=int, default=3, help="draws of noise, to write or to sample")
    parser.add_argument("--method", default=OURS, choices=tuple(DRAWS))
    parser.add_argument("--only", nargs="+", help="settings whose names begin so")
    options = parser.parse_args()
    only = tuple(options.only or [""])
    if options.what == "write":
        write(options.folder, options.data, options.rounds, only)
    if options.what == "sample":
        for place in sorted(one for one in options.folder.iterdir() if one.is_dir()):
            if not place.name.startswith(only):
                continue
            start = time.process_time()
            name, found = sample(place, options.method, options.rounds)
            (place / f"{__version__} {name}.result").write_text(json.dumps(found), encoding="utf-8")
            print(f"{place.name}: {name}, {time.process_time() - start:.0f} s of the processor", flush=True)
    if options.what == "print":
        printed(options.folder)


if __name__ == "__main__":
    main()
