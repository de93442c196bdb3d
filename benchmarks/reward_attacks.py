"""Attacks by one recipient on real rewards: what sharpening and own rows gain on each mechanism.

python benchmarks/reward_attacks.py OUTPUT.csv [KIND] [ROUNDS]     settles rounds, adding to the file
python benchmarks/reward_attacks.py --print OUTPUT.csv             tables of what the file holds
PYTHONPATH=tests python benchmarks/reward_attacks.py --exact       the best attacks, where everything is normal
PYTHONPATH=tests python benchmarks/reward_attacks.py --reports     what a party's report adds there

Rounds are those of `mechanisms.py`: rows of a known truth, real releases and settlements. Truths are drawn from the
agreed prior, because a posterior that is too wide or too narrow for its truths gains by being sharpened or widened,
whatever the mechanism. Rewards of linear regressions have amounts that were fixed before, κ = 0.3 or τ = 2, since
searching takes minutes. Judge by 40 rounds or more: single rounds differ by a nat. A recipient knows its reward, the
others' evidence in it, prior, κ or τ, and its own release and rows. It fits normal distributions where the prior is
N(0, I), and makes of them what it likes: counts the others' evidence more than once, or everything (divided by κ, where
there is one), or puts its own release in whole. Then the same at home, with its rows. Of each: log density of the
truth, and log loss of new rows.
"""

import csv
import itertools
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

import equipoise as eq
from equipoise.client.home.model import combined, evidence_of
from equipoise.client.home.rows import own_rows
from equipoise.mediation.advice.population import draw_population
from equipoise.models.regression import Regression
from equipoise.reward.evidence import Evidence, Normal
from equipoise.valuation.surprise import own_coordinates
from mechanisms import (
    EPSILONS,
    MECHANISMS,
    MODELS,
    NEW_ROWS,
    PARTIES,
    ROWS,
    SETTINGS,
    Truth,
    add_rounds,
    agreement,
    numbers,
)
from mechanisms import loss as loss_of

FACTORS = (1.5, 2.0, 4.0)
DRAWS = 1_000
BATCH: dict[str, Any] = {"draws": DRAWS, "processes": 1, "progress": False}
QUICKER = SETTINGS | {"rho": 0.7, "draws": DRAWS, "precision": 0.2}
KAPPA, TAU = 0.3, 2.0
WHOLE = "(the whole team)"
COLUMNS = ("kind", "round", "mechanism", "party", "attack", "score", "loss")
Part = tuple[np.ndarray, np.ndarray]  # natural parameter and precision, without the prior's


class PriorTruth(Truth):
    """A share, or a linear regression with its features, drawn from the agreed prior.

    Draws of a regression under which more than one cell in fifty would lie outside the bounds are drawn again: such
    rows would be moved to the bounds in a release, which no prior knows about.
    """

    def __init__(self, agreed: eq.Agreement, number: int) -> None:
        super().__init__(agreed.model.kind, number)
        model = agreed.model
        if not isinstance(model, Regression):
            draws = model.prior_draws(1, self.rng)
            assert draws is not None
            self.share = float(draws["probability"][0])
            return
        for _ in range(400):
            draws, self.population = draw_population(model, self.rng)
            *weights, bias = draws["weights"][0]
            # Draws have units in which the bounds are ±1; the tables' are ±4 for features and ±8 for the target.
            self.weights, self.bias = np.array(weights) * 8 / 4, bias * 8
            self.residual = 8 * np.sqrt(draws["variance"][0])
            trial = self.table(2_000)
            cells = np.column_stack([trial["a"] / 4, trial["b"] / 4, trial["y"] / 8])
            if np.mean(np.abs(cells) > 1) < 0.02:
                return
        raise ValueError(f"no draw of the prior keeps its rows within the bounds (round {number})")

    def table(self, rows: int) -> dict[str, Any]:
        """Draw rows of a party."""
        if self.kind == "bernoulli":
            return super().table(rows)
        features = 4 * self.population.draw(rows, self.rng)[:, :2]
        noise = self.residual * self.rng.normal(size=rows)
        return {"a": features[:, 0], "b": features[:, 1], "y": self.bias + features @ self.weights + noise}


