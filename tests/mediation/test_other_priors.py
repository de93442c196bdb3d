"""Had the prior been another: the same releases under beliefs half and twice as wide."""

from pathlib import Path

import numpy as np
import pytest

import builders
import equipoise as eq
import rounds
from equipoise.agreement.templates import example_agreement
from equipoise.inference.infer import infer
from equipoise.mediation.other_priors import AGREED, other_priors, widened
from equipoise.models import KINDS
from equipoise.report import write_report
from equipoise.valuation.surprise import surprise


@pytest.mark.engine
@pytest.mark.group("rounds")
def test_a_round_under_other_priors(tmp_path: Path) -> None:
    """Wider beliefs leave more to learn; the section is in the operator's report, and nothing is computed twice."""
    agreed = rounds.agreement("bernoulli")
    sent = rounds.submissions(agreed, tmp_path, (8.0, 2.0, 0.5))
    settlement = eq.mediate(agreed, sent, seed=0, draws=1_200, precision=0.2, processes=1, progress=False)
    found = other_priors(settlement, sent, folder=tmp_path, processes=1, progress=False)
    assert list(found) == [AGREED, "half as wide", "twice as wide"]
    assert found[AGREED].targets["south"] == settlement.awards["south"].target
    assert all(set(one.order) == set(agreed.party_names) for one in found.values())
    assert found["half as wide"].team.value < found["twice as wide"].team.value
    # Against the same posterior asked for in another way: releases under an agreement that has the other prior.
    narrow = widened(agreed, 0.5)
    again = rounds.submissions(narrow, tmp_path / "narrow", (8.0, 2.0, 0.5))
    value = surprise(narrow, infer(narrow, again, draws=1_200, progress=False))
    difference = found["half as wide"].team - value
    assert abs(difference.z_score) < 4
    lines = [path.read_text() for path in sorted(tmp_path.glob("other-priors-*.jsonl"))]
    assert other_priors(settlement, sent, folder=tmp_path, processes=1, progress=False) == found
    assert [path.read_text() for path in sorted(tmp_path.glob("other-priors-*.jsonl"))] == lines
    write_report(settlement, tmp_path / "out" / "report.html", priors=found)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Had the prior been another" in page
    same = len({one.order for one in found.values()}) == 1
    assert ("The order of the parties stays the same." in page) == same
    with pytest.raises(eq.MediationError, match="not the submissions that were settled"):
        other_priors(settlement, sent[:2])


@pytest.mark.engine
@pytest.mark.parametrize("kind", KINDS)
def test_every_prior_can_be_widened(kind: str) -> None:
    agreed = eq.Agreement.parse(example_agreement(kind))
    for width in (0.5, 2.0):
        other = widened(agreed, width)
        assert other.identity != agreed.identity
        assert other.columns == agreed.columns
        assert other.model.at_coordinates(np.zeros((1, len(other.model.coordinate_names()))))
    assert widened(agreed, 1.0).model.prior.model_dump(exclude={"effect"}) == agreed.model.prior.model_dump(
        exclude={"effect"}
    )


@pytest.mark.engine
def test_a_conjugate_prior_is_widened_by_its_precision() -> None:
    agreed = builders.linear(2)
    usual, wide = (one.model.weight_precision for one in (agreed, widened(agreed, 2.0)))  # type: ignore[attr-defined]
    np.testing.assert_allclose(wide, usual / 4)
