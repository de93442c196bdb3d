"""Is a round worth joining? What every party can predict with, on held-out rows: five public tables, three ε.

    python benchmarks/worth_posteriors.py --data FOLDER --output rewards
    python benchmarks/worth_joining.py home --data FOLDER --folder rewards --results worth.json
    python benchmarks/worth_joining.py rivals --data FOLDER --results worth.json
    python benchmarks/worth_joining.py page --results worth.json

`worth_posteriors.py` deals rows to three parties of unequal size, makes their releases, and samples coalitions, rewards
and the others' evidence. `home` does what each party does at home, with the code of `eq.combine`, and `rivals` what it
could do instead (`worth_others.py`). `page` writes tables into docs/worth.md and draws its pictures.

Rows are the tables' own, none drawn twice: up to 1,000 of three quarters of a table, of which 10, 30 and 60 % go to the
parties, and up to 4,000 others to be predicted. Each of the repetitions deals and adds noise anew; ε differs for the
same deal. `fair` and `randhie` come with statsmodels, which must be installed for them.
"""

import argparse
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from equipoise._util.cores import one_core_each
from equipoise.client.home.model import evidence_of, posterior_at_home
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import independent
from equipoise.inference.posterior import Posterior
from equipoise.inference.scenario import Scenario
from equipoise.models.base import Rows
from equipoise.models.guarantee import Guarantee
from equipoise.reward.evidence import Evidence, Normal
from equipoise.reward.model import Reward
from equipoise.reward.others import ExactEvidence
from equipoise.reward.scoring import scaled_rows
from equipoise.reward.slice_sampling import touching
from equipoise.reward.sums import OthersSums
from public_tables import PARTIES, TABLES
from real_tables import ORDER, Study, adassp
from worth_others import Plan, Problem, best_plan, fine_tuned, loss, ridge, scaled_at_home
from worth_page import EVERYTHING, page

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

CHOSEN = ("california", "diabetes", "fair", "pima", "randhie")
SHARES = (0.1, 0.3, 0.6)
MOST_ROWS, MOST_TESTED, TRAINED_ON = 1_000, 4_000, 0.75
DRAWS, PROPOSALS, DEGREES, ADAPTATIONS = 3_000, 8_000, 5.0, 5
LEAST_WORTH = 1_000.0  # draws


class Deal(NamedTuple):
    """Who has which rows of a table, and which are predicted."""

    parts: list[Places]
    test: Places

    @property
    def together(self) -> Places:
        """Rows of all parties."""
        return np.concatenate(self.parts)


def deal(study: Study, number: int) -> Deal:
    """Deal a table's rows, in a way of each repetition."""
    rng = np.random.default_rng([number, *map(ord, study.table.name)])
    places, total = rng.permutation(len(study.rows)), min(MOST_ROWS, round(TRAINED_ON * len(study.rows)))
    ends = np.round(np.cumsum(SHARES) * total).astype(int)
    return Deal(np.split(places[:total], ends[:-1]), places[total : total + MOST_TESTED])


# At home.


def reward_of(
    study: Study, party: int, reward: Floats, others: Floats | None = None, sums: Floats | None = None
) -> Reward:
    """Make a party's reward of draws of own coordinates [draws, d]; that of its own release if there are no others.

    The others' evidence comes as draws, or as `sums`.
    """
    coordinates = reward.astype(float)
    scenario = Scenario(PARTIES[party : party + 1] if others is None and sums is None else PARTIES)
    parameters = study.agreement.model.at_coordinates(coordinates)
    posterior = Posterior(
        parameters, independent(*coordinates.shape), scenario, "moments", "power", 0, 0, 1, coordinates
    )
    evidence = None if others is None else others.astype(float)[None]
    handed = None
    if sums is not None:
        statistic, variance = np.split(sums[1:], 2)
        handed = OthersSums(float(sums[0]), statistic, variance)
    return Reward(PARTIES[party], study.agreement, posterior, Estimate(0.0, 0.0), (), evidence, None, handed)


