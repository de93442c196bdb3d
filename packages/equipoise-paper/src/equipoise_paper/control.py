"""How rewards are controlled: less of the evidence (κ) against more noise (τ): Figs. 2 d-f, 3 d-f and later ones."""

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
# Realisations of the added noise. Those of Syn were picked as the paper's were, to show one that behaves and one that
# does not; `scan` counts how many do.
MONOTONE, PROBLEMATIC = 4, 122
SCANNED = 128
SCAN = 1_600  # draws


@dataclass(frozen=True)
class Controlled:
    """Everybody's posterior with κ or τ, in one run."""

    mechanism: str
    amount: float
    run: int
    found: Found

    def row(self) -> dict[str, float | int | str]:
        """The numbers of one controlled reward, by column of a table."""
        return {
            "mechanism": self.mechanism,
            "amount": self.amount,
            "run": self.run,
            "r": self.found.value.value,
            "r_error": self.found.value.error,
            "similarity": self.found.similarity,
            "mnlp": self.found.loss,
            "rhat": self.found.rhat,
        }


def read_tempered(path: Path) -> list[Controlled]:
    """Tempered posteriors from a table of numbers; they depend on no added noise, so they serve all realisations."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["mechanism"] == TEMPERING]
    found = []
    for row in rows:
        value = Estimate(float(row["r"]), float(row["r_error"]))
        numbers = Found(value, float(row["mnlp"]), float(row["similarity"]), float(row["rhat"]))
        found.append(Controlled(TEMPERING, float(row["amount"]), int(row["run"]), numbers))
    return found


def with_noise(tau: float) -> Scenario:
    """The scenario of everybody together, with as much noise added to each."""
    return Scenario(None, 1.0, dict.fromkeys(PARTIES, tau))


def vary_control(
    setting: Setting,
    effort: Effort,
    noise_seed: int,
    known: Sequence[Controlled] = (),
    *,
    tick: Tick = lambda _what: None,
) -> list[Controlled]:
    """Temper and add noise, several times with other random numbers of the sampler; the added noise stays.

    What is known already is not sampled again.
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
        Controlled(mechanism, amount, run, found)
        for ((mechanism, amount, _), run), found in zip(planned, answers, strict=True)
    ]


def scan(setting: Setting, *, tick: Tick = lambda _what: None) -> list[int]:
    """Realisations of added noise, of the first `SCANNED`, with which r rises somewhere as τ grows."""
    agreement, sent = plain_submissions(setting, EPSILONS, NOISE_SEED)
    measure = Measure(setting.test_rows)
    rising = []
    for noise_seed in range(SCANNED):
        tick(f"{setting.name}: realisation {noise_seed + 1} of {SCANNED}")
        asked = [Asked(with_noise(tau), 7) for tau in TAUS[2:]]
        found = find(agreement, sent, asked, SCAN, measure, noise_seed=noise_seed)
        steps = [after.value - before.value for before, after in itertools.pairwise(found)]
        if max(step.z_score for step in steps) > SURE:
            rising.append(noise_seed)
    return rising


def averaged(found: Sequence[Controlled], mechanism: str, what: str) -> list[Estimate]:
    """Mean over runs at every κ or τ."""
    chosen = [one for one in found if one.mechanism == mechanism]
    amounts = dict.fromkeys(one.amount for one in chosen)
    return mean_of_runs([[getattr(one.found, what) for one in chosen if one.amount == amount] for amount in amounts])


def pictures_of(name: str, found: Sequence[Controlled], folder: Path) -> list[Path]:
    """R against κ and against τ; similarity and MNLP against r."""
    tempered, noised = averaged(found, TEMPERING, "value"), averaged(found, ADDED_NOISE, "value")
    paths = draw_curves(folder / f"{name}-kappa", [Curve(TEMPERING, KAPPAS, tempered)], "κ", "r (nats)")
    paths += draw_curves(folder / f"{name}-tau", [Curve(ADDED_NOISE, TAUS, noised)], "τ", "r (nats)", first_look=1)
    for what, label in (("similarity", "similarity r′ (nats)"), ("loss", "MNLP (nats per row)")):
        curves = [
            Curve(mechanism, [one.value for one in values], averaged(found, mechanism, what))
            for mechanism, values in ((TEMPERING, tempered), (ADDED_NOISE, noised))
        ]
        ending = "mnlp" if what == "loss" else what
        paths += draw_curves(folder / f"{name}-{ending}", curves, "r (nats)", label, logarithmic=False)
    return paths


