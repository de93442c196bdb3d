"""Advice: it agrees with exact answers and with the engine, depends on nothing private, and says what is wrong."""

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import equipoise as eq
import rounds
from equipoise.agreement.templates import example_agreement
from equipoise.errors import AgreementError, GuaranteeError
from equipoise.inference.pooling import Releases
from equipoise.mediation.advice import Advice, Tried, _median, advise, expected, knee, quality
from equipoise.mediation.advice.changes import CHANGES, Situation, everything, narrow_reaches
from equipoise.mediation.advice.engines import engine_of
from equipoise.mediation.advice.imagined import Assumed, Coalition, imagine
from equipoise.mediation.advice.population import draw_correlation, draw_population
from equipoise.mediation.advice.regressions import RegressionEngine, RegressionTruth
from equipoise.models import KINDS
from equipoise.models.base import Rows
from equipoise.models.regression import Regression
from equipoise.valuation.shapley import exact_shapley

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def shares() -> eq.Agreement:
    """A share of a label, uniform before any data: everything can be computed by counting."""
    return rounds.agreement("bernoulli", 2)


@pytest.fixture(scope="module")
def advice(shares: eq.Agreement) -> Advice:
    return advise(shares, party="north", rows=60, epsilons=[0.05, 0.5, 100.0], simulations=60, progress=False)


def mutual_information(rows: int) -> float:
    """Expected surprise of n exact labels under a uniform prior: every count is as probable as every other."""
    found = 0.0
    for positive in range(rows + 1):
        a, b = positive + 1, rows - positive + 1
        found += (
            (a - 1) * special.digamma(a)
            + (b - 1) * special.digamma(b)
            - (a + b - 2) * special.digamma(a + b)
            - special.betaln(a, b)
        ) / (rows + 1)
    return float(found)


def test_with_hardly_any_noise_values_are_those_of_the_rows(advice: Advice) -> None:
    weakest = advice.choices[-1]
    assert weakest.epsilon == 100
    assert abs((weakest.alone.value - mutual_information(60)) / weakest.alone.error) < 4
    assert abs((weakest.team.value - mutual_information(120)) / weakest.team.error) < 4
    assert weakest.alone.error < 0.1


def test_weaker_privacy_is_expected_to_buy_more(advice: Advice) -> None:
    for before, after in itertools.pairwise(advice.choices):
        for name in ("alone", "shapley", "team", "reward"):
            assert getattr(before, name).value < getattr(after, name).value, name
        assert before.epsilon_delta < after.epsilon_delta
        assert before.quality_reward <= after.quality_reward + 0.02
    assert advice.choices[0].quality_alone < advice.choices[0].quality_reward


def test_shares_follow_the_agreement(advice: Advice) -> None:
    """Both parties are alike at the weakest privacy, and the other one is better off at stronger ones."""
    weakest = advice.choices[-1]
    assert weakest.shapley.value == pytest.approx(weakest.team.value / 2, abs=4 * weakest.shapley.error)
    assert weakest.reward.value == pytest.approx(weakest.team.value, abs=6 * weakest.shapley.error)
    for choice in advice.choices:
        assert choice.alone.value - 4 * choice.reward.error <= choice.reward.value <= choice.team.value + 1e-9


@pytest.mark.slow
def test_assumptions_matter_and_are_told(shares: eq.Agreement, advice: Advice) -> None:
    assert advice.others == {"south": Assumed(60, 100.0)}
    poor = advise(
        shares, party="north", rows=60, epsilons=[0.5], others={"south": (5, 0.05)}, simulations=8, progress=False
    )
    assert poor.others == {"south": Assumed(5, 0.05)}
    assert poor.choices[0].team.value < advice.choices[1].team.value - 0.3
    assert poor.knee is None


def test_the_same_seed_gives_the_same_advice(shares: eq.Agreement) -> None:
    first, second, other = (
        advise(shares, party="south", rows=20, epsilons=[1.0], simulations=3, seed=seed, progress=False)
        for seed in (1, 1, 2)
    )
    assert first == second
    assert first.choices[0].team != other.choices[0].team
    assert json.loads(json.dumps(first.to_json()))["choices"][0]["reward"]["value"] == first.choices[0].reward.value


