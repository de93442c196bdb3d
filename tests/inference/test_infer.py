"""Inference as its users meet it."""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import stats

import builders
import equipoise as eq
import rounds
from equipoise.inference import diagnostics
from equipoise.inference.infer import infer, infer_batch, infer_exact
from equipoise.inference.released import noises_of
from equipoise.models import layout_of
from equipoise.party.release import release
from equipoise.party.statistics import exact_statistic

pytestmark = [pytest.mark.engine, pytest.mark.group("infer")]

AGREEMENT = builders.ALL_MODELS["linear"]


@pytest.fixture(scope="module")
def submissions(tmp_path_factory: pytest.TempPathFactory) -> list[eq.Submission]:
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(0)):
        return released(AGREEMENT, tmp_path_factory.mktemp("ledgers"))


@pytest.fixture(autouse=True)
def repeatable_noise() -> Iterator[None]:
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(0)):
        yield


def released(agreement: eq.Agreement, folder: Path) -> list[eq.Submission]:
    return [
        release(
            agreement,
            builders.random_table(agreement, 400, seed),
            party=party,
            epsilon=epsilon,
            ledger=folder / f"{party}.ledger",
        )
        for seed, (party, epsilon) in enumerate((("north", 2.0), ("south", 1.0)))
    ]


def quick(submissions: list[eq.Submission], **options: Any) -> eq.Posterior:
    return infer(AGREEMENT, submissions, draws=1_500, **options)


@pytest.mark.parametrize("method", ["auto", pytest.param("gibbs", marks=pytest.mark.slow), "naive", "prior"])
def test_every_method_gives_named_draws_and_diagnostics(submissions: list[eq.Submission], method: Any) -> None:
    posterior = quick(submissions, method=method, seed=1)
    assert posterior.draws["weights"].shape == (len(posterior), 4)
    assert posterior.draws["variance"].shape == (len(posterior),)
    assert len(posterior) >= 1_500
    assert posterior.converged, posterior.diagnostics
    assert posterior.require_converged() is posterior
    assert posterior.scenario.coalition == ("north", "south")
    assert posterior.method == ("moments" if method == "auto" else method)


