"""Decisions compared with a repetition: the same, within errors, or different, whatever errors are stated."""

from dataclasses import replace

import pytest

from equipoise.estimate import Estimate
from equipoise.mediation.decisions import Decisions, compare

A, B, BOTH = frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"})


@pytest.fixture
def repeated() -> Decisions:
    values = {A: Estimate(3.0, 0.02), B: Estimate(4.0, 0.02), BOTH: Estimate(6.0, 0.02)}
    shapley = {"a": Estimate(2.5, 0.02), "b": Estimate(3.5, 0.02)}
    return Decisions(values, shapley, {"a": Estimate(4.5, 0.03), "b": Estimate(6.0, 0.02)}, 0.8, frozenset())


def moved(decisions: Decisions, by: float, error: float = 0.02) -> Decisions:
    """State the value of both, and what follows from it, otherwise."""
    values = {**decisions.values, BOTH: Estimate(6.0 + by, error)}
    shapley = {party: Estimate(one.value + by / 2, error) for party, one in decisions.shapley.items()}
    targets = {party: Estimate(one.value + by, error) for party, one in decisions.targets.items()}
    return replace(decisions, values=values, shapley=shapley, targets=targets)


def test_the_same_and_other_digits(repeated: Decisions) -> None:
    assert compare(repeated, repeated).outcome == "same"
    assert compare(moved(repeated, 0.05), repeated).outcome == "within errors"
    far = compare(moved(repeated, 1.0), repeated)
    assert far.outcome == "different"
    assert "is stated as" in far.words


def test_stated_errors_excuse_nothing(repeated: Decisions) -> None:
    """Whoever makes a value up can make its error up as well."""
    found = compare(moved(repeated, 6.0, error=3.0), repeated)
    assert found.outcome == "different"
    assert "standard errors away" in found.words


def test_values_that_differ_by_next_to_nothing_do_not_excuse_what_follows(repeated: Decisions) -> None:
    nudged = moved(repeated, 1e-8)
    for lie in (
        replace(nudged, nothing=frozenset({"a", "b"})),
        replace(nudged, targets={**nudged.targets, "a": Estimate(6.0, 0.02)}),
        replace(nudged, shapley={**nudged.shapley, "a": Estimate(3.5, 4.0)}),
    ):
        assert compare(lie, repeated).outcome == "different"
    assert compare(nudged, repeated).outcome == "within errors"


def test_what_follows_from_equal_values_must_be_equal(repeated: Decisions) -> None:
    for lie in (
        replace(repeated, rho=0.7),
        replace(repeated, nothing=frozenset({"a"})),
        replace(repeated, targets={**repeated.targets, "a": Estimate(4.51, 0.03)}),
        replace(repeated, shapley={**repeated.shapley, "a": Estimate(2.51, 0.02)}),
    ):
        assert compare(lie, repeated).outcome == "different"


def test_coalitions_that_nobody_else_values_are_a_difference(repeated: Decisions) -> None:
    more = replace(repeated, values={**repeated.values, frozenset({"a", "c"}): Estimate(9.0, 0.02)})
    found = compare(more, repeated)
    assert found.outcome == "different"
    assert "4 coalitions are stated" in found.words


def test_who_hardly_brings_anything_may_count_either_way(repeated: Decisions) -> None:
    """Near the threshold another processor decides otherwise, and everybody's target follows."""
    hardly = replace(repeated, shapley={**repeated.shapley, "a": Estimate(0.06, 0.02)})
    nothing = replace(
        moved(hardly, 1e-4), nothing=frozenset({"a"}), targets={"a": Estimate(0.0, 0.0), "b": Estimate(6.0, 0.02)}
    )
    nothing = replace(nothing, shapley=hardly.shapley)
    assert compare(nothing, hardly).outcome == "within errors"