def test_sampling_corrects_the_approximation() -> None:
    """Regression with much noise is where Laplace's approximation is worst; corrected, it is what sampling says."""
    engine, rng = engine_of(rounds.agreement("linear", 2)), np.random.default_rng(2)
    [one] = imagine(engine, [Assumed(300, 100.0)] * 2, 1, rng)
    tau = 1 / 0.02 - 1 / 100
    task = expected.Task(engine, one, expected.plan(2, rng), expected.Choices(0, np.array([tau])))
    [truth] = engine.sample(one, [Coalition(np.array([1.0, 0.0]), np.array([tau, 0.0]))], 99)
    rough, added = float(expected.by_approximation(task)[0][0, 1]), float(expected.correction(task, [0], 7)[0, 1])
    assert abs(rough - truth) > 0.2  # or there would be nothing to correct
    assert rough + added == pytest.approx(truth, abs=0.15)


def test_every_order_gives_shapley_values() -> None:
    rng = np.random.default_rng(0)
    for parties in (1, 2, 3, 4):
        plan = expected.plan(parties, rng)
        size = rng.uniform(1, 3, parties)
        every = [members for n in range(parties) for members in itertools.combinations(range(parties), n + 1)]
        game = {frozenset(members): float(sum(size[list(members)]) ** 1.5) for members in every}
        found = plan.counts @ np.array([game[members] for members in plan.coalitions])
        values = [0.0] + [game[frozenset(k for k in range(parties) if mask >> k & 1)] for mask in range(1, 2**parties)]
        np.testing.assert_allclose(found[1 + parties :], exact_shapley(values).values)
        np.testing.assert_allclose(found[0], values[-1])
        np.testing.assert_allclose(found[1 : 1 + parties], [game[frozenset([k])] for k in range(parties)])


def test_random_orders_average_to_shapley_values() -> None:
    """Airport game with six parties: a runway costs what the largest aeroplane needs."""
    rng = np.random.default_rng(1)
    sizes = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    found = []
    for _ in range(400):
        plan = expected.plan(6, rng)
        worth = [max(sizes[list(members)]) for members in plan.coalitions]
        found.append((plan.counts @ np.array(worth))[7:])
    truth = np.cumsum(1 / np.arange(6, 0, -1.0))
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - truth) < 4 * error + 1e-9)


def test_the_knee_is_where_returns_fall() -> None:
    x = np.arange(6.0)
    assert knee(x, np.array([0, 3, 5.5, 6, 6.2, 6.3])) == 2
    assert knee(x, x) is None
    assert knee(x, x**2) is None
    assert knee(x[:2], x[:2]) is None
    assert knee(x, -x) is None


# Regressions, and of the families one with an interval; `test_advice_cannot_see_a_row` has another.
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in ("linear", "logistic", "gaussian") else pytest.mark.exhaustive)
        for kind in KINDS
        if kind != "bernoulli"
    ],
)
def test_every_model(kind: str) -> None:
    agreed = eq.Agreement.parse(example_agreement(kind, ("north", "south")))
    found = advise(
        agreed,
        party="south",
        rows=150,
        epsilons=[0.003, 1.0],
        others={"north": (50, 0.1)},
        simulations=6,
        progress=False,
    )
    strong, weak = found.choices
    for name in ("alone", "shapley", "team", "reward"):
        assert -4 * getattr(strong, name).error < getattr(strong, name).value < getattr(weak, name).value, name
    assert strong.quality_reward < weak.quality_reward < 1.2
    assert strong.quality_alone < weak.quality_alone < 1.2
    assert found.loss_truth < found.loss_prior
    if kind in ("logistic", "categorical"):
        assert strong.width_reward is found.width_prior is None
        return
    widths = (found.width_truth, weak.width_reward, strong.width_reward, found.width_prior)
    best, better, worse, worst = (np.float64(one or np.nan) for one in widths)
    assert 0.7 * best < better < 1.1 * worse < 1.2 * worst


