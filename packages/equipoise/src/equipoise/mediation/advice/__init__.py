"""Advice to a party on its choice of ε, before it releases anything (no counterpart in the paper).

Rounds are simulated from the agreement and row counts alone. This package cannot read a row, and an import rule keeps
it from importing the modules that can. So the choice of ε that follows from its advice reveals nothing about the data.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from equipoise._util.arrays import Floats
from equipoise._util.display import Chart, Interval, Table
from equipoise.agreement import Agreement
from equipoise.errors import AgreementError
from equipoise.estimate import UNSURE, Estimate
from equipoise.inference.progress import phase_of
from equipoise.inference.scenario import is_whole
from equipoise.mediation.advice import at_home as home
from equipoise.mediation.advice import expected, quality
from equipoise.mediation.advice.changes import CHANGES, Change, Situation, everything, narrow_reaches
from equipoise.mediation.advice.engines import engine_of
from equipoise.mediation.advice.imagined import Assumed, imagine
from equipoise.models.guarantee import DEFAULT_DELTA, Guarantee
from equipoise.reward.targets import (
    PRECISION,
    TargetInputs,
    TargetPolicy,
    Targets,
    contributors,
    min_contribution_factor,
    set_targets,
)

SIMULATIONS = 16
# Further rounds that are both approximated and sampled, and the number of choices at which they are.
SAMPLED = 3
ANCHORS = 3
# A knee is at least this far above the chord, as a share of the whole rise.
CLEARLY = 0.08
# Gain in nats of a new row from which joining pays.
WORTH_JOINING = 0.01
# Share of the largest gain that counts as most of it.
ENOUGH = 0.8
# Changes to name in a sentence at most.
MOST_NAMED = 3
# Bootstrap samples of a median.
RESAMPLES = 1_000
UNKNOWN = Estimate(math.nan, math.inf)
# Columns of losses and widths, by what predicts.
PRIOR, ALONE, REWARD, TRUTH, OWN_ROWS, AT_HOME = range(6)
Outcome = Literal["worth it", "not worth it", "cannot tell at this effort"]
# Choices of ε if none are given, as shares of the largest ε agreed.
LADDER = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Choice:
    """Expected outcome of one ε. Values are expectations in nats, with standard errors of the simulation.

    `alone` is the value of the release by itself, `shapley` its Shapley value, `team` the value of all releases
    together, and `reward` the value of what the party gets back.

    Losses are mean negative log probabilities of new rows. Quality is 0 for predictions by the prior and 1 for those by
    the truth. Widths are those of intervals that should hold 90 % of new rows, in the target's unit, or None if the
    target is a label. All three are medians over simulated rounds, for predictions by the release alone, by the reward,
    by the party's own table without any round (`own_rows`), and by table and reward together (`at_home`).
    `gain_at_home` is the reduction of the loss of a new row from `own_rows` to `at_home`: the median over rounds, with
    the standard error that so few rounds leave.
    """

    epsilon: float
    zcdp: float
    epsilon_delta: float
    alone: Estimate
    shapley: Estimate
    team: Estimate
    reward: Estimate
    loss_alone: float
    loss_reward: float
    quality_alone: float
    quality_reward: float
    width_alone: float | None = None
    width_reward: float | None = None
    loss_own_rows: float = math.nan
    loss_at_home: float = math.nan
    quality_own_rows: float = math.nan
    quality_at_home: float = math.nan
    width_own_rows: float | None = None
    width_at_home: float | None = None
    gain_at_home: Estimate = UNKNOWN


@dataclass(frozen=True)
class Tried:
    """Expected result of a change to the round: the gain at home, and how well the reward predicts.

    Values are approximated alone: a reward's share may be off by a few hundredths.
    """

    what: str
    gain_at_home: Estimate
    width_reward: float | None
    quality_reward: float

    @property
    def is_worthwhile(self) -> bool:
        """True if joining would surely pay."""
        return _surely_pays(self.gain_at_home)

    def __str__(self) -> str:
        return f"{self.what} (a gain of {self.gain_at_home})"


@dataclass(frozen=True, repr=False)
class Advice:
    """Expected outcome of each ε for a party, and the assumptions behind it. `advise` makes one.

    Attributes
    ----------
    party, rows : str, int
        The party that asked, and its number of rows.
    others : dict of str to Assumed
        Rows and ε that were assumed of the other parties.
    delta : float
        δ of the (ε, δ) readings.
    rho : float or "max"
        The agreed fairness exponent.
    choices : tuple of Choice
        One for each ε, from strong to weak privacy: expected values in nats, losses, qualities, and widths of
        prediction intervals in the target's unit.
    knee : int, optional
        Index of the choice after which weaker privacy buys clearly less quality than before, if there is one.
    simulations, seed : int
        Number of simulated rounds, and the seed they were drawn with.
    loss_prior, loss_truth : float
        Mean negative log probability of new rows by the prior, and by the truth.
    target : str
        The target's name.
    width_prior, width_truth : float, optional
        Widths of intervals that should hold 90 % of new rows, by the prior and by the truth; None for labels.
    room : Estimate
        Nats per new row that own rows lose against the truth: no round can gain more.
    reach : Tried, optional
        Expected result if reaches were the typical ranges, where noise is scaled by more than three times as much.
    changes : tuple of Tried
        Changes to the round that were tried because joining is not worth it.
    """

    party: str
    rows: int
    others: dict[str, Assumed]
    delta: float
    rho: float | str
    choices: tuple[Choice, ...]
    knee: int | None
    simulations: int
    seed: int
    loss_prior: float
    loss_truth: float
    target: str = ""
    width_prior: float | None = None
    width_truth: float | None = None
    room: Estimate = UNKNOWN
    reach: Tried | None = None
    changes: tuple[Tried, ...] = ()

    def __repr__(self) -> str:
        return repr(self.summary())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self) -> Table:
        """Return a table of the expected outcome of each ε; notebooks also show a chart.

        Returns
        -------
        Table
            One row for each ε, from strong to weak privacy: quality of predictions by the release alone → with the
            reward, and by own rows → by own rows and reward, then values in nats.
        """
        numbers = self.width_prior is not None
        rows = [
            (
                f"{one.epsilon_delta:.3g}",
                f"{one.epsilon:g}",
                *((f"{half_of(one.width_alone)} → {half_of(one.width_reward)}",) if numbers else ()),
                f"{one.quality_alone:.0%} → {one.quality_reward:.0%}",
                f"{one.quality_own_rows:.0%} → {one.quality_at_home:.0%}",
                *map(str, (one.alone, one.shapley, one.reward)),
            )
            for one in self.choices
        ]
        lines = [
            (
                f"ε = {one.epsilon:g}",
                [
                    Interval(name, value.value - 2 * value.error, value.value, value.value + 2 * value.error)
                    for name, value in (("reward", one.reward), ("alone", one.alone))
                ],
            )
            for one in self.choices
        ]
        notes = [] if self.knee is None else [f"After ε = {self.choices[self.knee].epsilon:g} more buys clearly less."]
        if numbers:
            notes.append(
                f"±{self.target} is half the width of an interval that should hold 90 % of new rows: "
                f"±{half_of(self.width_prior)} if nothing is known, ±{half_of(self.width_truth)} if all is."
            )
        notes += [f"{sentence[0].upper()}{sentence[1:]}." for sentence in (self.verdict, *self.remedies)]
        predictions = (*([f"±{self.target}"] if numbers else []), "known", "own rows → at home")
        return Table(
            f"Advice to {self.party} with {self.rows:,} rows, from {self.simulations} imagined rounds",
            (f"ε at δ = {self.delta:g}", "Rényi ε", *predictions, "alone", "Shapley value", "reward"),
            rows,
            Chart("value in nats, ± two standard errors", lines),
            notes,
            numeric_from=0,
        )

    @property
    def outcome(self) -> Outcome:
        """The verdict in a few words: joining pays if, with some ε, both together predict better than own rows.

        It is "worth it" if a gain of 0.01 nats a row or more is beyond doubt, "not worth it" if such a gain can be
        excluded for every ε, and otherwise "cannot tell at this effort".
        """
        gains = [one.gain_at_home for one in self.choices]
        if any(_surely_pays(gain) for gain in gains):
            return "worth it"
        if not any(_can_pay(gain) for gain in gains):
            return "not worth it"
        return "cannot tell at this effort"

    @property
    def is_worthwhile(self) -> bool:
        """True if joining surely pays; `outcome` distinguishes doubt from a loss."""
        return self.outcome == "worth it"

    @property
    def verdict(self) -> str:
        """Sentence that says if joining pays."""
        best = max(self.choices, key=lambda one: one.gain_at_home.value)
        if self.outcome == "not worth it":
            return (
                "not worth it for the predictions: own rows, as they are at home, are expected to predict a new row as "
                f"well as with any reward beside them, within {WORTH_JOINING:g} nats (at best a gain of "
                f"{best.gain_at_home})"
            )
        if self.outcome != "worth it":
            return (
                f"cannot tell at this effort: reward and own rows together are expected to gain {best.gain_at_home} "
                f"nats a row over own rows at best, and {WORTH_JOINING:g} would be worth it; imagine more rounds than "
                f"{self.simulations} (--simulations)"
            )
        enough = next(one for one in self.choices if one.gain_at_home.value >= ENOUGH * best.gain_at_home.value)
        return (
            "worth it: reward and own rows together are expected to predict a new row better than own rows, as they "
            f"are at home, by {best.gain_at_home} nats; most of that comes from epsilon {enough.epsilon:.3g} on"
        )

    @property
    def can_be_worth_it(self) -> bool:
        """False if own rows predict so well that no contribution of others could help."""
        return _can_pay(self.room)

    @property
    def remedies(self) -> list[str]:
        """Sentences on the effect of narrower reaches, and on changes that would make joining worth it.

        Each is computed from simulated rounds, with the largest ε that was asked for unless the change is to ε itself.
        """
        sentences, last = [], self.choices[-1]
        if self.reach is not None:
            gets = f"quality {self.reach.quality_reward:.0%} in place of {last.quality_reward:.0%}"
            if self.reach.width_reward is not None:
                gets = f"±{half_of(self.reach.width_reward)} of {self.target} in place of ±{half_of(last.width_reward)}"
            sentences.append(
                f"noise is scaled by much more than the typical range: with {self.reach.what} the reward at epsilon "
                f"{last.epsilon:.3g} would say {gets}, and the gain over own rows would be {self.reach.gain_at_home} "
                f"nats in place of {last.gain_at_home}"
            )
        if self.outcome != "not worth it":
            return sentences
        if not self.can_be_worth_it:
            sentences.append(
                f"nothing that others bring could change that: own rows predict a new row within {self.room} nats of "
                "the truth. Joining pays for whoever has fewer rows, or more to learn"
            )
        elif enough := [str(change) for change in self.changes if change.is_worthwhile]:
            sentences.append(f"it would be worth it with {'; or with '.join(enough[:MOST_NAMED])}")
        elif self.changes:
            best = max(self.changes, key=lambda change: change.gain_at_home.value)
            sentences.append(f"nothing that was tried would surely make it worth it; best is {best}")
        return sentences

    def to_json(self) -> dict[str, Any]:
        """Return the advice as plain numbers, strings, lists and dictionaries."""
        return asdict(self)


def advise(
    agreement: Agreement | str | Path,
    *,
    party: str,
    rows: int,
    epsilons: Sequence[float] | None = None,
    others: Mapping[str, tuple[int, float]] | None = None,
    delta: float = DEFAULT_DELTA,
    simulations: int = SIMULATIONS,
    seed: int = 0,
    progress: bool | None = None,
) -> Advice:
    """Estimate the outcome of each ε for a party with this number of rows, before it releases anything.

    Rounds are simulated from the agreement and numbers of rows. No row is read, so following the advice reveals
    nothing about the data.

    Parameters
    ----------
    agreement : Agreement or path
        What the parties agreed to.
    party : str
        The party that asks.
    rows : int
        Its number of rows.
    epsilons : sequence of float, optional
        ε to compare, at the agreement's Rényi order; by default seven, up to the largest agreed.
    others : mapping of str to (int, float), optional
        Rows and ε to assume of other parties; by default as many rows as the party, and the largest ε agreed.
    delta : float
        δ for the (ε, δ) reading of each ε.
    simulations : int
        Rounds to simulate, 2 or more. More rounds make errors smaller.
    seed : int
        The same seed gives the same advice.
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal.

    Returns
    -------
    Advice
        One choice for each ε.

    Raises
    ------
    AgreementError
        A party or an ε does not fit the agreement, or a count is not a whole number.

    Examples
    --------
    >>> advice = eq.advise("agreement.toml", party="north", rows=500, epsilons=[0.1, 1.0])  # doctest: +SKIP
    >>> [choice.reward for choice in advice.choices]  # doctest: +SKIP
    """
    agreement = Agreement.of(agreement)
    agreement.party(party)
    asked = epsilons or [agreement.privacy.max_epsilon * share for share in LADDER]
    ladder = sorted({agreement.guarantee(epsilon=epsilon).epsilon for epsilon in asked})
    assumed = _assumptions(agreement, party, rows, others or {})
    _check_whole("simulations", simulations, 2)
    _check_whole("seed", seed, 0)

    weakest = ladder[-1]
    parties = {name: Assumed(rows, weakest) if name == party else assumed[name] for name in agreement.party_names}
    situation = Situation(party, agreement, parties)
    results = _simulate(situation, ladder, simulations, SAMPLED, seed, progress)
    advice = Advice(
        party=party,
        rows=rows,
        others=assumed,
        delta=delta,
        rho=agreement.reward.rho,
        choices=_choices(situation, ladder, delta, results),
        knee=knee(np.log(ladder), results.quality[:, REWARD]),
        simulations=simulations,
        seed=seed,
        loss_prior=float(results.typical[0, PRIOR]),
        loss_truth=float(results.typical[0, TRUTH]),
        target=agreement.model.target.name,
        width_prior=results.width(0, PRIOR),
        width_truth=results.width(0, TRUTH),
        room=_median(results.losses[:, -1, OWN_ROWS] - results.losses[:, -1, TRUTH]),
    )
    return _with_changes(advice, situation, progress)


def _choices(situation: Situation, ladder: Sequence[float], delta: float, results: "_Results") -> tuple[Choice, ...]:
    """Put together the results of each ε."""
    agreement = situation.agreement
    index = agreement.party_names.index(situation.party)
    choices = []
    for k, epsilon in enumerate(ladder):
        guarantee = Guarantee(agreement.privacy.order, epsilon)
        shapley, alone, teams = results.stakes[k].estimates
        choices.append(
            Choice(
                epsilon=epsilon,
                zcdp=guarantee.zcdp,
                epsilon_delta=guarantee.epsilon_at(delta),
                alone=alone[index],
                shapley=shapley[index],
                team=teams[0],
                reward=results.targets[k][index],
                **results.predictions(k),
            )
        )
    return tuple(choices)


def _with_changes(advice: Advice, situation: Situation, progress: bool | None) -> Advice:
    """Try changes to the round: narrower reaches if they are wide, and the others if joining is not worth it."""

    def tried(change: Change) -> Tried:
        words, changed = change
        ladder = [changed.parties[advice.party].epsilon]
        results = _simulate(changed, ladder, advice.simulations, 0, advice.seed, progress)
        return Tried(words, results.gain(0), results.width(0, REWARD), float(results.quality[0, REWARD]))

    reach = narrow_reaches(situation)
    advice = replace(advice, reach=tried(reach) if reach else None)
    if advice.outcome != "not worth it" or not advice.can_be_worth_it:
        return advice
    changes = [advice.reach] if advice.reach else []
    # The first change is that of reaches.
    changes += [tried(changed) for change in CHANGES[1:] if (changed := change(situation))]
    if len(changes) > 1 and not any(change.is_worthwhile for change in changes):
        changes.append(tried(everything(situation)))
    return replace(advice, changes=tuple(changes))


@dataclass(frozen=True)
class _Results:
    """Results of simulated rounds of one situation.

    Losses and widths are [rounds, choices, predictors], where predictors are the prior, the release alone, the reward,
    the truth, own rows, and own rows with the reward: `PRIOR` to `AT_HOME`.
    """

    stakes: list[TargetInputs]
    targets: list[Targets]
    losses: Floats
    widths: Floats

    @cached_property
    def typical(self) -> Floats:
        """Median losses, because some simulated truths are extreme."""
        return np.asarray(np.median(self.losses, axis=0))

    @cached_property
    def quality(self) -> Floats:
        """Median quality: the share of the possible gain, from the prior's loss to the truth's, that is achieved."""
        worst, best = self.losses[:, :, [PRIOR]], self.losses[:, :, [TRUTH]]
        return np.asarray(np.median((worst - self.losses) / (worst - best), axis=0))

    def gain(self, k: int) -> Estimate:
        """Return the median reduction of the loss by own rows and reward, compared with own rows alone."""
        return _median(self.losses[:, k, OWN_ROWS] - self.losses[:, k, AT_HOME])

    def width(self, k: int, column: int) -> float | None:
        """Return the median width of an interval; None for labels, which have none."""
        median = float(np.median(self.widths[:, k, column]))
        return median if np.isfinite(median) else None

    def predictions(self, k: int) -> dict[str, Any]:
        """Return all fields of a choice that are about predictions."""
        fields: dict[str, Any] = {"gain_at_home": self.gain(k)}
        for name, column in {"alone": ALONE, "reward": REWARD, "own_rows": OWN_ROWS, "at_home": AT_HOME}.items():
            fields[f"loss_{name}"] = float(self.typical[k, column])
            fields[f"quality_{name}"] = float(self.quality[k, column])
            fields[f"width_{name}"] = self.width(k, column)
        return fields


def _simulate(
    situation: Situation, ladder: Sequence[float], simulations: int, sampled: int, seed: int, progress: bool | None
) -> _Results:
    """Simulate rounds at every ε of the asking party; if `sampled` is 0, approximated values are not corrected."""
    agreement, engine = situation.agreement, engine_of(situation.agreement)
    index, weakest = agreement.party_names.index(situation.party), ladder[-1]
    parties = [situation.parties[name] for name in agreement.party_names]
    choices = expected.Choices(index, np.array([1 / epsilon - 1 / weakest for epsilon in ladder]))
    anchors = sorted(set(np.linspace(0, len(ladder) - 1, ANCHORS).round().astype(int).tolist()))

    rng = np.random.default_rng(seed)
    tasks = [
        expected.Task(engine, simulated, expected.plan(len(parties), rng), choices)
        for simulated in imagine(engine, parties, simulations + sampled, rng)
    ]
    rough, normals, at_anchors = _value(tasks, simulations, anchors, seed, progress)
    if sampled:
        corrections = np.array([_between(ladder, anchors, correction) for correction in at_anchors])
    else:
        # Two rows of zeros, because `_stakes` needs two rounds for a covariance.
        corrections = np.zeros((2, *rough.shape[1:]))
    stakes = _stakes(rough, corrections, len(parties))
    targets = [_targets(agreement, stake) for stake in stakes]
    mean = rough.mean(axis=0)
    shares = np.array(
        [
            (_share(stake.alone[index], mean[k, 1 + index]), _share(target.values[index], stake.worth[0]))
            for k, (stake, target) in enumerate(zip(stakes, targets, strict=True))
        ]
    )
    degrade = agreement.reward.mechanism == "degraded"
    losses, widths, evidence = quality.predictions(tasks[:simulations], normals, shares, rng, degrade=degrade)
    at_home, home_widths = home.predictions(tasks[:simulations], evidence, parties[index].rows, seed)
    return _Results(
        stakes, targets, np.concatenate([losses, at_home], axis=2), np.concatenate([widths, home_widths], axis=2)
    )


def _value(
    tasks: Sequence[expected.Task], simulations: int, anchors: Sequence[int], seed: int, progress: bool | None
) -> tuple[Floats, list[Any], Floats]:
    """Value the first rounds by approximation and compute corrections from the others, which take longest, first."""
    work: list[tuple[Any, ...]] = [
        (expected.correction, task, anchors, seed + index) for index, task in enumerate(tasks[simulations:])
    ]
    work += [(expected.by_approximation, task) for task in tasks[:simulations]]
    results: dict[int, Any] = {}
    with phase_of(progress, "imagining rounds", len(work), 1) as tick:
        for index, result in tasks[0].engine.spread(_call, work):
            results[index] = result
            if tick:
                tick(1)
    corrections = len(tasks) - simulations
    rough = [results[corrections + index] for index in range(simulations)]
    return (
        np.array([quantities for quantities, _ in rough]),
        [pairs for _, pairs in rough],
        np.array([results[index] for index in range(corrections)]),
    )


def _surely_pays(gain: Estimate) -> bool:
    return gain.value - UNSURE * gain.error >= WORTH_JOINING


def _can_pay(gain: Estimate) -> bool:
    return gain.value + UNSURE * gain.error >= WORTH_JOINING


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def knee(x: Floats, y: Floats) -> int | None:
    """Return the index where a curve of diminishing returns bends most.

    There the curve is farthest above the chord from its first to its last point. Return None if it is nowhere clearly
    above: then each step gains about as much as the one before, or more.
    """
    if len(x) < 3 or not y[-1] > y[0]:
        return None
    above = (y - y[0]) / (y[-1] - y[0]) - (x - x[0]) / (x[-1] - x[0])
    best = int(np.argmax(above))
    return best if above[best] > CLEARLY else None


def _assumptions(
    agreement: Agreement, party: str, rows: int, others: Mapping[str, tuple[int, float]]
) -> dict[str, Assumed]:
    _check_whole("rows", rows, 1)
    if party in others:
        raise AgreementError(f"{party!r} is the party that asks; state its rows with `rows`, not among the others")
    for name, (count, epsilon) in others.items():
        agreement.party(name)
        _check_whole(f"the number of rows of {name}", count, 1)
        agreement.guarantee(epsilon=epsilon)
    usual = (rows, agreement.privacy.max_epsilon)
    return {name: Assumed(*others.get(name, usual)) for name in agreement.party_names if name != party}


def _stakes(rough: Floats, corrections: Floats, parties: int) -> list[TargetInputs]:
    """Return expected Shapley values, values alone and the value of all at every choice; errors of both levels add."""
    stakes = []
    for k in range(rough.shape[1]):
        mean = rough[:, k].mean(axis=0) + corrections[:, k].mean(axis=0)
        spread = np.cov(rough[:, k].T) / len(rough) + np.cov(corrections[:, k].T) / len(corrections)
        # Inputs begin with Shapley values, then values alone, then that of all; quantities have the reverse order.
        order = [*range(1 + parties, 1 + 2 * parties), *range(1, 1 + parties), 0]
        shapley, alone, whole = np.split(mean[order], [parties, 2 * parties])
        one_team = np.zeros(parties, dtype=np.intp)
        stakes.append(TargetInputs(np.maximum(shapley, 0.0), alone, whole, one_team, spread[np.ix_(order, order)]))
    return stakes


def _targets(agreement: Agreement, stakes: TargetInputs) -> Targets:
    """Return the targets that the mediator would set; it knows values far better than this simulation does."""
    reward = agreement.reward
    degraded, least = reward.mechanism == "degraded", min_contribution_factor(len(agreement.parties))
    terms = TargetPolicy(
        reward.rho, reward.fallback, PRECISION, 2 * PRECISION, own_is_whole=degraded, least=least, rule=reward.rule
    )
    known = replace(stakes, covariance=np.zeros_like(stakes.covariance))
    return set_targets(stakes, terms, contributors(known, terms))


def half_of(width: float | None) -> str:
    """Format half the width of an interval, to be shown after ±; return an empty string if there is no width."""
    return "" if width is None else f"{width / 2:.3g}"


def _median(values: Floats) -> Estimate:
    """Return the median of independent numbers, with a standard error by the bootstrap.

    Some rounds gain or lose far more than others, so the standard deviation says little. Bootstrap samples of few
    numbers are much alike, so the error is at least the one that the quartiles imply for normal numbers.
    """
    resampled = np.random.default_rng(0).choice(values, size=(RESAMPLES, len(values)))
    low, high = np.quantile(values, [0.25, 0.75])
    # The quartiles of a normal distribution are 1.349 standard deviations apart, and √(π/2) is the price of a median.
    usual = math.sqrt(math.pi / 2) * float(high - low) / 1.349 / math.sqrt(len(values))
    return Estimate(float(np.median(values)), max(float(np.std(np.median(resampled, axis=1))), usual))


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 1.0


def _between(ladder: Sequence[float], anchors: Sequence[int], corrections: Floats) -> Floats:
    """Interpolate corrections at the anchors to all choices [choices, quantities], linearly in log ε."""
    logs = np.log(np.asarray(ladder))
    return np.column_stack([np.interp(logs, logs[list(anchors)], column) for column in corrections.T])


def _check_whole(name: str, value: object, least: int) -> None:
    if not is_whole(value, least):
        raise AgreementError(f"{name} = {value!r} must be a whole number, {least} or more")