def evidence_in(draws: np.ndarray) -> Part:
    """What draws [chains, draws, d] say beyond the prior N(0, I), by their mean and covariance."""
    normal = Normal.narrowed(draws.mean(axis=(0, 1)), np.atleast_2d(np.cov(draws.reshape(-1, draws.shape[2]).T)))
    precision = np.linalg.inv(normal.covariance)
    return precision @ normal.mean, precision - np.eye(len(precision))


def belief(*counted: tuple[float, Part]) -> Normal:
    """The prior and evidence, each counted so many times; never wider than the prior."""
    precision = np.sum([number * part[1] for number, part in counted], axis=0)
    values, vectors = np.linalg.eigh(precision)
    covariance = (vectors / (1 + np.maximum(values, 0.0))) @ vectors.T
    return Normal.of(covariance @ np.sum([number * part[0] for number, part in counted], axis=0), covariance)


def coordinates_of(agreed: eq.Agreement, truth: Truth) -> np.ndarray:
    """Where the truth lies in the coordinates of draws [1, d]."""
    model = agreed.model

    def missed(place: np.ndarray) -> np.ndarray:
        return np.asarray(numbers(model.at_coordinates(place[None]))[0] - truth.parameters)

    found = least_squares(missed, np.zeros(len(model.coordinate_names())), xtol=1e-14, ftol=1e-14, gtol=1e-14)
    assert np.max(np.abs(found.fun)) < 1e-6
    return np.array([found.x])


def attacks(kappa: float, reward: Part, others: Part, alone: Part, team: Part) -> dict[str, Normal]:
    """What a recipient can make of its reward without its rows, by name; and what it was not to have."""
    found = {"as given": belief((1.0, reward)), WHOLE: belief((1.0, team))}
    found |= {f"others ×{factor:g}": belief((1.0, reward), (factor - 1, others)) for factor in FACTORS}
    if kappa < 1:
        found["divided by κ"] = belief((1 / kappa, reward))
    return found | {"own release whole": belief((1.0, alone), (1.0, others))}


class Recipient(NamedTuple):
    """Somebody whose reward was held back, and what it makes of it without its rows, by name."""

    mechanism: str
    reward: eq.Reward
    made: dict[str, Normal]


