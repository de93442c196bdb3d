"""Control of rewards: less of the evidence (κ) against more noise (τ), for Figs. 2 d-f, 3 d-f and later ones."""

import csv
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise.estimate import SURE, Estimate
from equipoise.inference.scenario import Scenario
from equipoise.mediation.seeds import derived_seed
from equipoise_paper.effort import Effort, Tick
from equipoise_paper.outcome import Outcome
from equipoise_paper.pictures import Curve, draw_curves
from equipoise_paper.posteriors import Asked, Found, Measure, as_drawn, find, prior_loss
from equipoise_paper.releases import plain_submissions
from equipoise_paper.settings import EPSILONS, NOISE_SEED, PARTIES, Setting
from equipoise_paper.verdict import Verdict, below, fact, falls, mean_of_runs, negated, rises

TEMPERING, ADDED_NOISE = "tempering", "added noise"
KAPPAS = (0.004, 0.016, 0.06, 0.12, 0.25, 0.5, 1.0)
TAUS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0)
# Realisations of the added noise. Those of Syn were picked as the paper's were: with the first, r is monotone in τ, and
# with the second it is not. `scan` counts the realisations with which it is not.
MONOTONE, PROBLEMATIC = 4, 122
SCANNED = 128
# Draws of each posterior in a scan.
SCAN = 1_600


@dataclass(frozen=True)
class Controlled:
    """All parties' posterior with an amount of κ or τ, in one run."""

    mechanism: str
    amount: float
    run: int
    numbers: Found

    def row(self) -> dict[str, float | int | str]:
        """Return the numbers of one controlled reward, by column of a table."""
        return {
            "mechanism": self.mechanism,
            "amount": self.amount,
            "run": self.run,
            "r": self.numbers.value.value,
            "r_error": self.numbers.value.error,
            "similarity": self.numbers.similarity,
            "mnlp": self.numbers.loss,
            "rhat": self.numbers.rhat,
        }


