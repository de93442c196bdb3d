"""Standardised priors: coordinates of the model's own parameters, the chains' coordinates, values, typical ranges."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from scipy import integrate, special, stats

import equipoise as eq
import rounds
from engine_setup import jit
from equipoise._util.quantiles import RATIO_STRETCH
from equipoise.errors import InferenceError
from equipoise.inference import collapsed, engine
from equipoise.inference.engine import Problem, Settings
from equipoise.inference.infer import infer, infer_exact
from equipoise.inference.models.linear import StandardisedLinear
from equipoise.inference.observations import Scenarios
from equipoise.inference.problem import model_of, observations_of
from equipoise.inference.quantile_maps import log_normal_table, ratio_table, transport
from equipoise.inference.scenario import check_method
from equipoise.party.release import release
from equipoise.valuation.divergence import divergence
from equipoise.valuation.proxy import normal_proxy
from equipoise.valuation.surprise import surprise

pytestmark = [pytest.mark.engine, pytest.mark.group("standardised")]

NAMES = ("north", "south")


def agreed(
    kind: str = "linear",
    width: int = 2,
    *,
    prior: str = "standardised",
    scope: str = "shared",
    typical: str = "",
    bounds: float = 1.0,
) -> eq.Agreement:
    """A regression on columns x0 … within ±`bounds`, with a target within ±1."""
    columns = ", ".join(f'{{ name = "x{k}", bounds = [{-bounds}, {bounds}]{typical} }}' for k in range(width))
    target = "bounds = [-1, 1]" if kind == "linear" else 'labels = ["no", "yes"]'
    parties = "".join(f'[[parties]]\nname = "{name}"\n' for name in NAMES)
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\nfeatures = [{columns}]\ntarget = {{ name = "y", {target} }}\n'
        f'[model.prior]\nkind = "{prior}"\n[model.data_prior]\nscope = "{scope}"\n'
        f"[privacy]\nmax_epsilon = 1000\n{parties}"
    )


def table(rows: int, *, deviation: float = 0.1, width: int = 2, seed: int = 0) -> dict[str, Any]:
    """Rows whose features span little of their bounds, from no code of the model's."""
    rng = np.random.default_rng(seed)
    x = 0.2 + deviation * rng.normal(size=(rows, width))
    y = 0.1 + 0.15 * ((x - 0.2) / deviation) @ np.resize([1.0, -0.5], width) + 0.1 * rng.normal(size=rows)
    return {**{f"x{k}": x[:, k] for k in range(width)}, "y": y}


@pytest.fixture(autouse=True)
def repeatable_noise() -> Iterator[None]:
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(0)):
        yield


def released(agreement: eq.Agreement, folder: Any, columns: dict[str, Any], epsilon: float = 4.0) -> eq.Submission:
    return release(agreement, columns, party="north", epsilon=epsilon, ledger=folder / "north.ledger")