def test_widths_of_intervals_are_in_the_targets_unit() -> None:
    """Of a normal with known parameters, of counts and of times; where a label is predicted there is none."""
    z = 1.6449
    known = {"weights": np.array([[2.0, 0.5]]), "variance": np.array([0.04])}
    features = np.array([[0.1, 1.0], [0.9, 1.0]])
    assert quality.width(Rows(features, np.zeros(2), 50.0, rounds.agreement("linear").model), known) == pytest.approx(
        2 * z * 10, rel=1e-3
    )
    doubt = {"mean": np.array([-0.3, 0.3]), "variance": np.array([0.16, 0.16])}
    assert quality.width(Rows(None, np.zeros(1), 10.0, rounds.agreement("gaussian").model), doubt) == pytest.approx(
        2 * z * 5, rel=1e-3
    )
    rate = {"rate": np.array([4.0])}
    assert quality.width(Rows(None, np.zeros(1), 1.0, rounds.agreement("poisson").model), rate) == pytest.approx(
        2 * z * 2, rel=1e-3
    )
    assert quality.width(Rows(None, np.zeros(1), 1.0, rounds.agreement("exponential").model), rate) == pytest.approx(
        2 * z / 4, rel=1e-3
    )
    assert np.isnan(
        quality.width(
            Rows(None, np.zeros(1), 1.0, rounds.agreement("bernoulli").model), {"probability": np.array([0.3])}
        )
    )


@pytest.mark.slow
def test_a_party_by_itself() -> None:
    """Whoever settles alone gets back what it released."""
    agreed = rounds.agreement("bernoulli", 1)
    found = advise(agreed, party="north", rows=50, epsilons=[0.1, 1.0], simulations=4, progress=False)
    for choice in found.choices:
        assert choice.alone == choice.shapley == choice.team
        assert choice.reward.value == pytest.approx(choice.alone.value)


def test_mistakes_are_named(shares: eq.Agreement) -> None:
    with pytest.raises(AgreementError, match="'mars' is not a party"):
        advise(shares, party="mars", rows=10)
    with pytest.raises(AgreementError, match="rows = 0 must be a whole number, 1 or more"):
        advise(shares, party="north", rows=0)
    with pytest.raises(AgreementError, match="epsilon = 200 .* above the agreed maximum 100"):
        advise(shares, party="north", rows=10, epsilons=[200.0])
    with pytest.raises(GuaranteeError, match="epsilon must be a positive number, not 0"):
        advise(shares, party="north", rows=10, epsilons=[0.0])
    with pytest.raises(AgreementError, match="'north' is the party that asks"):
        advise(shares, party="north", rows=10, others={"north": (10, 1.0)})
    with pytest.raises(AgreementError, match="number of rows of south = -1"):
        advise(shares, party="north", rows=10, others={"south": (-1, 1.0)})


def test_own_rows_are_the_yardstick(advice: Advice) -> None:
    """They do not depend on ε, tell more than their noised sum, and less than they do with a reward, on average."""
    assert len({one.loss_own_rows for one in advice.choices}) == 1
    strongest, *_, weakest = advice.choices
    assert strongest.loss_own_rows < strongest.loss_alone - 0.01
    assert weakest.loss_own_rows == pytest.approx(weakest.loss_alone, abs=0.005)
    assert all(one.loss_at_home < one.loss_own_rows + 0.003 for one in advice.choices)
    assert not advice.is_worthwhile
    assert advice.verdict.startswith("not worth it")
    assert "Not worth it" in repr(advice)


def test_who_has_few_rows_is_told_that_it_pays(shares: eq.Agreement) -> None:
    few = advise(
        shares, party="north", rows=4, epsilons=[1.0, 100.0], others={"south": (2_000, 100.0)}, simulations=100,
        progress=False,
    )  # fmt: skip
    assert few.is_worthwhile
    assert few.verdict.startswith("worth it")
    assert max(one.gain_at_home.value for one in few.choices) > 0.02


