"""`eq.infer(method="moments")`: what it gives, refuses and agrees with."""

from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import equipoise as eq
from equipoise.agreement.templates import example_agreement
from equipoise.errors import InferenceError
from equipoise.models.columns import LabelColumn
from regressions import agree, release_tables
from rounds import seeded

pytestmark = [pytest.mark.engine, pytest.mark.statistical]

WEIGHTS = np.array([0.3, -0.2, 0.25, 0.15, -0.1, 0.05])
NUMBERS = '{ name = "age", bounds = [-1, 1] }, { name = "bmi", bounds = [-1, 1] }'


def release(agreed: eq.Agreement, kind: str, folder: Path) -> list[eq.Submission]:
    """Release rows of two parties."""
    return release_tables(agreed, kind, WEIGHTS if kind == "linear" else 5 * WEIGHTS, folder)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_scenarios_are_sampled_side_by_side(kind: str, tmp_path: Path) -> None:
    agreed = agree(kind)
    sent = release(agreed, kind, tmp_path)
    asked = [
        eq.Scenario(),
        eq.Scenario(["north"]),
        eq.Scenario(kappa=0.2),
        eq.Scenario(kappa=0),
        eq.Scenario(tau={"south": 3.0}),
    ]
    whole, north, tempered, prior, noisier = eq.infer_batch(agreed, sent, asked, method="moments", draws=2_000)
    values = [eq.surprise(agreed, one) for one in (whole, noisier, tempered, prior)]
    assert all(one.converged for one in (whole, north, tempered, prior, noisier))
    assert values[0].value > values[1].value > values[3].value
    assert values[0].value > values[2].value > values[3].value
    assert values[3].value == 0
    assert set(whole.draws) == set(agreed.model.parameters)
    truth = (WEIGHTS if kind == "linear" else 5 * WEIGHTS)[None]
    low, high = np.quantile(whole.draws["weights"], [0.001, 0.999], axis=0)
    assert np.all((low < truth) & (truth < high))
    again = eq.infer(agreed, sent, method="moments", draws=2_000)
    np.testing.assert_array_equal(again.draws["weights"], whole.draws["weights"])


def test_it_agrees_with_the_paper_s_sampler_which_may_not_be_installed(tmp_path: Path) -> None:
    """Under the same prior, where Gibbs sampling is exact: numbers, hundreds of rows."""
    prior = '[model.prior]\nkind = "conjugate"'
    agreed = agree("linear", NUMBERS, prior)
    sent = release(agreed, "linear", tmp_path)
    exact = eq.infer(agreed, sent, method="gibbs", draws=4_000)
    found = eq.infer(agreed, sent, method="moments")
    with (
        mock.patch("equipoise.inference.infer.entry_points", return_value=()),
        pytest.raises(InferenceError, match="pip install equipoise-paper"),
    ):
        eq.infer(agreed, sent, method="gibbs", draws=4_000)
    deviations = exact.sd("weights")
    assert np.abs((found.mean("weights") - exact.mean("weights")) / deviations).max() < 0.25
    assert np.abs(found.sd("weights") / deviations - 1).max() < 0.15
    assert abs(eq.surprise(agreed, found).value - eq.surprise(agreed, exact, force=True).value) < 0.25


@pytest.mark.parametrize("prior", ["conjugate", "standardised"])
def test_noise_that_is_ignored_may_make_sums_impossible(prior: str, tmp_path: Path) -> None:
    """They are repaired; the mode may then lie at the edge of the conjugate prior's truncated norm."""
    agreed = agree("logistic", NUMBERS, f'[model.prior]\nkind = "{prior}"')
    for place, epsilon in enumerate((0.0001, 0.01)):
        sent = release_tables(agreed, "logistic", 5 * WEIGHTS, tmp_path / str(place), (epsilon, epsilon))
        naive = eq.infer(agreed, sent, method="naive", draws=1_000)
        assert naive.converged
        aware = eq.infer(agreed, sent, draws=1_000)
        assert eq.surprise(agreed, naive).value > eq.surprise(agreed, aware).value + 1


def test_hard_releases_end(tmp_path: Path) -> None:
    """Three rows, hardly any budget, a constant column, two equal columns: an answer that says how far it goes."""
    agreed = agree("linear", NUMBERS)
    frames = {
        "three rows": pd.DataFrame({"age": [0.1, 0.2, 0.3], "bmi": [0.5, -0.5, 0.0], "y": [0.1, 0.0, 0.2]}),
        "constant": pd.DataFrame(
            {"age": [0.0] * 500, "bmi": np.linspace(-1, 1, 500), "y": np.linspace(-0.5, 0.5, 500)}
        ),
        "equal": pd.DataFrame({"age": np.linspace(-1, 1, 500), "bmi": np.linspace(-1, 1, 500), "y": np.zeros(500)}),
    }
    for name, frame in frames.items():
        for epsilon in (0.01, 4.0):
            ledger = tmp_path / f"{name}-{epsilon}.ledger"
            with mock.patch("equipoise.party.release.perturb", seeded(0)):
                sent = eq.release(agreed, frame, party="north", epsilon=epsilon, ledger=ledger)
            found = eq.infer(agreed, [sent], method="moments", draws=1_000)
            assert np.isfinite(found.draws["weights"]).all()
            assert found.converged or found.diagnostics.problems


def test_gibbs_sampling_refuses_a_model_without_features(tmp_path: Path) -> None:
    shares = eq.Agreement.parse(example_agreement("bernoulli"))
    target = shares.model.target
    assert isinstance(target, LabelColumn)
    rows = pd.DataFrame({target.name: list(target.values) * 10})
    answers = eq.release(shares, rows, party=shares.party_names[0], epsilon=1.0, ledger=tmp_path / "shares.ledger")
    with pytest.raises(InferenceError, match="is for linear regression, and this agreement is bernoulli"):
        eq.infer(shares, [answers], method="gibbs")


def test_sums_that_no_rows_have_are_refused(tmp_path: Path) -> None:
    agreed = agree("linear", NUMBERS)
    sent = release(agreed, "linear", tmp_path)
    stated = sent[0].statistic
    huge = sent[0].model_copy(update={"statistic": type(stated)(100_000 * value for value in stated)})
    with (
        mock.patch("equipoise.inference.released.validate_submissions", lambda _agreement, some: some),
        pytest.raises(InferenceError, match="which no rows within the agreed bounds have"),
    ):
        eq.infer(agreed, [huge], method="moments")