def control(name: str, found: Sequence[Controlled], folder: Path) -> Outcome:
    """Tempering and noise that behaves: both monotone, and tempering better at equal value."""
    verdicts = [
        rises("r grows with κ", averaged(found, TEMPERING, "value")),
        falls("r falls as τ grows (for this realisation of the noise)", averaged(found, ADDED_NOISE, "value")),
        at_equal_value(found, "similarity", higher=True),
        at_equal_value(found, "loss", higher=False),
        _less_varied(found),
    ]
    return _outcome(name, found, folder, verdicts)


def problematic(name: str, setting: Setting, found: Sequence[Controlled], rising: list[int], folder: Path) -> Outcome:
    """Noise that does not behave."""
    prior = prior_loss(setting)
    losses = averaged(found, ADDED_NOISE, "loss")
    worst = max(losses, key=lambda one: one.value)
    verdicts = [
        fact(
            "with some realisations of the added noise, r does not fall throughout as τ grows",
            bool(rising),
            f"so with {len(rising)} of the first {SCANNED} realisations ({', '.join(map(str, rising)) or 'none'})",
        ),
        negated(
            "r does not fall throughout as τ grows (for this realisation)",
            falls("", averaged(found, ADDED_NOISE, "value")),
        ),
        rises("r grows with κ", averaged(found, TEMPERING, "value")),
        at_equal_value(found, "similarity", higher=True),
        at_equal_value(found, "loss", higher=False),
        fact(
            "rewards by such noise can predict worse than the prior",
            worst.value - SURE * worst.error > prior,
            f"the prior's MNLP is {prior:.3f}, the worst reward's {worst}",
        ),
    ]
    return _outcome(name, found, folder, verdicts)


def _outcome(name: str, found: Sequence[Controlled], folder: Path, verdicts: list[Verdict]) -> Outcome:
    runs = [one.row() for one in found]
    return Outcome.of_runs(name, runs, ("mechanism", "amount"), pictures_of(name, found, folder), verdicts)


def at_equal_value(found: Sequence[Controlled], what: str, *, higher: bool) -> Verdict:
    """Noise-added rewards against tempered ones of the same value, by interpolation along κ."""
    tempered, noised = averaged(found, TEMPERING, "value"), averaged(found, ADDED_NOISE, "value")
    ours, theirs = averaged(found, TEMPERING, what), averaged(found, ADDED_NOISE, what)
    order = np.argsort([one.value for one in tempered])
    values = [tempered[place].value for place in order]
    pairs = []
    for value, other in zip(noised, theirs, strict=True):
        if values[0] <= value.value <= values[-1]:
            mine = Estimate(
                float(np.interp(value.value, values, [ours[place].value for place in order])),
                float(np.interp(value.value, values, [ours[place].error for place in order])),
            )
            pairs.append((other, mine) if higher else (mine, other))
    claim = f"at equal value, tempering gives {'higher similarity' if higher else 'lower MNLP'} than added noise"
    if not pairs:
        return Verdict(claim, "cannot tell", "no noise-added posterior has a value that tempering reaches")
    return below(claim, pairs)


def _less_varied(found: Sequence[Controlled]) -> Verdict:
    """The paper's second advantage: MNLP differs less from run to run."""

    def spread(mechanism: str) -> float:
        chosen = [one for one in found if one.mechanism == mechanism]
        amounts = dict.fromkeys(one.amount for one in chosen)
        return float(
            np.mean([np.var([one.found.loss for one in chosen if one.amount == amount], ddof=1) for amount in amounts])
        )

    tempered, noised = spread(TEMPERING) ** 0.5, spread(ADDED_NOISE) ** 0.5
    return fact(
        "MNLP of tempered rewards varies less from run to run",
        tempered < noised,
        f"standard deviation {tempered:.2g} against {noised:.2g}, over all κ and τ",
    )
