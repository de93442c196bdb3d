"""Is a round worth joining? What every party can predict with, on held-out rows: five public tables, three ε.

    python benchmarks/worth_posteriors.py --data FOLDER --output rewards
    python benchmarks/worth_joining.py home --data FOLDER --folder rewards --results worth.json
    python benchmarks/worth_joining.py page --results worth.json

`worth_posteriors.py` deals rows to three parties of unequal size, makes their releases, and samples coalitions, rewards
and the others' evidence. `home` does what each party does at home, with the code of `eq.combine`, and what it could do
instead (`worth_others.py`). `page` writes tables into docs/worth.md and draws its pictures.

Rows are the tables' own, none drawn twice: up to 1,000 of three quarters of a table, of which 10, 30 and 60 % go to the
parties, and up to 4,000 others to be predicted. Each of the repetitions deals and adds noise anew; ε differs for the
same deal. `fair` and `randhie` come with statsmodels, which must be installed for them.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

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
from worth_others import Problem, best_plan, fine_tuned, loss, scaled_at_home

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

CHOSEN = ("california", "diabetes", "fair", "pima", "randhie")
SHARES = (0.1, 0.3, 0.6)
MOST_ROWS, MOST_TESTED, TRAINED_ON = 1_000, 4_000, 0.75
DRAWS, PROPOSALS, DEGREES, ADAPTATIONS = 3_000, 8_000, 5.0, 5
LEAST_WORTH = 1_000.0  # draws
EVERYTHING = "everything to everybody"  # what rewards would be if nothing were held back


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


def at_home(study: Study, data: Path | None, given: dict[str, Any], *, rivals: bool = True) -> list[dict[str, Any]]:
    """Held-out losses of all that every party can predict with, in every round of a table."""
    frame, model = study.table.load(data), study.agreement.model
    every = scaled_rows(study.agreement, frame, frame[model.target.name])
    settings = [(float(epsilon), int(number)) for epsilon, number in given["settings"]]
    deals = {number: deal(study, number) for _, number in settings}

    def rows(places: Places) -> Rows:
        assert every.features is not None
        return Rows(every.features[places], every.target[places], every.unit, every.model)

    tests = {number: rows(one.test) for number, one in deals.items()}

    def moved(places: Places) -> Rows:
        """Move rows to the agreed ranges, as `eq.combine` does; held-out rows stay as they are."""
        one = rows(places)
        assert one.features is not None
        return Rows(np.clip(one.features, -1, 1), np.clip(one.target, -1, 1), one.unit, one.model)

    parts = {number: [moved(part) for part in one.parts] for number, one in deals.items()}
    nothing = Evidence.none(given["reward"].shape[-1])
    first = reward_of(study, 0, given["reward"][0, 0])

    def fitted(own: Rows, reward: Reward, evidence: Evidence | ExactEvidence, number: int) -> tuple[float, float]:
        found, worth = drawn_at_home(reward, evidence, own, number)
        return loss(tests[number], found), worth

    clean = {number: [fitted(own, first, nothing, number) for own in parts[number]] for number in deals}
    pooled = {number: fitted(moved(one.together), first, nothing, number) for number, one in deals.items()}
    problem = Problem(model, study.table.kind == "linear")
    found, mechanism = [], str(given["mechanism"])
    setting = EVERYTHING if mechanism == "everything" else f"`{mechanism}`, {given['agreed']}"
    for epsilon in sorted({epsilon for epsilon, _ in settings}):
        chosen = [(place, number) for place, (one, number) in enumerate(settings) if one == epsilon]
        zcdp = Guarantee(order=ORDER, epsilon=epsilon).zcdp
        plan: Sequence[float] = ()
        common: Sequence[Floats | None] = [None] * len(chosen)
        if rivals:
            plan, common = best_plan(problem, [(parts[number], tests[number]) for _, number in chosen], zcdp, seed=1)
        for (place, number), shared in zip(chosen, common, strict=True):
            rng = np.random.default_rng([2, number, round(1_000 * epsilon)])
            ridge = adassp(study, study.rows.take(deals[number].together), epsilon, rng)
            for party, own in enumerate(parts[number]):
                amount = float(given["amount"][place, party])
                nobody = np.isnan(amount) or (mechanism == "tempering" and amount == 0)
                # Rewards carry sums where nothing holds them back but noise.
                exact = "sums" in given and (mechanism != "tempering" or amount == 1)
                handed = (
                    {} if nobody else {name: given[name][place, party] for name in ("sums" if exact else "others",)}
                )
                reward = reward_of(study, party, given["reward"][place, party], **handed)
                evidence = evidence_of(reward)
                home, worth = fitted(own, reward, evidence, number)
                held = len(own.target)
                found.append(
                    {
                        "setting": setting,
                        "table": study.table.name,
                        "epsilon": epsilon,
                        "number": number,
                        "party": party,
                        "rows": held,
                        "others": len(deals[number].together) - held,
                        "amount": None if np.isnan(amount) else amount,
                        "alone": float(given["values"][place, (1 << party) - 1]),
                        "rho": float(given["rho"][place]),
                        "target": float(given["targets"][place, party]),
                        "attained": float(given["attained"][place, party]),
                        "whole": float(given["values"][place, -1]),
                        "converged": bool(given["converged"][place, party]),
                        "misfit": None if evidence.misfit is None else evidence.misfit.value,
                        "worth": min(worth, clean[number][party][1], pooled[number][1]),
                        "plan": list(plan),
                        "losses": {
                            "own rows": clean[number][party][0],
                            "reward": loss(tests[number], reward.posterior.draws),
                            "at home": home,
                            "pooled rows": pooled[number][0],
                        }
                        | ({} if shared is None else rivals_of(problem, own, ridge, shared, tests[number], number)),
                    }
                )
        print(f"{study.table.name} {epsilon:g}: {len(chosen)} rounds, {plan}", flush=True)
    return found


def rivals_of(problem: Problem, own: Rows, ridge: Floats, shared: Floats, test: Rows, seed: int) -> dict[str, float]:
    """Losses of what a party could do instead."""
    return {
        "AdaSSP": loss(test, scaled_at_home(problem, own, ridge)),
        "DP-FedAvg, tuned": loss(test, fine_tuned(problem, own, shared, seed)),
    }


def shares(found: list[dict[str, Any]]) -> None:
    """Print the share of the pooled gain that parties reach at home: of the small and the middle one, and the large."""
    print("| table | ε | setting | small and middle | large | better than own rows |\n|---|---|---|---|---|---|")
    keys = dict.fromkeys((one["table"], one["epsilon"], one["setting"]) for one in found)
    for key in keys:
        same = [one for one in found if (one["table"], one["epsilon"], one["setting"]) == key]
        cells = []
        for parties in ((0, 1), (2,)):
            losses = [one["losses"] for one in same if one["party"] in parties]
            own, home, pooled = (
                np.mean([one[name] for one in losses]) for name in ("own rows", "at home", "pooled rows")
            )
            cells.append(f"{(own - home) / (own - pooled):.0%}")
        better = np.mean([one["losses"]["at home"] < one["losses"]["own rows"] for one in same if one["party"] < 2])
        print(f"| {key[0]} | {key[1]:g} | {key[2]} | {' | '.join(cells)} | {better:.0%} |")


def main() -> None:
    """Do one of the stages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("home", "page", "shares"))
    parser.add_argument("--data", type=Path, help="folder of the two files")
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=list(CHOSEN))
    parser.add_argument("--version", type=int, default=3, help="of the agreements: 2 scales noise by bounds")
    parser.add_argument("--folder", type=Path, help="of rewards, to read")
    parser.add_argument("--results", type=Path, help="JSON, to which `home` adds")
    parser.add_argument("--without-rivals", action="store_true", help="leave AdaSSP and DP-FedAvg out")
    options = parser.parse_args()
    if options.what == "shares":
        shares(json.loads(options.results.read_text(encoding="utf-8")))
        return
    if options.what == "page":
        from worth_page import page

        page(json.loads(options.results.read_text(encoding="utf-8")))
        return
    for name in options.tables:
        study, made = Study(TABLES[name], options.data, DRAWS, version=options.version), []
        for file in sorted(options.folder.glob(f"{name}-*.npz")):
            with np.load(file) as given:
                made += at_home(study, options.data, dict(given), rivals=not options.without_rivals)
        known = json.loads(options.results.read_text(encoding="utf-8")) if options.results.exists() else []
        same = {(one["setting"], one["table"]) for one in made}
        kept = [one for one in known if (one["setting"], one["table"]) not in same]
        options.results.write_text(json.dumps([*kept, *made]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