def drawn_at_home(
    reward: Reward, evidence: Evidence | ExactEvidence, rows: Rows, seed: int
) -> tuple[dict[str, Floats], float]:
    """Draws of what `eq.combine` samples, by weights instead of chains, which is quicker; and how many they are worth.

    Proposals are multivariate t around the density's modes and, while weights are too uneven, around what they found so
    far; where that does not help either, the library's own chains.
    """
    model, rng = reward.agreement.model, np.random.default_rng(seed)
    likelihood, own = model.likelihood_of(rows), len(model.coordinate_names())

    def log_density(points: Floats) -> Floats:
        with np.errstate(all="ignore"):
            found = evidence.log_density(points) + likelihood(model.at_coordinates(points[:, :own]))
        return np.where(np.isfinite(found), found, -np.inf)

    around = [touching(log_density, part) for part in evidence.parts]
    for _ in range(ADAPTATIONS):
        chosen = rng.integers(len(around), size=PROPOSALS)
        scales = np.sqrt(DEGREES / rng.chisquare(DEGREES, size=PROPOSALS))[:, None]
        steps = scales * rng.normal(size=(PROPOSALS, evidence.dimension))
        points = np.stack([around[one].mean + around[one].root @ step for one, step in zip(chosen, steps, strict=True)])
        proposed = special.logsumexp([_log_t(one, points) for one in around], axis=0)
        weights = special.softmax(log_density(points) - proposed)
        worth = float(1 / np.sum(weights**2))
        if worth >= LEAST_WORTH:
            places = np.searchsorted(np.cumsum(weights), (np.arange(DRAWS) + rng.uniform()) / DRAWS)
            return model.at_coordinates(points[np.minimum(places, PROPOSALS - 1), :own]), worth
        mean, covariance = weights @ points, np.cov(points.T, aweights=weights) + 1e-9 * np.eye(evidence.dimension)
        around = [*around, Normal.of(mean, covariance), Normal.of(mean, 3 * covariance)]
    return posterior_at_home(reward, evidence, rows, draws=DRAWS, seed=seed)[0].draws, worth


def _log_t(normal: Normal, points: Floats) -> Floats:
    """Log density of a multivariate t, but for a constant that all of one dimension have."""
    squares = np.sum(normal.whitened(points) ** 2, axis=1)
    scale = np.sum(np.log(np.diag(normal.root)))
    return np.asarray(-0.5 * (DEGREES + points.shape[1]) * np.log1p(squares / DEGREES) - scale)


Found = tuple[float, float]  # a held-out loss, and how many draws it is worth


