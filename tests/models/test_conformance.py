"""What every kind of model must keep to: a kind that is added is checked by being in the registry.

Each kind is looked at by the example that `equipoise agreement new` writes for it.
"""

import functools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from equipoise.agreement import Agreement
from equipoise.agreement.explanation import explain
from equipoise.agreement.templates import example_agreement
from equipoise.inference.infer import infer_exact
from equipoise.inference.released import family_of
from equipoise.mediation.other_priors import widened
from equipoise.models import KINDS, CodedColumn, Layout, ScaledColumn
from equipoise.models.base import Family, Rows
from equipoise.models.regression import Regression
from equipoise.party.ledger import domains_of
from equipoise.party.statistics import exact_statistic
from equipoise.reward.scoring import loss_on, scaled_rows

Floats = NDArray[np.float64]

TRUTHS = 20
ROWS = 400

# Of the examples, as they were before there was a registry: a kind's section must not change its meaning.
IDENTITIES = {
    "linear": "28146d00c0ae02b720f8ee9c067d8249a68eb1a3c2abd733ec0e6dbb6bb42017",
    "logistic": "2873b8357eb1cc3032ceb3ad9cd19f5669e2f3acc293c739a804eb686aa786ab",
    "bernoulli": "8af1697012fa7669ee75eebf2ad737c368ee67ebec83a5adcea6715a3145d61f",
    "categorical": "5b05a87819ccab12384e5280f9f7c5b56bb7128fcfe31dc1d31fd3717d620fb1",
    "poisson": "693a46b7dbd4ff8db9c308283a559f54424b2f016b1713e00ebebe48c7672e01",
    "exponential": "545aa06e20962fb776e2664774506dcf848cf9ecbe2d55ab90963e342c765932",
    "gaussian": "d162e15e3eb502a05d7eebd4f4bee4ffc8895c6e6c4e42d342a822df8307e918",
}

every_kind = pytest.mark.parametrize("kind", KINDS)


@functools.cache
def agreed(kind: str) -> Agreement:
    """The kind's own example."""
    return Agreement.parse(example_agreement(kind))


@functools.cache
def truths(kind: str) -> tuple[Floats, dict[str, Floats]]:
    """Coordinates and parameters not far from the middle of the prior, where rows seldom need clipping."""
    model = agreed(kind).model
    coordinates = 0.3 * np.random.default_rng(7).normal(size=(TRUTHS, len(model.coordinate_names())))
    return coordinates, model.at_coordinates(coordinates)


def one_truth(kind: str, place: int) -> dict[str, Floats]:
    """A single draw, as rounds that are imagined have it."""
    return {name: values[place : place + 1] for name, values in truths(kind)[1].items()}


def imagine(kind: str, place: int, number: int, rng: np.random.Generator) -> Rows:
    """Rows of one truth, as rounds that are imagined have them."""
    model, truth = agreed(kind).model, one_truth(kind, place)
    if isinstance(model, Regression):
        terms = np.clip(0.3 * rng.normal(size=(number, len(model.coding.terms))), -1.0, 1.0)
        return model.imagine(truth, np.column_stack([terms, np.ones(number)]), rng)
    assert isinstance(model, Family)
    return model.imagine(truth, number, rng)


def own_features(rows: Rows) -> Floats | None:
    """Features of imagined rows in the columns' own units."""
    if rows.features is None:
        return None
    columns = zip(rows.features.T, rows.model.layout.columns[:-1], strict=False)
    return np.column_stack([one.middle + one.half_width * values for values, one in columns])  # type: ignore[union-attr]


def table_of(kind: str, place: int, number: int) -> dict[str, Any]:
    """Rows of one truth as a party has them."""
    model, truth = agreed(kind).model, one_truth(kind, place)
    features = own_features(imagine(kind, place, number, np.random.default_rng(place)))
    target = model.simulate(truth, features, number, np.random.default_rng([place, 1]))[0]
    columns = {} if features is None else {c.name: x for c, x in zip(model.columns, features.T, strict=False)}
    return {**columns, model.target.name: target.tolist()}


def random_rows(layout: Layout, number: int, rng: np.random.Generator) -> dict[str, Any]:
    """Rows that often lie at the ends of what is agreed."""
    table: dict[str, Any] = {}
    for column in layout.columns:
        if isinstance(column, CodedColumn):
            table[column.name] = [column.labels[k] for k in rng.integers(len(column.labels), size=number)]
        elif isinstance(column, ScaledColumn):
            values = column.middle + column.half_width * np.clip(2 * rng.normal(size=number), -1, 1)
            table[column.name] = np.round(values) if column.whole else values
    return table