@pytest.mark.parametrize(
    ("gains", "outcome"),
    [
        ([(0.01, 1.4)], "cannot tell at this effort"),
        ([(0.03, 0.005), (0.0, 0.0)], "worth it"),
        ([(0.03, 0.011)], "cannot tell at this effort"),
        ([(0.001, 0.001), (-0.5, 0.2)], "not worth it"),
        ([(0.001, 0.001), (-0.5, 0.4)], "cannot tell at this effort"),
    ],
)
def test_the_verdict_knows_its_errors(advice: Advice, gains: list[tuple[float, float]], outcome: str) -> None:
    """Version 0.14 said "worth it" of a gain of 0.01 nats under errors of 1.4."""
    choices = [replace(advice.choices[0], gain_at_home=eq.Estimate(*gain)) for gain in gains]
    told = replace(advice, choices=tuple(choices))
    assert told.outcome == outcome
    assert told.verdict.startswith(outcome)
    assert told.is_worthwhile == (outcome == "worth it")
    assert str(eq.Estimate(*max(gains))) in told.verdict


def test_errors_of_gains_cover_the_median() -> None:
    """Gains with heavy tails, as those of imagined rounds have."""
    rng = np.random.default_rng(7)
    for number, least in ((4, 0.8), (16, 0.9), (64, 0.9)):
        estimates = [_median(0.1 + rng.standard_t(2, size=number)) for _ in range(400)]
        assert np.mean([abs(one.value - 0.1) <= 2 * one.error for one in estimates]) > least


WIDE = """
format = 2
[model]
kind = "linear"
features = [
  { name = "age", bounds = [0, 1000], typical = [25, 85] },
  { name = "sex", kind = "binary", labels = [0, 1] },
]
target = { name = "cost", bounds = [0, 5000], typical = [0, 400] }
[privacy]
max_epsilon = 2.0
max_rows = 5_000
[[parties]]
name = "north"
[[parties]]
name = "south"
"""


def changes_of(now: Situation) -> dict[str, Situation]:
    made = [change(now) for change in CHANGES]
    return dict(one for one in made if one is not None)


def test_changes_are_what_they_say() -> None:
    """Each changes one thing of the agreement or of the parties, and only where there is something to change."""
    agreed = eq.Agreement.parse(WIDE)
    now = Situation("north", agreed, {"north": Assumed(100, 1.0), "south": Assumed(300, 2.0)})
    found = changes_of(now)
    narrowed, released, shared, larger = found.values()
    assert [column.scaled_range for column in (agreed.columns[0], agreed.columns[2])] == [(0, 1000), (0, 5000)]  # type: ignore[union-attr]
    assert [column.reach for column in (narrowed.agreement.columns[0], narrowed.agreement.columns[2])] == [  # type: ignore[union-attr]
        (25, 85),
        (0, 400),
    ]
    assert {one.epsilon for one in released.parties.values()} == {2.0}
    assert (shared.agreement.reward.rule, shared.agreement.reward.rho) == ("surplus", 0.1)
    assert larger.parties == {"north": Assumed(100, 1.0), "south": Assumed(1_200, 2.0)}
    what, every = everything(now)
    assert what == ", ".join(found)
    assert {one.epsilon for one in every.parties.values()} == {2.0}
    assert every.parties["south"].rows == 1_200
    assert narrow_reaches(every) is None
    crowded = now._replace(parties={**now.parties, "south": Assumed(4_000, 2.0)})
    more = changes_of(crowded)["2 times as many others"]  # since their tables cannot be larger
    assert "others with 4 times as many rows" not in changes_of(crowded)
    assert more.agreement.party_names == tuple(more.parties) == ("north", "south", "south.2")
    alone = Situation("north", rounds.agreement("bernoulli", 1), {"north": Assumed(100, 100.0)})
    assert not changes_of(alone)


def test_a_reach_of_the_typical_range_is_reckoned() -> None:
    found = advise(eq.Agreement.parse(WIDE), party="north", rows=60, epsilons=[2.0], simulations=4, progress=False)
    assert found.reach is not None
    assert found.reach.what == "a reach of the typical range for age, cost"
    assert found.choices[0].width_reward is not None
    assert found.reach.width_reward is not None
    assert found.reach.width_reward < 0.8 * found.choices[0].width_reward
    assert "of cost in place of" in found.remedies[0]
    assert found.remedies[0][1:] in repr(found)