class Comparison:
    """Held-out losses of all that every party of a table can predict with."""

    def __init__(self, study: Study, data: Path | None, numbers: Sequence[int]) -> None:
        frame, model = study.table.load(data), study.agreement.model
        self._study, self._every = study, scaled_rows(study.agreement, frame, frame[model.target.name])
        self._deals = {number: deal(study, number) for number in numbers}
        self._tests = {number: self._rows(one.test) for number, one in self._deals.items()}
        self._parts = {number: [self._rows(part) for part in one.parts] for number, one in self._deals.items()}

    def _rows(self, places: Places) -> Rows:
        every = self._every
        assert every.features is not None
        return Rows(every.features[places], every.target[places], every.unit, every.model)

    def _fitted(self, own: Rows, reward: Reward, evidence: Evidence | ExactEvidence, number: int) -> Found:
        found, worth = drawn_at_home(reward, evidence, own, number)
        return loss(self._tests[number], found), worth

    @cached_property
    def _clean(self) -> dict[int, tuple[list[Found], Found]]:
        """Fit every deal's rows without noise: of each party, and all of them."""
        dimension = len(self._study.agreement.model.coordinate_names())
        nothing, first = Evidence.none(dimension), reward_of(self._study, 0, np.zeros((2, dimension)))
        return {
            number: (
                [self._fitted(own, first, nothing, number) for own in self._parts[number]],
                self._fitted(self._rows(one.together), first, nothing, number),
            )
            for number, one in self._deals.items()
        }

    def rivals(self, epsilon: float, numbers: Sequence[int]) -> tuple[Plan, dict[int, list[dict[str, float]]]]:
        """Find what parties could do instead, with the one plan of DP-FedAvg that is best in all rounds of this ε."""
        study, found = self._study, {}
        problem = Problem(study.agreement.model, study.table.kind == "linear")
        rounds = [(self._parts[number], self._tests[number]) for number in numbers]
        plan, common = best_plan(problem, rounds, Guarantee(order=ORDER, epsilon=epsilon).zcdp, seed=1)
        for number, shared in zip(numbers, common, strict=True):
            rng = np.random.default_rng([2, number, round(1_000 * epsilon)])
            solved = adassp(study, study.rows.take(self._deals[number].together), epsilon, rng)
            found[number] = [
                rivals_of(problem, own, solved, shared, self._tests[number], number) for own in self._parts[number]
            ]
        return plan, found

    def at_home(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        """Measure every party's rewards of one mechanism, and models at home."""
        study, found, mechanism = self._study, [], str(given["mechanism"])
        setting = EVERYTHING if mechanism == "everything" else f"`{mechanism}`, {given['agreed']}"
        for place, (epsilon, number) in enumerate(settings_of(given)):
            for party, own in enumerate(self._parts[number]):
                amount = float(given["amount"][place, party])
                nobody = np.isnan(amount) or (mechanism == "tempering" and amount == 0)
                # Rewards carry sums where nothing holds them back but noise.
                handed = "sums" if mechanism != "tempering" or amount == 1 else "others"
                evidence_given = {} if nobody else {handed: given[handed][place, party]}
                reward = reward_of(study, party, given["reward"][place, party], **evidence_given)
                evidence = evidence_of(reward)
                home, worth = self._fitted(own, reward, evidence, number)
                clean, pooled = self._clean[number]
                alone, held = clean[party], len(own.target)
                found.append(
                    {
                        "setting": setting,
                        "table": study.table.name,
                        "epsilon": epsilon,
                        "number": number,
                        "party": party,
                        "rows": held,
                        "others": len(self._deals[number].together) - held,
                        "amount": None if np.isnan(amount) else amount,
                        "alone": float(given["values"][place, (1 << party) - 1]),
                        "rho": float(given["rho"][place]),
                        "target": float(given["targets"][place, party]),
                        "attained": float(given["attained"][place, party]),
                        "whole": float(given["values"][place, -1]),
                        "converged": bool(given["converged"][place, party]),
                        "misfit": None if evidence.misfit is None else evidence.misfit.value,
                        "worth": min(worth, alone[1], pooled[1]),
                        "losses": {
                            "own rows": alone[0],
                            "reward": loss(self._tests[number], reward.posterior.draws),
                            "at home": home,
                            "pooled rows": pooled[0],
                        },
                    }
                )
        return found


def settings_of(given: dict[str, Any]) -> list[tuple[float, int]]:
    """Read ε and number of every round of a file."""
    return [(float(epsilon), int(number)) for epsilon, number in given["settings"]]


def rivals_of(problem: Problem, own: Rows, solved: Floats, shared: Floats, test: Rows, seed: int) -> dict[str, float]:
    """Losses of what a party could do instead."""
    return {
        "own rows, ridge": loss(test, ridge(problem, own, seed)),
        "AdaSSP": loss(test, scaled_at_home(problem, own, solved)),
        "DP-FedAvg, tuned": loss(test, fine_tuned(problem, own, shared, seed)),
    }


def read(results: Path) -> list[dict[str, Any]]:
    """Read what was measured so far."""
    return json.loads(results.read_text(encoding="utf-8")) if results.exists() else []


def add_rivals(found: list[dict[str, Any]], table: str, data: Path | None, version: int) -> None:
    """Add to every party of a table what it could do instead."""
    records = [one for one in found if one["table"] == table]
    numbers = sorted({one["number"] for one in records})
    comparison = Comparison(Study(TABLES[table], data, DRAWS, version=version), data, numbers)
    for epsilon in sorted({one["epsilon"] for one in records}):
        same = [one for one in records if one["epsilon"] == epsilon]
        plan, losses = comparison.rivals(epsilon, sorted({one["number"] for one in same}))
        for one in same:
            one["losses"] |= losses[one["number"]][one["party"]]
        print(f"{table} {epsilon:g}: {plan}", flush=True)


@one_core_each()
def main() -> None:
    """Do one of the stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("home", "rivals", "page"))
    parser.add_argument("--data", type=Path, help="folder of the two files")
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=list(CHOSEN))
    parser.add_argument("--version", type=int, default=3, help="of the agreements: 2 scales noise by bounds")
    parser.add_argument("--folder", type=Path, help="of rewards, to read")
    parser.add_argument("--results", type=Path, required=True, help="JSON, to which `home` and `rivals` add")
    options = parser.parse_args()
    found = read(options.results)
    if options.what == "page":
        page(found)
    for name in options.tables if options.what in ("home", "rivals") else ():
        if options.what == "rivals":
            add_rivals(found, name, options.data, options.version)
        else:
            files = []
            for file in sorted(options.folder.glob(f"{name}-*.npz")):
                with np.load(file) as opened:
                    files.append(dict(opened))
            numbers = sorted({number for given in files for _, number in settings_of(given)})
            study = Study(TABLES[name], options.data, DRAWS, version=options.version)
            comparison = Comparison(study, options.data, numbers)
            made = [one for given in files for one in comparison.at_home(given)]
            same = {key_of(one) for one in made}
            found = [*(one for one in found if key_of(one) not in same), *made]
        options.results.write_text(json.dumps(found) + "\n", encoding="utf-8")


def key_of(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a measurement is of; it replaces an earlier one of the same."""
    return tuple(record[name] for name in ("setting", "table", "epsilon", "number", "party"))


if __name__ == "__main__":
    main()