def release(agreed: eq.Agreement, tables: Mapping[str, Any]) -> list[eq.Submission]:
    """Real releases of everybody."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            eq.release(agreed, tables[party], party=party, epsilon=epsilon, ledger=Path(folder) / f"{party}.ledger")
            for party, epsilon in zip(PARTIES, EPSILONS, strict=True)
        ]


def settled(
    agreed: eq.Agreement, sent: list[eq.Submission], mechanisms: Sequence[str]
) -> Iterator[tuple[str, eq.Reward]]:
    """Rewards that settlements hold back."""
    for mechanism in mechanisms:
        for award in eq.mediate(agreed, sent, mechanism=mechanism, **QUICKER).awards.values():
            is_whole = award.kappa == 1 and award.tau == 0
            if not award.falls_back and not is_whole and award.reward is not None and award.reward.others is not None:
                yield mechanism, award.reward


def fixed(
    agreed: eq.Agreement, sent: list[eq.Submission], mechanisms: Sequence[str]
) -> Iterator[tuple[str, eq.Reward]]:
    """Rewards with amounts that were fixed before, which need no search, made as settlements make them."""
    asked: list[tuple[str, str, eq.Scenario, int | str]] = []
    path = secrets.token_hex(32)
    for mechanism, party in itertools.product(mechanisms, PARTIES[:2]):  # the third, who brings most, gets all
        others = [one for one in PARTIES if one != party]
        tau = dict.fromkeys(PARTIES if mechanism == "noise" else others, TAU) if mechanism != "tempering" else {}
        kappa, noise = (KAPPA, 0) if mechanism == "tempering" else (1.0, path)
        if mechanism == "noise":
            noise = secrets.token_hex(16)
        asked += [(mechanism, party, eq.Scenario(PARTIES, kappa, tau), noise)]
        asked += [(mechanism, party, eq.Scenario(others, kappa, {one: tau.get(one, 0.0) for one in others}), noise)]
    found = eq.infer_batch(agreed, sent, [one[2] for one in asked], noise_seed=[one[3] for one in asked], **BATCH)
    for (mechanism, party, _, _), whole, others_only in zip(asked[::2], found[::2], found[1::2], strict=True):
        evidence = own_coordinates(agreed, others_only)
        yield mechanism, eq.Reward(party, agreed, whole, eq.Estimate(0.0, 0.0), others=evidence)


def recipients(
    agreed: eq.Agreement, tables: Mapping[str, Any], mechanisms: Sequence[str] = MECHANISMS, *, search: bool = True
) -> Iterator[Recipient]:
    """Release, hold rewards back by every mechanism, and attack."""
    sent = release(agreed, tables)
    scenarios = [eq.Scenario(), *(eq.Scenario([party]) for party in PARTIES)]
    team, *alone = (own_coordinates(agreed, one) for one in eq.infer_batch(agreed, sent, scenarios, **BATCH))
    for mechanism, reward in (settled if search else fixed)(agreed, sent, mechanisms):
        assert reward.others is not None
        given = own_coordinates(agreed, reward.posterior)
        known = map(evidence_in, (given, reward.others, alone[PARTIES.index(reward.party)], team))
        yield Recipient(mechanism, reward, attacks(reward.posterior.scenario.kappa, *known))


def settle(kind: str, number: int) -> Iterator[dict[str, Any]]:
    """One round with every mechanism: a record of every attack on every reward that was held back."""
    agreed = agreement(kind)
    truth = PriorTruth(agreed, number)
    tables = dict(zip(PARTIES, map(truth.table, ROWS), strict=True))
    new, place = truth.table(NEW_ROWS), coordinates_of(agreed, truth)
    for mechanism, reward, made in recipients(agreed, tables, search=kind != "linear"):
        told = {"kind": kind, "round": number, "mechanism": mechanism, "party": reward.party}
        for name, normal in made.items():
            unit = np.random.default_rng(number).normal(size=(DRAWS, len(normal.mean)))
            drawn = normal.mean + unit @ normal.root.T
            posterior = replace(reward.posterior, draws=agreed.model.at_coordinates(drawn), coordinates=drawn)
            loss = loss_of(replace(reward, posterior=posterior), new)
            yield told | {"attack": name, "score": float(normal.log_density(place)[0]), "loss": loss}
        assert reward.others is not None
        rows, others = own_rows(agreed, tables[reward.party]), evidence_in(reward.others)
        kappa = reward.posterior.scenario.kappa
        counts = {f"at home, others ×{factor:g}": Evidence((belief((factor, others)),)) for factor in FACTORS}
        if kappa < 1:
            counts["at home, divided by κ"] = Evidence((belief((1 / kappa, others)),))
        for name, evidence in {"at home, as given": evidence_of(reward), **counts}.items():
            home = combined(reward, evidence, rows, draws=DRAWS, seed=number, force=True)
            density = Evidence.fitted(own_coordinates(agreed, home.posterior)).log_density(place)
            yield told | {"attack": name, "score": float(density[0]), "loss": loss_of(home, new)}


def gains(records: list[dict[str, Any]], kind: str, mechanism: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By attack, nats and loss gained over the reward as given (at home over that at home), a mean for each round."""
    chosen = [one for one in records if (one["kind"], one["mechanism"]) == (kind, mechanism)]
    found: dict[str, dict[int, list[tuple[float, float]]]] = {}
    given = {(one["round"], one["party"], one["attack"]): one for one in chosen}
    for one in chosen:
        basis = "at home, as given" if one["attack"].startswith("at home") else "as given"
        before = given[one["round"], one["party"], basis]
        gain = (float(one["score"]) - float(before["score"]), float(before["loss"]) - float(one["loss"]))
        found.setdefault(one["attack"], {}).setdefault(int(one["round"]), []).append(gain)
    return {
        attack: (
            np.array([np.mean([gain[0] for gain in of_round]) for of_round in rounds.values()]),
            np.array([np.mean([gain[1] for gain in of_round]) for of_round in rounds.values()]),
        )
        for attack, rounds in found.items()
        if not attack.endswith("as given")
    }