def test_what_would_have_to_change_is_said(advice: Advice) -> None:
    """Only where joining is not worth it: those changes that would do, or else the best; and where none could."""
    choice = replace(advice.choices[0], gain_at_home=eq.Estimate(0.002, 0.001))
    told = replace(advice, choices=(choice,), room=eq.Estimate(0.05, 0.01), reach=None)
    little, more, much = (Tried(str(one), eq.Estimate(one, 0.001), None, 0.5) for one in (0.003, 0.02, 0.04))
    [sentence] = replace(told, changes=(little, more, much)).remedies
    assert sentence == f"it would be worth it with {more}; or with {much}"
    [sentence] = replace(told, changes=(little,)).remedies
    assert sentence == f"nothing that was tried would surely make it worth it; best is {little}"
    [sentence] = replace(told, room=eq.Estimate(0.004, 0.001)).remedies
    assert sentence.startswith("nothing that others bring could change that")
    assert not replace(told, choices=(replace(choice, gain_at_home=eq.Estimate(0.03, 0.001)),)).remedies


SCORES = ", ".join(f'{{ name = "{name}", bounds = [0, 4], typical = [0, 4] }}' for name in "abcde")
LEVELS = """
  { name = "age", bounds = [18, 100] },
  { name = "region", kind = "category", levels = ["a", "b", "c"] },
  { name = "bmi", bounds = [15, 60], typical = [18, 40], missing = "indicator" },
"""
CONJUGATE = 'prior.kind = "conjugate"'


def agree(kind: str, features: str, more: str = "") -> eq.Agreement:
    target = "bounds = [0, 100], typical = [5, 95]" if kind == "linear" else 'labels = ["no", "yes"]'
    target = "bounds = [0, 100]" if more == CONJUGATE and kind == "linear" else target
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\nfeatures = [{features}]\ntarget = {{ name = "y", {target} }}\n{more}\n'
        '[privacy]\nmax_epsilon = 4\n[[parties]]\nname = "north"\n[[parties]]\nname = "south"\n'
    )


def regression_of(agreement: eq.Agreement) -> Regression:
    assert isinstance(agreement.model, Regression)
    return agreement.model


def test_imagined_rows_can_lie_within_the_bounds() -> None:
    """Where columns are used from end to end, the prior's means reach far beyond; no row could be there."""
    truths = engine_of(agree("linear", SCORES)).draw_truths(50, np.random.default_rng(1))
    means = []
    for truth in truths:
        rows = truth.draw_rows(1_000, np.random.default_rng(2))
        assert rows.features is not None
        assert np.max(np.abs(rows.features)) <= 1
        assert np.mean(np.abs(rows.target) > 1) < 0.1
        means.append(rows.features[:, :-1].mean(axis=0))
    assert np.std(means) > 0.3  # and still differ


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_imagined_sums_are_those_of_rows(kind: str) -> None:
    """Of few parties' rows, and of more rows than are simulated: means over rows agree with integrals by name."""
    rng = np.random.default_rng(3)
    agreed = agree(kind, LEVELS)
    [truth] = engine_of(agreed).draw_truths(1, rng)
    assert isinstance(truth, RegressionTruth)
    rows = truth.draw_rows(200_000, rng)
    assert rows.features is not None
    columns = dict(zip(["age", "region=b", "region=c", "bmi", "bmi missing"], rows.features.T, strict=False))
    columns["y"] = np.clip(rows.target, -1, 1)
    for number in (15_000, 400_000):
        found = truth.add_up(number, rng) / number
        for entry, value in zip(agreed.model.layout.entries, found, strict=True):
            product = np.prod([columns[name] for name in entry.name.split(" × ")], axis=0)
            error = np.std(product) * np.sqrt(1 / min(number, 20_000) + 1 / 200_000)
            assert value == pytest.approx(product.mean(), abs=5 * error + 1e-9), entry.name
    assert np.all(columns["bmi"][columns["bmi missing"] == 1] == 0)
    assert np.all(columns["region=b"] + columns["region=c"] <= 1)