# As version 0.9 wrote examples: format 2, bounds alone, and the proportional rule.
FORMER_TEXT = {"format = 3": "format = 2", 'rule = "surplus"': "", "rho = 0.5": 'rho = "max"'} | {
    f"typical = {typical}, ": "" for typical in ("[25, 85]", "[18, 40]", "[65, 120]", "[20, 320]", "[65, 200]")
}


@pytest.mark.parametrize("kind", IDENTITIES)
def test_examples_are_what_they_were(kind: str) -> None:
    text = example_agreement(kind)
    as_before = text.replace('mechanism = "degraded"', 'mechanism = "tempering"').replace("max_rows = 100_000", "")
    assert as_before.count("\n") == text.count("\n")
    for now, before in FORMER_TEXT.items():
        as_before = as_before.replace(now, before)
    assert Agreement.parse(as_before).identity == IDENTITIES[kind]


@every_kind
def test_a_section_is_read_and_written_as_the_same_thing(kind: str) -> None:
    one = agreed(kind)
    assert isinstance(one.model, KINDS[kind])
    others = [one, widened(one, 2.0), widened(one, 0.5)]
    for other in others:
        again = Agreement.model_validate_json(other.model_dump_json())
        assert (again, again.identity) == (other, other.identity)
    assert len({other.identity for other in others}) == 3
    assert one.columns[-1] is one.model.target
    assert set(domains_of(one)) >= {column.name for column in one.columns}


@every_kind
def test_neighbours_differ_by_the_sensitivity_at_most(kind: str) -> None:
    layout = agreed(kind).model.layout
    assert isinstance(layout.sensitivity, int)
    assert len({entry.name for entry in layout.entries}) == len(layout)
    rng = np.random.default_rng(3)
    released = [exact_statistic(layout, random_rows(layout, 1, rng), threads=1).values for _ in range(30)]
    for one in released:
        assert all(isinstance(value, int) for value in one)
        for value, steps, (low, high) in zip(one, layout.steps_per_unit, layout.row_limits, strict=True):
            assert low * steps <= value <= high * steps
        for other in released:
            assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) <= layout.sensitivity**2


@every_kind
def test_all_is_put_in_words(kind: str) -> None:
    model = agreed(kind).model
    told = [model.purpose, *model.beliefs(), *model.coordinate_names(), *model.reading()]
    told += [text for axis in model.axes() for text in (axis.unit, *(one.label for one in axis.parameters))]
    assert all(text and text.strip() == text for text in told)
    assert model.target.name in model.purpose
    assert set(model.beliefs()) < set(explain(agreed(kind)).sentences)
    assert sorted(one.name for axis in model.axes() for one in axis.parameters) == sorted(model.readable_names)


@every_kind
def test_draws_are_as_stated(kind: str) -> None:
    model, draws = agreed(kind).model, truths(kind)[1]
    for name, support in model.parameters.items():
        assert draws[name].shape == (TRUTHS, *support.shape)
        assert np.all((draws[name] >= support.lower) & (draws[name] <= support.upper))
    own = model.own_units({name: draws[name] for name in model.parameters})  # all that a reward has
    assert tuple(own) == model.readable_names
    assert all(values.shape == (TRUTHS,) and np.all(np.isfinite(values)) for values in own.values())


@functools.cache
def conjugate(kind: str) -> Agreement:
    """The kind's example with the paper's prior, which only regressions have besides their own."""
    text = example_agreement(kind)
    head, tail = text.split("[model.prior]")
    rest = "[privacy]" + tail.split("[privacy]")[1]
    return Agreement.parse(head + '[model.prior]\nkind = "conjugate"\n' + rest)


@pytest.mark.parametrize("kind", [*KINDS, "linear conjugate", "logistic conjugate"])
def test_beliefs_in_words_are_those_of_the_sampler(kind: str) -> None:
    """Two ways to draw from the prior agree: directly, and from normal coordinates as samplers do."""
    name, _, prior_kind = kind.partition(" ")
    agreement = conjugate(name) if prior_kind else agreed(name)
    model = agreement.model
    said = model.prior_draws(40_000, np.random.default_rng(5))
    if said is None:
        assert model.prior.model_dump().get("kind") == "standardised"
        return
    positions = np.random.default_rng(6).normal(size=(40_000, len(model.coordinate_names())))
    ours, theirs = model.own_units(said), model.own_units(model.at_coordinates(positions))
    for parameter in model.readable_names:
        for level in (0.05, 0.25, 0.5, 0.75, 0.95):
            share = np.mean(theirs[parameter] <= np.quantile(ours[parameter], level))
            assert abs(share - level) < 5 * math.sqrt(2 * level * (1 - level) / 40_000)
    assert "nine times out of ten" in " ".join(model.beliefs())