def show(path: Path) -> None:
    """Means over rounds with their standard errors, as a table of Markdown."""
    with path.open(newline="", encoding="utf-8") as file:
        records: list[dict[str, Any]] = list(csv.DictReader(file))
    for kind in MODELS:
        found = {mechanism: gains(records, kind, mechanism) for mechanism in MECHANISMS}
        names = list(dict.fromkeys(name for one in found.values() for name in one))
        rounds = max((len(values[0]) for one in found.values() for values in one.values()), default=0)
        print(f"\n{kind}, {rounds} rounds: nats, and loss a row, gained\n")
        print(f"| attack | {' | '.join(MECHANISMS)} |\n|---|{'---|' * len(MECHANISMS)}")
        for name in names:
            cells = [_cell(*found[mechanism][name]) if name in found[mechanism] else "" for mechanism in MECHANISMS]
            print(f"| {name} | {' | '.join(cells)} |")


def _cell(nats: np.ndarray, losses: np.ndarray) -> str:
    return ", ".join(
        f"{np.mean(one):.{digits}f} ± {np.std(one, ddof=1) / np.sqrt(len(one)):.{digits}f}"
        for one, digits in ((nats, 2), (losses, 4))
    )


def exact() -> None:
    """Nats over what is allowed and over the reward as given, and loss a row over the latter, as tables of Markdown."""
    from statistical.reward_attacks import BROKEN, attack
    from statistical.reward_attacks import MECHANISMS as NORMAL

    for name, mechanism in (NORMAL | BROKEN).items():
        print(f"\n{name}\n\n| attack | over what is allowed | as given | loss a row |\n|---|---|---|---|")
        for case, gain in attack(mechanism).items():
            print(f"| {case} | {gain.allowed:.3f} | {gain.given:.3f} | {gain.loss:.4f} |")


def reports(rounds: int = 400) -> None:
    """Nats gained by reading numbers of a report, in rounds of three sizes."""
    from statistical.reward_reports import Told, measure

    fine = 0.01
    told = {
        "all of these": Told(fine, fine, fine, fine, True),
        "whole": Told(whole=fine),
        "whole, to 1 nat": Told(whole=1.0),
        "whole, to 2 nats": Told(whole=2.0),
        "Shapley value": Told(shapley=fine),
        "curve": Told(curve=fine),
        "target and exponent": Told(target=fine, search=True),
        "target": Told(search=True),
    }
    for size in ((1, 3, 20.0), (3, 3, 4.0), (3, 5, 10.0)):
        print("\n{} parameters, {} parties, strength {:g}".format(*size))
        found = measure(told, rounds=rounds, number=2_500, dimensions=size[0], parties=size[1], strength=size[2])
        for name, values in found.items():
            print(f"{name:20s} {np.mean(values):6.3f} ± {np.std(values) / np.sqrt(rounds):.3f}", flush=True)


def main() -> None:
    """Settle rounds, or show what was found."""
    if sys.argv[1] == "--print":
        show(Path(sys.argv[2]))
        return
    if sys.argv[1] == "--exact":
        exact()
        return
    if sys.argv[1] == "--reports":
        reports()
        return
    add_rounds(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), settle, COLUMNS)


if __name__ == "__main__":
    main()