def test_populations_are_as_agreed() -> None:
    """Parameters have the agreed prior, effects of one deviation of a feature too, and the target's level as well."""
    model = regression_of(agree("logistic", '{ name = "x", bounds = [-1, 1], typical = [-0.2, 0.2] }'))
    rng = np.random.default_rng(4)
    drawn = [draw_population(model, rng) for _ in range(4_000)]
    weights = np.array([draws["weights"][0] for draws, _ in drawn])
    deviations = np.array([population.deviation[0] for _, population in drawn])
    means = np.array([population.mean[0] for _, population in drawn])
    effect = 1.25 / np.sqrt((np.exp(2) - 1) / 2)
    coordinates = model.weight_coordinates(weights, None)
    standard = {
        "weight": coordinates[:, 0],
        "bias": coordinates[:, 1],
        "effect": np.arcsinh(weights[:, 0] * deviations / effect),
        "deviation": np.log(deviations / 0.1) / 0.5,
        "mean": means / 0.2,
        "level": (weights[:, 1] + weights[:, 0] * means) / 2,
    }
    for name, values in standard.items():
        assert stats.kstest(values, "norm").pvalue > 1e-3, name
    assert abs(np.corrcoef(standard["effect"], standard["deviation"])[0, 1]) < 0.06


def test_correlations_are_as_agreed() -> None:
    """Each of an LKJ distribution's is 2 Beta(η + (d − 2)/2) − 1."""
    rng = np.random.default_rng(5)
    roots = np.array([draw_correlation(4, 2.0, rng) for _ in range(4_000)])
    correlations = roots @ roots.transpose(0, 2, 1)
    np.testing.assert_allclose(np.diagonal(correlations, axis1=1, axis2=2), 1.0)
    for i, j in itertools.combinations(range(4), 2):
        assert stats.kstest((correlations[:, i, j] + 1) / 2, stats.beta(3, 3).cdf).pvalue > 1e-3


def test_conjugate_features_are_as_agreed() -> None:
    """Their covariance is a quarter of the squared half width in expectation, and means differ with it."""
    model = regression_of(agree("linear", SCORES.replace(", typical = [0, 4]", ""), CONJUGATE))
    rng = np.random.default_rng(6)
    drawn = [draw_population(model, rng)[1] for _ in range(4_000)]
    scales = np.array([one.deviation[:, None] * one.root for one in drawn])
    np.testing.assert_allclose((scales @ scales.transpose(0, 2, 1)).mean(axis=0), 0.25 * np.eye(5), atol=0.03)
    white = np.array([np.linalg.solve(scale, one.mean) for scale, one in zip(scales, drawn, strict=True)])
    is_inside = np.all([np.abs(one.mean) < 1 for one in drawn], axis=1)
    assert 0.7 < white[is_inside].std() < 1  # those within the bounds are smaller


@pytest.mark.parametrize(
    ("kind", "features", "more"),
    [
        ("linear", LEVELS, ""),
        ("logistic", LEVELS, ""),
        ("linear", SCORES.replace(", typical = [0, 4]", ""), CONJUGATE),
        ("logistic", SCORES.replace(", typical = [0, 4]", ""), CONJUGATE),
        ("linear", SCORES, "norm_bound = 1.5"),
    ],
)
def test_imagined_rounds_tell_their_truth(kind: str, features: str, more: str) -> None:
    """Posteriors of large parties without much noise lie about the truth, as far as they say that they do."""
    agreed = agree(kind, features, more)
    engine, rng = engine_of(agreed), np.random.default_rng(7)
    distances = []
    for one in imagine(engine, [Assumed(3_000, 4.0)] * 2, 12, rng):
        [normal] = engine.approximate(one, [Coalition(np.ones(2), np.zeros(2))])
        true, variance = one.truth.draws["weights"], one.truth.draws.get("variance")
        assert isinstance(engine, RegressionEngine)
        residual = None
        if variance is not None:
            # The residual's coordinate is found by bisection of what `at_coordinates` makes of it.
            grid = np.column_stack([np.linspace(-6, 6, 4_001), np.zeros((4_001, engine.dimension - 1))])
            place = np.argmin(np.abs(np.log(engine.model.at_coordinates(grid)["variance"] / variance)))
            residual = grid[[place], 0]
        away = regression_of(agreed).weight_coordinates(true, residual)[0] - normal.mean
        distances.append(away @ (np.eye(len(away)) + normal.information) @ away / len(away))
    assert 0.4 < np.median(distances) < 2.0