def test_the_same_seed_gives_the_same_draws(submissions: list[eq.Submission]) -> None:
    first, again, other = (quick(submissions, seed=seed).draws["weights"] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("method", ["moments", pytest.param("gibbs", marks=pytest.mark.slow)])
def test_a_party_that_is_out_leaves_no_trace(submissions: list[eq.Submission], method: Any) -> None:
    north, south = submissions
    apart = quick([north], method=method)
    left_out = quick([north, south], coalition=["north"], method=method)
    in_other_order = quick([south, north], coalition=["north"], method=method)
    for name in apart.draws:
        np.testing.assert_array_equal(apart.draws[name], left_out.draws[name])
        np.testing.assert_array_equal(apart.draws[name], in_other_order.draws[name])
    together = quick([north, south], method=method)
    assert not np.array_equal(together.draws["weights"], apart.draws["weights"])


def test_every_bit_of_a_secret_changes_the_noise(submissions: list[eq.Submission]) -> None:
    """Of a secret of 128 bits."""
    tau = np.ones((128, len(AGREEMENT.parties)))
    drawn = np.asarray(noises_of(AGREEMENT, submissions, tau, [f"{1 << place:032x}" for place in range(128)]))
    assert len({noise.tobytes() for noise in drawn}) == 128
    numbers = drawn.ravel()
    assert stats.kstest(numbers, "norm").pvalue > 0.01
    assert len(set(np.round(numbers, 9))) == numbers.size  # nothing is shared between them
    for wrong in ("5a", "5A" * 16, -1, 1.5, None):
        with pytest.raises(eq.InferenceError, match="64 hexadecimal digits") as refused:
            infer(AGREEMENT, submissions, noise_seed=wrong)  # type: ignore[arg-type]
        assert "5A" not in str(refused.value)  # what was meant as a secret stays one


@pytest.mark.slow
def test_draws_of_equal_releases_do_not_depend_on_the_batch(tmp_path: Path) -> None:
    """Six alike share a slot, unless noise is added to them; what is beside a scenario does not matter."""
    agreed = rounds.agreement("linear", 6)
    sent = rounds.submissions(agreed, tmp_path, (2.0,) * 6)
    plain, noisy = eq.Scenario(), eq.Scenario(tau={"north": 1.0})
    alone = infer_batch(agreed, sent, [plain], draws=640)[0]
    both = infer_batch(agreed, sent, [noisy, plain], draws=640)
    np.testing.assert_array_equal(both[1].draws["weights"], alone.draws["weights"])
    assert not np.array_equal(both[0].draws["weights"], alone.draws["weights"])


def test_a_scenario_in_a_batch_has_the_posterior_it_has_alone(submissions: list[eq.Submission]) -> None:
    scenarios = [eq.Scenario(("north",)), eq.Scenario(("south",)), eq.Scenario()]
    batch = infer_batch(AGREEMENT, submissions, scenarios, draws=4_000)
    for scenario, posterior in zip(scenarios, batch, strict=True):
        alone = infer(AGREEMENT, submissions, coalition=scenario.coalition, draws=4_000, seed=9)
        shift = (posterior.mean("weights") - alone.mean("weights")) / alone.sd("weights")
        np.testing.assert_allclose(shift, 0, atol=0.12)


def test_added_noise_widens_the_posterior(submissions: list[eq.Submission]) -> None:
    plain, noisy = (
        infer(AGREEMENT, submissions, tau={"north": tau, "south": tau}, draws=3_000).sd("weights") for tau in (0, 100)
    )
    assert np.all(noisy > 1.5 * plain)


def test_seeds_may_be_common_or_independent(submissions: list[eq.Submission]) -> None:
    twice = [eq.Scenario(("north",)), eq.Scenario(("north",))]
    common = infer_batch(AGREEMENT, submissions, twice, draws=640)
    np.testing.assert_array_equal(common[0].draws["weights"], common[1].draws["weights"])
    apart = infer_batch(AGREEMENT, submissions, twice, draws=640, seed=[1, 2])
    assert not np.array_equal(apart[0].draws["weights"], apart[1].draws["weights"])


BAD_REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "kappa above 1": ({"kappa": 1.5}, "kappa = 1.5"),
    "kappa below 0": ({"kappa": -0.1}, "between 0"),
    "kappa not a number": ({"kappa": float("nan")}, "kappa = nan"),
    "kappa text": ({"kappa": "half"}, "'half'"),
    "nobody": ({"coalition": []}, "empty"),
    "a stranger": ({"coalition": ["east"]}, "'east' is not a party"),
    "text for a coalition": ({"coalition": "north"}, "list of party names"),
    "negative noise": ({"tau": {"north": -1.0}}, "tau = -1.0"),
    "noise for a stranger": ({"tau": {"east": 1.0}}, "'east'"),
    "an unknown method": ({"method": "magic"}, "'magic'"),
    "an unknown rule": ({"rule": "linear"}, "'linear'"),
    "power in Gibbs": ({"method": "gibbs", "rule": "power"}, '"scaled"'),
    "kappa 0 in a scaled posterior": ({"rule": "scaled", "kappa": 0.0}, "not tend to the prior"),
    "kappa 0 in a naive scaled posterior": (
        {"method": "naive", "rule": "scaled", "kappa": 0.0},
        "not tend to the prior",
    ),
    "added noise for naive": ({"method": "naive", "tau": {"north": 1.0}}, "leave tau out"),
    "no draws": ({"draws": 0}, "draws = 0"),
    "two chains": ({"chains": 2}, "chains = 2"),
    "a number of draws with a point": ({"draws": 1e4}, "draws = 10000.0 must be a whole number"),
    "a number of chains with a point": ({"chains": 16.0}, "chains = 16.0"),
    "a seed that is no number": ({"seed": "zero"}, "seed = 'z'"),
    "a negative seed": ({"seed": -1}, "seed = -1"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_bad_requests_are_refused_before_anything_is_sampled(
    submissions: list[eq.Submission], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("equipoise.inference.infer.sample_batch", pytest.fail)
    options, words = BAD_REQUESTS[name]
    with pytest.raises(eq.EquipoiseError) as caught:
        infer(AGREEMENT, submissions, **options)
    assert words in str(caught.value)


def test_submissions_are_checked(
    submissions: list[eq.Submission], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("equipoise.inference.infer.sample_batch", pytest.fail)
    north, south = submissions
    with pytest.raises(eq.InferenceError, match="no submissions"):
        infer(AGREEMENT, [])
    with pytest.raises(eq.SubmissionError, match="there twice"):
        infer(AGREEMENT, [north, north])
    with pytest.raises(eq.SubmissionError, match="altered"):
        infer(AGREEMENT, [north.model_copy(update={"count": 7}), south])
    with pytest.raises(eq.SubmissionError, match="agreement"):
        infer(builders.linear(2), submissions)
    with pytest.raises(eq.InferenceError, match="'south' has not submitted"):
        infer(AGREEMENT, [north], coalition=["south"])
    with pytest.raises(eq.InferenceError, match="2 seeds for 1 scenario"):
        infer_batch(AGREEMENT, submissions, [eq.Scenario()], seed=[1, 2])
    with pytest.raises(eq.InferenceError, match="no scenarios"):
        infer_batch(AGREEMENT, submissions, [])
    logistic = builders.logistic(2)
    with pytest.raises(eq.InferenceError, match="linear regression"):
        infer(logistic, released(logistic, tmp_path), method="gibbs")


@pytest.mark.parametrize(
    ("rows", "spoil", "words"),
    [
        (0, {}, "row count of 0"),
        (-3, {}, "row count of -3"),
        (2.5, {}, "row count of 2.5"),
        (float("inf"), {}, "row count of inf"),
        (10, {0: np.nan}, "must be finite"),
        (10, {1: np.inf}, "must be finite"),
    ],
)
def test_exact_statistics_are_checked(rows: Any, spoil: dict[int, float], words: str) -> None:
    values = [0.0] * len(layout_of(AGREEMENT))
    for place, value in spoil.items():
        values[place] = value
    with pytest.raises(eq.InferenceError, match=words):
        infer_exact(AGREEMENT, {"north": (rows, values)})


def test_exact_statistics_of_the_wrong_length_or_from_nobody_are_refused() -> None:
    with pytest.raises(eq.InferenceError, match="has 3 statistics"):
        infer_exact(AGREEMENT, {"north": (10, [0.0, 0.0, 0.0])})
    with pytest.raises(eq.InferenceError, match="no statistics"):
        infer_exact(AGREEMENT, {})


SOME = ("bernoulli", "linear")  # of the models; the others are for `make slow`
MODELS = [
    pytest.param(name, marks=() if name in SOME else pytest.mark.slow)
    for name in builders.ALL_MODELS
    if "ball" not in name
]


@pytest.mark.parametrize("method", ["naive", "exact", "auto"])
@pytest.mark.parametrize("name", MODELS)
def test_at_kappa_zero_every_method_gives_the_prior(name: str, method: Any, tmp_path: Path) -> None:
    agreement = builders.ALL_MODELS[name]
    layout = layout_of(agreement)
    table = gentle_table(agreement, 400)
    submission = release(agreement, table, party="north", epsilon=1.0, ledger=tmp_path / "ledger")
    if method == "exact":
        exact = exact_statistic(layout, table)
        values = [int(entry) / step for entry, step in zip(exact.values, layout.steps_per_unit, strict=True)]
        posterior = infer_exact(agreement, {"north": (exact.count, values)}, kappa=0.0, draws=4_000)
    else:
        posterior = infer(agreement, [submission], kappa=0.0, method=method, draws=4_000)
    prior = infer(agreement, [submission], method="prior", draws=4_000, seed=1)
    for parameter in prior.draws:
        found = posterior.draws[parameter]
        mine, theirs = found.reshape(len(found), -1), prior.draws[parameter].reshape(4_000, -1)
        pvalues = [stats.ks_2samp(mine[::4, k], theirs[:, k]).pvalue for k in range(mine.shape[1])]
        varies = np.ptp(theirs, axis=0) > 0
        assert np.min(np.where(varies, pvalues, 1.0)) * len(pvalues) > 1e-3, parameter


def test_statistics_that_no_rows_have_are_refused() -> None:
    """Sums of 9 with squares of 0: in ten rows, no."""
    gaussian = builders.ALL_MODELS["gaussian"]
    with pytest.raises(eq.InferenceError, match="cannot be the exact statistics of any rows"):
        infer_exact(gaussian, {"north": (10, [9.0, 0.0])})
    values = [0.0] * len(layout_of(AGREEMENT))
    values[0] = 9.0
    with pytest.raises(eq.InferenceError, match="cannot be the exact statistics of any rows"):
        infer_exact(AGREEMENT, {"north": (10, values)})


@pytest.mark.slow
def test_added_noise_has_a_seed_of_its_own(submissions: list[eq.Submission]) -> None:
    """Another seed gives other draws of the same posterior; another noise seed another posterior."""
    options: dict[str, Any] = {"tau": {"north": 50.0, "south": 50.0}, "draws": 2_000}
    same, again, other = (
        infer(AGREEMENT, submissions, seed=seed, noise_seed=noise, **options)
        for seed, noise in ((1, 0), (2, 0), (1, 7))
    )
    error = same.sd("weights")
    np.testing.assert_allclose((same.mean("weights") - again.mean("weights")) / error, 0, atol=0.2)
    assert np.any(np.abs(same.mean("weights") - other.mean("weights")) > 0.3 * error)
    assert same.to_inferencedata().attrs["tau"] == "north=50.0,south=50.0"
    assert (other.noise_seed, other.to_inferencedata().attrs["noise_seed"]) == (7, 7)


@pytest.mark.slow
@pytest.mark.process
def test_a_batch_may_be_spread_over_processes(submissions: list[eq.Submission]) -> None:
    scenarios = [eq.Scenario(("north",)), eq.Scenario(kappa=0.5)]
    here, there = (infer_batch(AGREEMENT, submissions, scenarios, draws=640, processes=n) for n in (1, 2))
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one.draws["weights"], other.draws["weights"])
        assert one.scenario == other.scenario
    with pytest.raises(eq.InferenceError, match="processes = 0"):
        infer_batch(AGREEMENT, submissions, scenarios, processes=0)


# Regressions; families are held to their conjugate posteriors more closely below.
@pytest.mark.parametrize(
    "name",
    [
        "bernoulli",
        "linear",
        pytest.param("logistic", marks=pytest.mark.slow),
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("categorical", "poisson", "exponential", "gaussian")
        ),
    ],
)
def test_with_little_noise_every_model_comes_close_to_its_exact_baseline(name: str, tmp_path: Path) -> None:
    """Every family end to end, on rows that its bounds hardly clip."""
    agreement = builders.ALL_MODELS[name]
    layout = layout_of(agreement)
    table = gentle_table(agreement, 4_000)
    exact = exact_statistic(layout, table)
    values = [int(entry) / step for entry, step in zip(exact.values, layout.steps_per_unit, strict=True)]
    baseline = infer_exact(agreement, {"north": (exact.count, values)}, draws=4_000)
    submission = release(agreement, table, party="north", epsilon=100.0, ledger=tmp_path / "ledger")
    posterior = infer(agreement, [submission], draws=4_000)
    assert posterior.converged, posterior.diagnostics
    for parameter in set(baseline.draws) - {"feature_mean", "feature_covariance"}:
        shift = (posterior.mean(parameter) - baseline.mean(parameter)) / posterior.sd(parameter)
        np.testing.assert_allclose(shift, 0, atol=1.0, err_msg=parameter)
        np.testing.assert_allclose(posterior.sd(parameter) / baseline.sd(parameter), 1, atol=0.35, err_msg=parameter)


def gentle_table(agreement: eq.Agreement, rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    table: dict[str, Any] = {}
    for column in agreement.columns:
        if not hasattr(column, "bounds"):
            labels = column.values
            table[column.name] = [labels[k] for k in rng.integers(len(labels), size=rows)]
            continue
        lower, upper = column.bounds
        kind = agreement.model.kind
        if kind == "poisson":
            table[column.name] = rng.poisson(5.0, rows)
        elif kind == "exponential":
            table[column.name] = rng.exponential(0.5, rows)
        else:
            table[column.name] = rng.normal((lower + upper) / 2, (upper - lower) / 12, rows)
    return table


def test_an_unconverged_posterior_is_refused_unless_forced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "ESS_LIMIT", 1e6)
    agreement = builders.ALL_MODELS["bernoulli"]
    posterior = infer(agreement, released(agreement, tmp_path), draws=160)
    assert not posterior.converged
    with pytest.raises(eq.ConvergenceError, match="has not converged"):
        posterior.require_converged()
    assert posterior.require_converged(force=True) is posterior


def test_draws_convert_to_arviz(submissions: list[eq.Submission]) -> None:
    posterior = quick(submissions, kappa=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data: Any = posterior.to_inferencedata()
    weights = data.posterior["weights"]
    assert weights.shape == (posterior.chains, len(posterior) // posterior.chains, 4)
    np.testing.assert_array_equal(weights.values.reshape(-1, 4), posterior.draws["weights"])
    assert data.attrs["kappa"] == 0.5
    assert data.attrs["coalition"] == "north,south"


def test_progress_is_shown_on_request(submissions: list[eq.Submission], capfd: pytest.CaptureFixture[str]) -> None:
    quick(submissions, progress=False)
    assert capfd.readouterr().err == ""
    quick(submissions, progress=True)
    assert "sampling" in capfd.readouterr().err


SCRIPT = """
import sys
import jax
import equipoise as eq
agreement = eq.Agreement.load(sys.argv[1])
posterior = eq.infer(agreement, [eq.Submission.load(sys.argv[2])], method="gibbs", draws=640)
assert posterior.draws["weights"].dtype == "float64"
assert jax.numpy.ones(1).dtype == "float32", "the process's own precision was changed"
"""


@pytest.mark.slow
@pytest.mark.process
def test_gibbs_sampling_keeps_its_programs_and_the_precision_of_the_process(
    tmp_path: Path,
) -> None:
    agreement = builders.linear(1)
    text = 'features = [{ name = "x0", bounds = [-2, 2] }]\ntarget = { name = "y", bounds = [0, 10] }'
    tail = builders.TAIL.format(order=2.0, max_epsilon=100.0)
    (tmp_path / "agreement.toml").write_text(f'format = 1\n[model]\nkind = "linear"\n{text}\n{tail}')
    (tmp_path / "north.json").write_bytes(released(agreement, tmp_path)[0].to_json())
    cache = tmp_path / "cache"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")} | {
        "EQUIPOISE_CACHE_DIR": str(cache)
    }
    command = [sys.executable, "-W", "error", "-c", SCRIPT, "agreement.toml", "north.json"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert any("advance" in entry.name for entry in cache.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bernoulli", "categorical", "poisson", "exponential", "gaussian"])
def test_with_little_noise_a_family_is_its_conjugate_posterior(kind: str, tmp_path: Path) -> None:
    """Hardly a row is clipped here; what is left of a difference is the central limit theorem's."""
    agreed = rounds.agreement(kind, 1)
    table = rounds.table(kind, 4_000, 3)
    if kind == "exponential":
        table["y"] = 0.4 * table["y"]
    sent = release(agreed, table, party="north", epsilon=100.0, ledger=tmp_path / "ledger")
    exact = exact_statistic(layout_of(agreed), table)
    entries = [value / step for value, step in zip(exact.values, layout_of(agreed).steps_per_unit, strict=True)]
    noisy, conjugate = infer(agreed, [sent]), infer_exact(agreed, {"north": (4_000, entries)})
    for name, values in conjugate.draws.items():
        shift = (noisy.mean(name) - values.mean(axis=0)) / values.std(axis=0)
        np.testing.assert_allclose(shift, 0, atol=0.5, err_msg=name)
        np.testing.assert_allclose(noisy.sd(name) / values.std(axis=0), 1, atol=0.15, err_msg=name)