@every_kind
def test_an_error_is_least_where_predictions_are_of_the_truth(kind: str) -> None:
    model, draws = agreed(kind).model, truths(kind)[1]
    features = None
    if isinstance(model, Regression):
        terms = np.random.default_rng(1).uniform(-1, 1, (50, len(model.coding.terms)))
        features = np.column_stack([terms, np.ones(50)])
    truth, other = ({name: values[half] for name, values in draws.items()} for half in (slice(0, 10), slice(10, 20)))
    own, others = (model.expected_error(known, truth, features) for known in (truth, other))
    assert 0 < own <= others * 1.1  # clipping to bounds may favour another mean by a little
    assert math.isfinite(others)
    assert model.target.name in model.error_name or "share" in model.error_name


@every_kind
def test_units_go_both_ways(kind: str) -> None:
    """New observations in own units score, once scaled, as rows that were scaled all along."""
    model, truth = agreed(kind).model, one_truth(kind, 0)
    imagined = imagine(kind, 0, ROWS, np.random.default_rng(1))
    features = own_features(imagined)
    new = model.simulate(truth, features, ROWS, np.random.default_rng(2))
    assert new.shape == (1, ROWS)
    rows = scaled_rows(agreed(kind), features, new[0])
    assert rows.unit == imagined.unit
    one, other = loss_on(imagined, truth), loss_on(rows, truth)
    assert abs(one.value - other.value) < 5 * math.hypot(one.error, other.error) + 1e-9


@every_kind
def test_the_truth_predicts_best(kind: str) -> None:
    gains = []
    for place in range(TRUTHS):
        rows = imagine(kind, place, 100, np.random.default_rng(place))
        assert rows.target.shape == (100,)
        another = one_truth(kind, (place + 1) % TRUTHS)
        gains.append(loss_on(rows, another).value - loss_on(rows, one_truth(kind, place)).value)
    assert np.mean(gains) > 0


@every_kind
def test_predictions_have_the_shape_of_rows(kind: str) -> None:
    model, draws = agreed(kind).model, truths(kind)[1]
    rows = own_features(imagine(kind, 0, 7, np.random.default_rng(1)))
    assert bool(model.score_name) == (model.estimator_type != "density_estimator") == (rows is not None)
    if rows is None:
        assert model.columns == (model.target,)
    elif model.estimator_type == "regressor":
        assert model.expected_target(draws, rows).shape == (7,)
        between = model.target_interval(draws, rows, [0.05, 0.95])
        assert np.all(between[:, 0] < between[:, 1])
    else:
        assert len(model.class_labels()) == 2
        found = np.concatenate(list(model.positive_probabilities(draws, rows)))
        assert found.shape == (7, TRUTHS)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("linear", "logistic")])
def test_moments_are_those_of_simulated_rows(kind: str) -> None:
    model = agreed(kind).model
    mean, covariance = family_of(model).row_moments(truths(kind)[1])
    assert mean.shape == (TRUTHS, len(model.layout))
    assert covariance.shape == (TRUTHS, len(model.layout), len(model.layout))
    found = []
    for place in range(TRUTHS):
        values = exact_statistic(model.layout, table_of(kind, place, ROWS), threads=1).values
        per_row = np.array(values) / np.array(model.layout.steps_per_unit) / ROWS
        deviation = np.sqrt(np.diag(covariance[place]) / ROWS)
        found.append((per_row - mean[place]) / (deviation + 1e-4))  # cells are rounded to a grid of 2⁻¹⁶
    assert np.max(np.abs(found)) < 6
    assert np.std(found) < 1.3


@pytest.mark.statistical
@every_kind
def test_exact_statistics_have_a_posterior_near_the_truth(kind: str) -> None:
    model = agreed(kind).model
    values = exact_statistic(model.layout, table_of(kind, 0, 4_000), threads=1).values
    exact = np.array(values) / np.array(model.layout.steps_per_unit)
    posterior = infer_exact(agreed(kind), {agreed(kind).party_names[0]: (4_000, exact.tolist())}, draws=500)
    own, true = model.own_units(posterior.draws), model.own_units(one_truth(kind, 0))
    for name, drawn in own.items():  # conjugate updates do not know of clipping
        assert abs(drawn.mean() - true[name][0]) < 6 * drawn.std() + 0.5 * abs(true[name][0]), name