@pytest.mark.parametrize(("centre", "spread"), [(0.25, 1.0), (0.02, 1.0), (0.5, 0.3), (0.25, 3.0)])
def test_tables_are_quantile_functions(centre: float, spread: float) -> None:
    """Against SciPy: the truncated log-normal distribution, and the ratio to it by quadrature."""
    z = np.array([-6.0, -2.0, -0.3, 0.0, 0.7, 3.0, 6.0])
    edge = -np.log(centre) / spread
    exact = np.log(centre) + spread * stats.truncnorm.ppf(stats.norm.cdf(z), -np.inf, edge)
    at = jit(jax.vmap(partial(transport, log_normal_table(centre, spread, 1.0))))
    np.testing.assert_allclose(at(jnp.asarray(z)), exact, atol=1e-7)

    def tail(x: float) -> float:
        """P(sinh(Z)/S > x), integrated over log s."""

        def part(log_s: float) -> float:
            density = stats.norm.pdf(log_s, np.log(centre), spread) / special.ndtr(edge)
            return float(special.ndtr(-np.arcsinh(x * np.exp(log_s))) * density)

        middle = np.log(centre)
        return float(integrate.quad(part, middle - 12 * spread, 0.0, points=[middle], epsabs=0, limit=500)[0])

    x = np.array([0.3, 1.0, 5.0, 40.0]) / centre
    of_ratio = jit(jax.vmap(partial(transport, ratio_table(centre, spread, 1.0))))
    for sign in (1, -1):
        found = of_ratio(RATIO_STRETCH * jnp.arcsinh(sign * x * centre))
        np.testing.assert_allclose(found, [-sign * special.ndtri(tail(one)) for one in x], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize("scope", ["shared", "per-party"])
@pytest.mark.parametrize("typical", ["", ", typical = [0.1, 0.5]"])
def test_own_coordinates_are_standard_normal_under_the_prior(kind: str, scope: str, typical: str) -> None:
    """Computed from weights, bias and variance alone, by formulas of their prior, they are what `own` says."""
    model, prior = model_of(agreed(kind, scope=scope, typical=typical))
    positions = np.random.default_rng(1).normal(size=(1, 20_000, model.dimension))
    own = collapsed.own_coordinates(model, prior, positions)[0]
    assert own.shape == (20_000, model.focus)
    for coordinate in own.T:
        assert stats.kstest(coordinate, "norm").pvalue > 1e-3
    for values in (own, own**2):
        correlations = np.corrcoef(values.T) - np.eye(model.focus)
        assert np.abs(correlations).max() < 4.5 / np.sqrt(20_000)

    draws = {name: np.asarray(part)[0] for name, part in collapsed.parameters(model, prior, positions).items()}
    weights, bias = draws["weights"][:, :-1], draws["weights"][:, -1]
    sigma = np.sqrt(draws["variance"]) if kind == "linear" else np.ones(len(bias))
    middle, deviation = (0.3, 0.1) if typical else (0.0, 0.25)
    spread = 0.5 if kind == "linear" else 2.0
    expected = (bias + middle * weights.sum(axis=1)) / np.sqrt(spread**2 + (2 * deviation * weights) ** 2 @ np.ones(2))
    np.testing.assert_allclose(own[:, -1], expected, rtol=1e-6, atol=1e-6)
    ratios = weights / sigma[:, None]
    ranks = stats.spearmanr(ratios[:, 0], own[:, -3]).statistic  # a function of the ratio, which rises with it
    assert ranks == pytest.approx(1.0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["shared", "per-party"])
def test_bending_can_be_undone_and_keeps_volumes(scope: str) -> None:
    model, prior = model_of(agreed(width=3, scope=scope))
    for position in np.random.default_rng(2).normal(size=(5, model.dimension)):
        at = jnp.asarray(position)
        np.testing.assert_allclose(model.unbend(prior, model.bend(prior, at)), position, atol=1e-12)
        slopes = jax.jacfwd(partial(model.bend, prior))(at)
        assert np.linalg.det(np.asarray(slopes)) == pytest.approx(1.0)


@dataclass(frozen=True)
class Unbent(StandardisedLinear):
    """The same model, whose chains move in the prior's coordinates."""

    def bend(self, prior: Any, position: Array) -> Array:  # noqa: ARG002
        return position

    def unbend(self, prior: Any, bent: Array) -> Array:  # noqa: ARG002
        return bent


@pytest.mark.slow
def test_other_coordinates_of_the_nuisance_change_no_value(tmp_path: Any) -> None:
    agreement = agreed()
    model, prior = model_of(agreement)
    sent = released(agreement, tmp_path, table(20_000), epsilon=0.3)
    observations = observations_of(agreement, [sent], seed=0)
    alone = Scenarios(jnp.asarray([[1.0, 0.0]]), jnp.ones(1), jnp.zeros((1, 2)))
    values, gradients = [], []
    for one in (model, Unbent(2, 2, True)):
        keys = jax.random.split(jax.random.key(3), 1)
        sampled = engine.run(keys, Problem(one, prior, observations), alone, Settings(draws=4_000))[0]
        assert sampled.positions is not None
        values.append(divergence(collapsed.own_coordinates(one, prior, sampled.positions)))
        gradients.append(sampled.diagnostics.gradients)
    assert abs(values[0].value - values[1].value) < 4 * np.hypot(values[0].error, values[1].error)
    assert gradients[0] < 1.5 * gradients[1]


def one_release(kind: str, folder: Any) -> tuple[eq.Agreement, list[eq.Submission]]:
    agreement = agreed(kind)
    columns = table(300)
    if kind == "logistic":
        columns["y"] = np.where(columns["y"] > 0, "yes", "no").tolist()
    return agreement, [released(agreement, folder, columns)]


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_prior_is_worth_nothing(kind: str, tmp_path: Any) -> None:
    agreement, sent = one_release(kind, tmp_path)
    found = surprise(agreement, infer(agreement, sent, method="prior", draws=4_000))
    assert abs(found.value) < 4 * found.error + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_nothing_is_learnt_without_the_likelihood(kind: str, tmp_path: Any) -> None:
    """Sampled with it switched off, and by the cheap stand-in."""
    agreement, sent = one_release(kind, tmp_path)
    found = surprise(agreement, infer(agreement, sent, kappa=0.0, draws=2_000))
    assert abs(found.value) < 4 * found.error + 0.02
    values = normal_proxy(agreement, sent)(np.array([[False], [True]]))
    assert values[0] == pytest.approx(0, abs=1e-9)
    assert values[1] > 0.3
    assert surprise(agreement, infer(agreement, sent, draws=2_000)).value == pytest.approx(values[1], abs=1.5)


def test_typical_ranges_move_beliefs() -> None:
    stated, silent = (model_of(agreed(typical=text)) for text in (", typical = [0.1, 0.3]", ""))
    found = {}
    for name, (model, prior) in (("stated", stated), ("silent", silent)):
        zero = collapsed.parameters(model, prior, np.zeros((1, 1, model.dimension)))
        found[name] = (
            np.asarray(zero["feature_mean"])[0, 0, 0],
            np.sqrt(np.asarray(zero["feature_covariance"]))[0, 0, 0, 0],
        )
    assert found["stated"] == pytest.approx((0.2, 0.05), rel=0.01)  # a little less, since it is below 1
    assert found["silent"] == pytest.approx((0.0, np.exp(np.log(0.25) + special.ndtri(0.5 * special.ndtr(np.log(4))))))


def test_gibbs_sampling_needs_the_conjugate_prior() -> None:
    with pytest.raises(InferenceError, match='needs the conjugate prior.*use "collapsed"'):
        check_method("gibbs", agreed().model.gibbs_refusal)
    assert check_method("gibbs", agreed(prior="conjugate").model.gibbs_refusal) == "gibbs"


@pytest.mark.slow
def test_without_noise_it_is_least_squares(tmp_path: Any) -> None:
    """Exact statistics by `infer_exact`, and nearly exact ones by the method that ignores noise."""
    agreement, columns = agreed(), table(5_000)
    together = np.column_stack([columns[name] for name in ("x0", "x1", "y")])
    products = (together.T @ together)[np.triu_indices(3)]
    exact = infer_exact(agreement, {"north": (5_000, [*together.sum(axis=0), *products])}, draws=2_000)
    sent = release(agreement, columns, party="north", epsilon=1000.0, ledger=tmp_path / "ledger")
    for posterior in (exact, infer(agreement, [sent], method="naive", draws=2_000)):
        assert posterior.converged
        np.testing.assert_allclose(posterior.mean("weights"), least_squares(columns), atol=0.06)


@pytest.mark.slow
def test_every_party_may_have_a_distribution_of_its_own(tmp_path: Any) -> None:
    """Two parties whose features differ in scale and mean, with one law for the target."""
    agreement = agreed(scope="per-party")
    tables = {"north": table(3_000, deviation=0.1, seed=1), "south": table(3_000, deviation=0.2, seed=2)}
    x = tables["south"]
    x["y"] = x["y"] + (x["x0"] - 0.2) * (1.5 - 0.75) - (x["x1"] - 0.2) * (0.75 - 0.375)  # the same weights
    sent = [
        release(agreement, columns, party=party, epsilon=20.0, ledger=tmp_path / f"{party}.ledger")
        for party, columns in tables.items()
    ]
    posterior = infer(agreement, sent, draws=4_000)
    assert posterior.converged
    distance = np.abs(posterior.mean("weights")[:2] - [1.5, -0.75]) / posterior.sd("weights")[:2]
    assert distance.max() < 3.5
    found = np.sqrt(np.diagonal(posterior.mean("feature_covariance"), axis1=-2, axis2=-1))
    np.testing.assert_allclose(found[:, 0], [0.1, 0.2], rtol=0.15)


def least_squares(columns: dict[str, Any]) -> Any:
    x = np.column_stack([columns["x0"], columns["x1"], np.ones(len(columns["y"]))])
    return np.linalg.lstsq(x, columns["y"], rcond=None)[0]