@pytest.mark.parametrize("features", [LEVELS, LEVELS.replace(', missing = "indicator"', "")])
def test_truths_are_as_probable_as_what_is_found(features: str) -> None:
    """Of labels and levels, where searches for a mode can stick, and gaps make distributions of numbers uneven."""
    agreed = agree("logistic", features)
    engine, rng = engine_of(agreed), np.random.default_rng(7)
    assert isinstance(engine, RegressionEngine)
    for one in imagine(engine, [Assumed(3_000, 4.0)] * 2, 22, rng):
        order = engine.sampler.order
        releases = Releases(one.sums.statistic[:, order], one.sums.rows, np.ones(2), one.sums.variance[0][order])
        problem, mode = engine.sampler.build_problem(releases)
        truth = regression_of(agreed).weight_coordinates(one.truth.draws["weights"], None)[0]
        true, found = problem.log_posterior(np.stack([truth, mode.centre]))
        assert found - 40 < true < found + 1


@pytest.mark.slow
def test_many_combinations_of_levels_have_advice() -> None:
    """Sixty-four of them, which no mixture has to hold any more."""
    features = ", ".join(f'{{ name = "x{k}", kind = "binary", labels = ["no", "yes"] }}' for k in range(6))
    found = advise(
        agree("logistic", features), party="north", rows=400, epsilons=[0.1, 4.0], simulations=4, progress=False
    )
    strong, weak = found.choices
    assert strong.alone.value < weak.alone.value
    assert strong.quality_reward < weak.quality_reward < 1.1


def test_a_degraded_likelihood_is_that_of_less_data() -> None:
    """Its pull has mean and covariance of a likelihood with a share κ of the information, whatever the truth."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(3, 3))
    information, truth, kappa = root @ root.T, rng.normal(size=3), 0.3
    pulls = np.array(
        [
            expected.Pull(information @ truth + root @ drawn, information).degraded(kappa, noise).towards
            for drawn, noise in rng.normal(size=(20_000, 2, 3))
        ]
    )
    np.testing.assert_allclose(pulls.mean(axis=0), kappa * information @ truth, atol=0.1)
    np.testing.assert_allclose(np.cov(pulls.T), kappa * information, atol=0.1)


def test_degraded_rewards_have_advice_of_their_own(shares: eq.Agreement, advice: Advice) -> None:
    options: dict[str, Any] = {"party": "north", "simulations": 60, "progress": False}
    others = {"south": (2_000, 100.0)}
    strict = rounds.agreement("bernoulli", 2, reward='mechanism = "degraded"\nrho = 1.0')
    [alone] = advise(strict, rows=60, epsilons=[0.05], others=others, **options).choices
    assert alone.reward.value >= alone.alone.value  # its share would be less
    assert alone.gain_at_home.value < 1e-3  # next to nothing of the others' is in it, whatever is imagined
    kind = rounds.agreement("bernoulli", 2, reward='mechanism = "degraded"\nrho = 0.1')
    [shared] = advise(kind, rows=4, epsilons=[100.0], others=others, **options).choices
    assert shared.gain_at_home.value > 0.02
    as_agreed = advise(shares, rows=60, epsilons=[0.05, 0.5, 100.0], **options)
    assert as_agreed.choices == advice.choices  # which are tempered


@pytest.mark.slow
@pytest.mark.process
def test_advice_cannot_see_a_row(tmp_path: Path) -> None:
    """The code that reads tables is never even loaded."""
    code = (
        "import sys\nfrom equipoise.mediation.advice import advise\nfrom equipoise.agreement import Agreement\n"
        "from equipoise.agreement.templates import example_agreement\n"
        "advise(Agreement.parse(example_agreement('poisson')), party='north', rows=9, epsilons=[1.0], simulations=2)\n"
        "assert not [name for name in sys.modules if name.startswith('equipoise.party')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