def read_tempered(path: Path) -> list[Controlled]:
    """Read tempered posteriors from a table of runs. They depend on no added noise, so all realisations share them."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["mechanism"] == TEMPERING]
    tempered = []
    for row in rows:
        value = Estimate(float(row["r"]), float(row["r_error"]))
        numbers = Found(value, float(row["mnlp"]), float(row["similarity"]), float(row["rhat"]))
        tempered.append(Controlled(TEMPERING, float(row["amount"]), int(row["run"]), numbers))
    return tempered


def with_noise(tau: float) -> Scenario:
    """Return the scenario of all parties with the amount τ of noise added to each."""
    return Scenario(None, 1.0, dict.fromkeys(PARTIES, tau))


def vary_control(
    setting: Setting,
    effort: Effort,
    noise_seed: int,
    known: Sequence[Controlled] = (),
    *,
    tick: Tick = lambda _what: None,
) -> list[Controlled]:
    """Sample tempered and noise-added posteriors in several runs, which differ only in the sampler's random numbers.

    The tempered posteriors are not sampled if they are passed as `known`.
    """
    agreement, sent = plain_submissions(setting, EPSILONS, NOISE_SEED)
    sampling = effort.sampling(setting)
    tick(f"{setting.name}: everybody's posterior")
    (whole,) = find(agreement, sent, [Asked(Scenario(), derived_seed(0, setting.name, "whole"))], sampling, as_drawn)
    measure = Measure(setting.test_rows, whole.coordinates)
    plan = [(TEMPERING, kappa, Scenario(None, kappa)) for kappa in KAPPAS] if not known else []
    plan += [(ADDED_NOISE, tau, with_noise(tau)) for tau in TAUS]
    planned = list(itertools.product(plan, range(effort.runs)))
    asked = [
        Asked(scenario, derived_seed(0, setting.name, mechanism, amount, run))
        for (mechanism, amount, scenario), run in planned
    ]
    tick(f"{setting.name}: less evidence, more noise")
    answers = find(agreement, sent, asked, sampling, measure, noise_seed=noise_seed)
    return [*known] + [
        Controlled(mechanism, amount, run, numbers)
        for ((mechanism, amount, _), run), numbers in zip(planned, answers, strict=True)
    ]


def scan(setting: Setting, *, tick: Tick = lambda _what: None) -> list[int]:
    """Return those of the first `SCANNED` realisations of added noise with which r rises somewhere as τ grows."""
    agreement, sent = plain_submissions(setting, EPSILONS, NOISE_SEED)
    measure = Measure(setting.test_rows)
    rising = []
    for noise_seed in range(SCANNED):
        tick(f"{setting.name}: realisation {noise_seed + 1} of {SCANNED}")
        asked = [Asked(with_noise(tau), 7) for tau in TAUS[2:]]
        posteriors = find(agreement, sent, asked, SCAN, measure, noise_seed=noise_seed)
        steps = [after.value - before.value for before, after in itertools.pairwise(posteriors)]
        if max(step.z_score for step in steps) > SURE:
            rising.append(noise_seed)
    return rising


def averaged(rewards: Sequence[Controlled], mechanism: str, what: str) -> list[Estimate]:
    """Average a number over the runs at every κ or τ."""
    chosen = [reward for reward in rewards if reward.mechanism == mechanism]
    amounts = dict.fromkeys(reward.amount for reward in chosen)
    return mean_of_runs(
        [[getattr(reward.numbers, what) for reward in chosen if reward.amount == amount] for amount in amounts]
    )


def pictures_of(name: str, rewards: Sequence[Controlled], folder: Path) -> list[Path]:
    """Draw r against κ and against τ, and similarity and MNLP against r."""
    tempered, noised = averaged(rewards, TEMPERING, "value"), averaged(rewards, ADDED_NOISE, "value")
    paths = draw_curves(folder / f"{name}-kappa", [Curve(TEMPERING, KAPPAS, tempered)], "κ", "r (nats)")
    paths += draw_curves(folder / f"{name}-tau", [Curve(ADDED_NOISE, TAUS, noised)], "τ", "r (nats)", first_look=1)
    for what, label in (("similarity", "similarity r′ (nats)"), ("loss", "MNLP (nats per row)")):
        curves = [
            Curve(mechanism, [value.value for value in values], averaged(rewards, mechanism, what))
            for mechanism, values in ((TEMPERING, tempered), (ADDED_NOISE, noised))
        ]
        ending = "mnlp" if what == "loss" else what
        paths += draw_curves(folder / f"{name}-{ending}", curves, "r (nats)", label, logarithmic=False)
    return paths


def control(name: str, rewards: Sequence[Controlled], folder: Path) -> Outcome:
    """Compare tempering with noise that behaves: both are monotone, and tempering is better at equal value."""
    verdicts = [
        rises("r grows with κ", averaged(rewards, TEMPERING, "value")),
        falls("r falls as τ grows (for this realisation of the noise)", averaged(rewards, ADDED_NOISE, "value")),
        at_equal_value(rewards, "similarity", higher=True),
        at_equal_value(rewards, "loss", higher=False),
        _less_varied(rewards),
    ]
    return _outcome(name, rewards, folder, verdicts)


def problematic(name: str, setting: Setting, rewards: Sequence[Controlled], rising: list[int], folder: Path) -> Outcome:
    """Compare tempering with noise that does not behave: r rises somewhere although τ grows."""
    prior = prior_loss(setting)
    losses = averaged(rewards, ADDED_NOISE, "loss")
    worst = max(losses, key=lambda loss: loss.value)
    verdicts = [
        fact(
            "with some realisations of the added noise, r does not fall throughout as τ grows",
            bool(rising),
            f"so with {len(rising)} of the first {SCANNED} realisations ({', '.join(map(str, rising)) or 'none'})",
        ),
        negated(
            "r does not fall throughout as τ grows (for this realisation)",
            falls("", averaged(rewards, ADDED_NOISE, "value")),
        ),
        rises("r grows with κ", averaged(rewards, TEMPERING, "value")),
        at_equal_value(rewards, "similarity", higher=True),
        at_equal_value(rewards, "loss", higher=False),
        fact(
            "rewards by such noise can predict worse than the prior",
            worst.value - SURE * worst.error > prior,
            f"the prior's MNLP is {prior:.3f}, the worst reward's {worst}",
        ),
    ]
    return _outcome(name, rewards, folder, verdicts)


def _outcome(name: str, rewards: Sequence[Controlled], folder: Path, verdicts: list[Verdict]) -> Outcome:
    runs = [reward.row() for reward in rewards]
    return Outcome.of_runs(name, runs, ("mechanism", "amount"), pictures_of(name, rewards, folder), verdicts)


def at_equal_value(rewards: Sequence[Controlled], what: str, *, higher: bool) -> Verdict:
    """Compare noise-added rewards with tempered ones of the same value, by interpolation along κ."""
    tempered, noised = averaged(rewards, TEMPERING, "value"), averaged(rewards, ADDED_NOISE, "value")
    ours, theirs = averaged(rewards, TEMPERING, what), averaged(rewards, ADDED_NOISE, what)
    order = np.argsort([value.value for value in tempered])
    values = [tempered[index].value for index in order]
    pairs = []
    for value, other in zip(noised, theirs, strict=True):
        if values[0] <= value.value <= values[-1]:
            mine = Estimate(
                float(np.interp(value.value, values, [ours[index].value for index in order])),
                float(np.interp(value.value, values, [ours[index].error for index in order])),
            )
            pairs.append((other, mine) if higher else (mine, other))
    claim = f"at equal value, tempering gives {'higher similarity' if higher else 'lower MNLP'} than added noise"
    if not pairs:
        return Verdict(claim, "cannot tell", "no noise-added posterior has a value that tempering reaches")
    return below(claim, pairs)


def _less_varied(rewards: Sequence[Controlled]) -> Verdict:
    """Check the paper's second advantage of tempering: MNLP differs less from run to run."""

    def spread(mechanism: str) -> float:
        chosen = [reward for reward in rewards if reward.mechanism == mechanism]
        losses = [
            [reward.numbers.loss for reward in chosen if reward.amount == amount]
            for amount in dict.fromkeys(reward.amount for reward in chosen)
        ]
        return float(np.mean([np.var(of_amount, ddof=1) for of_amount in losses]))

    tempered, noised = spread(TEMPERING) ** 0.5, spread(ADDED_NOISE) ** 0.5
    return fact(
        "MNLP of tempered rewards varies less from run to run",
        tempered < noised,
        f"standard deviation {tempered:.2g} against {noised:.2g}, over all κ and τ",
    )
