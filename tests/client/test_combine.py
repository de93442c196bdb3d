"""A reward and own rows together: against posteriors in closed form, and what can be wrong with either."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import coded
import equipoise as eq
import reward_posteriors
from at_home import NormalInverseGamma, in_own_units, rows_of, with_others
from equipoise.client.home.model import effective_draws, evidence_of, load_model
from equipoise.client.home.released import read_own_rows
from equipoise.client.home.rows import Moved, own_rows
from equipoise.reward.evidence import Evidence, Normal
from equipoise.reward.model import Reward
from equipoise.reward.slice_sampling import sample

pytestmark = pytest.mark.statistical


# Evidence of 30 rows is heavy-tailed, and 20,000 rows leave few draws near them: both are told.
@pytest.mark.filterwarnings("ignore:The effective number:UserWarning")
@pytest.mark.parametrize(("own", "others"), [(3, 400), (60, 60), (400, 30), (20_000, 400)])
def test_two_sets_of_rows_make_the_posterior_of_both(own: int, others: int) -> None:
    """Evidence of exact rows of others, own rows at home: the posterior of all rows, as far as evidence is normal."""
    mine, theirs = rows_of(own, 1), rows_of(others, 2)
    agreed = reward_posteriors.agreement("linear")
    drawn = NormalInverseGamma(agreed, *theirs).coordinates(4_000, 3).reshape(16, 250, 4)
    model = eq.combine(with_others("linear", drawn), in_own_units(*mine))
    exact = NormalInverseGamma(agreed, *map(np.concatenate, zip(mine, theirs, strict=True)))
    weights = model.posterior.draws["weights"]
    assert model.rows == own
    assert model.fits
    np.testing.assert_allclose((weights.mean(axis=0) - exact.mean) / exact.deviations, 0, atol=0.25)
    np.testing.assert_allclose(weights.std(axis=0) / exact.deviations, 1, atol=0.12)
    expected = exact.scale / (exact.shape - 1)
    np.testing.assert_allclose(model.posterior.mean("variance"), expected, rtol=0.5 / np.sqrt(exact.shape))


def test_own_rows_alone_are_the_conjugate_posterior() -> None:
    """Where nobody else's release is in the reward there is nothing to approximate."""
    mine = rows_of(40, 4)
    reward = with_others("linear", None, kappa=0.0)
    model = eq.combine(reward, in_own_units(*mine), draws=20_000)
    exact = NormalInverseGamma(reward.agreement, *mine)
    weights = model.posterior.draws["weights"]
    assert model.misfit is None
    np.testing.assert_allclose((weights.mean(axis=0) - exact.mean) / exact.deviations, 0, atol=0.04)
    np.testing.assert_allclose(weights.std(axis=0) / exact.deviations, 1, atol=0.04)
    variance = stats.invgamma(exact.shape, scale=exact.scale)
    found = np.quantile(model.posterior.draws["variance"], [0.05, 0.5, 0.95])
    np.testing.assert_allclose(found, variance.ppf([0.05, 0.5, 0.95]), rtol=0.03)


def test_a_normal_evidence_is_combined_exactly() -> None:
    """Share of a label, by quadrature: prior × normal evidence × own rows."""
    rng = np.random.default_rng(5)
    drawn = -0.4 + 0.3 * rng.normal(size=(16, 1_250, 1))
    reward = with_others("bernoulli", drawn)
    model = eq.combine(reward, {"ill": ["yes"] * 3 + ["no"] * 17}, draws=20_000)
    z = np.linspace(-6, 6, 20_001)
    density = stats.norm.pdf(z, drawn.mean(), drawn.std()) * stats.binom.pmf(3, 20, stats.norm.cdf(z))  # Beta(1, 1)
    density /= density.sum()
    share = stats.norm.cdf(z)
    mean = share @ density
    assert model.posterior.mean("probability") == pytest.approx(mean, abs=0.002)
    assert model.posterior.sd("probability") == pytest.approx(np.sqrt((share - mean) ** 2 @ density), rel=0.03)


def test_evidence_never_widens_the_prior() -> None:
    wide = Evidence.fitted(1.1 * np.random.default_rng(6).normal(size=(4, 1_000, 3)))
    root = wide.parts[0].root
    assert np.linalg.eigvalsh(root @ root.T).max() <= 1 + 1e-12


def test_two_modes_are_described_by_a_mixture() -> None:
    rng = np.random.default_rng(7)
    sign = rng.choice([-1.0, 1.0], size=(16, 250, 1))
    drawn = np.concatenate([0.8 * sign, np.zeros((16, 250, 1))], axis=2) + 0.2 * rng.normal(size=(16, 250, 2))
    found = Evidence.fitted(drawn)
    assert len(found.parts) > 1
    assert found.fits
    grid = np.stack(np.meshgrid(np.linspace(-3, 3, 301), np.linspace(-3, 3, 301)), axis=-1).reshape(-1, 2)
    assert np.exp(found.log_density(grid)).sum() * 0.02**2 == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("dimension", [1, 5])
def test_chains_begin_at_every_mode(dimension: int) -> None:
    """Fifteen standard deviations apart: chains that all begin at one mode agree, and never see the other."""
    place = np.eye(dimension)[0] * 1.5
    parts = tuple(Normal.of(sign * place, 0.04 * np.eye(dimension)) for sign in (1, -1))
    evidence = Evidence(parts, (0.55, 0.45))
    found, diagnostics = sample(evidence.log_density, evidence.parts, 4_000, 0)
    assert diagnostics.mixed
    assert np.mean(found[..., 0] > 0) == pytest.approx(0.55, abs=0.05)


@pytest.mark.filterwarnings("ignore:The effective number:UserWarning")
def test_a_poor_fit_is_told() -> None:
    """Few draws, far from normal: too few for a mixture."""
    rng = np.random.default_rng(8)
    drawn = np.where(rng.uniform(size=(4, 40, 1)) < 0.5, -0.9, 0.9) + 0.02 * rng.normal(size=(4, 40, 1))
    reward = with_others("bernoulli", np.concatenate([drawn] * 1, axis=0)[:, :9])
    with pytest.warns(UserWarning, match="not well described"):
        model = eq.combine(reward, {"ill": ["yes"] * 40 + ["no"] * 60})
    assert not model.fits
    assert any("not well described" in remark for remark in model.remarks)


TABLES: dict[str, Any] = {
    "linear": {"age": [50.0, 60.0, 70.0], "bmi": [25.0, 30.0, 35.0], "progression": [150.0, 200.0, 250.0]},
    "logistic": {"age": [50.0, 60.0, 70.0], "bmi": [25.0, 30.0, 35.0], "ill": ["no", "yes", "no"]},
    "bernoulli": {"ill": ["no", "yes", "no"]},
    "categorical": {"ward": ["A", "B", "A"]},
    "poisson": {"visits": [3, 4, 2]},
    "exponential": {"days": [3.0, 10.0, 4.0]},
    "gaussian": {"height": [160.0, 170.0, 180.0]},
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_combines_saves_and_opens(kind: str, tmp_path: Path) -> None:
    dimension = len(reward_posteriors.agreement(kind).model.coordinate_names())
    drawn = 0.3 + 0.5 * np.random.default_rng(9).normal(size=(16, 100, dimension))
    model = eq.combine(with_others(kind, drawn), TABLES[kind], draws=1_600)
    model.save(tmp_path / "model.nc")
    again = eq.HomeModel.load(tmp_path / "model.nc")
    assert again == model
    assert (again.rows, again.parts, again.misfit) == (3, model.parts, model.misfit)
    assert type(load_model(tmp_path / "model.nc")) is eq.HomeModel
    assert again.posterior.converged
    assert again.value.value > 0
    assert "must not leave the house" in repr(again)
    assert "must not leave the house" in again._repr_html_()
    assert (tmp_path / "model.nc").stat().st_mode & 0o777 == 0o600
    if model.n_features_in_:
        assert len(again.predict([[50, 27], [70, 31]])) == 2
    else:
        assert again.sample_predictions(size=2).shape == (1_600, 2)


def test_a_model_at_home_passes_for_nothing_else(tmp_path: Path) -> None:
    """Neither as a reward, which others take, nor as a submission, nor is it combined once more."""
    drawn = np.random.default_rng(10).normal(size=(4, 200, 1))
    model = eq.combine(with_others("bernoulli", drawn), TABLES["bernoulli"], draws=1_600)
    model.save(tmp_path / "model.nc")
    with pytest.raises(eq.MediationError, match="holds rows without noise"):
        eq.Reward.load(tmp_path / "model.nc")
    with pytest.raises(eq.SubmissionError):
        eq.Submission.load(tmp_path / "model.nc")
    with pytest.raises(eq.MediationError, match="count twice"):
        eq.combine(model, TABLES["bernoulli"])
    with pytest.raises(eq.MediationError, match="holds rows without noise"):
        eq.combine(tmp_path / "model.nc", TABLES["bernoulli"])
    reward_posteriors.some_reward("bernoulli").save(tmp_path / "reward.nc")
    with pytest.raises(eq.MediationError, match="cannot be read"):
        eq.HomeModel.load(tmp_path / "reward.nc")


def test_the_reward_keeps_the_evidence(tmp_path: Path) -> None:
    drawn = np.random.default_rng(11).normal(size=(4, 200, 1))
    reward = with_others("bernoulli", drawn)
    reward.save(tmp_path / "reward.nc")
    again = eq.Reward.load(tmp_path / "reward.nc")
    assert again.others is not None
    np.testing.assert_array_equal(again.others, drawn)
    assert again == reward
    assert with_others("bernoulli", drawn + 1e-9) != reward
    assert eq.combine(again, TABLES["bernoulli"]) == eq.combine(reward, TABLES["bernoulli"])


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (np.zeros((4, 200, 2)), "has the shape"),
        (np.full((4, 200, 1), np.nan), "no coordinate has"),
        (np.full((4, 200, 1), 1e9), "no coordinate has"),
    ],
)
def test_evidence_that_is_none_is_refused(others: np.ndarray, said: str, tmp_path: Path) -> None:
    with_others("bernoulli", others).save(tmp_path / "reward.nc")
    with pytest.raises(eq.MediationError, match=said):
        eq.Reward.load(tmp_path / "reward.nc")


def test_a_reward_of_an_older_version_says_what_to_do() -> None:
    with pytest.raises(
        eq.MediationError, match=r"does not hold the evidence of the others \(south\).*settle the round"
    ):
        eq.combine(with_others("linear", None), TABLES["linear"])


def test_without_others_there_is_no_evidence_to_miss() -> None:
    """A party that fell back to its own release, in a file of any version."""
    alone = reward_posteriors.some_reward("bernoulli")
    assert evidence_of(alone).misfit is None
    assert eq.combine(alone, TABLES["bernoulli"]).misfit is None


@pytest.mark.parametrize("kind", ["linear", pytest.param("logistic", marks=pytest.mark.slow)])
def test_levels_and_gaps_are_as_agreed(kind: Literal["linear", "logistic"]) -> None:
    """Columns of every kind, from a generator that knows nothing of the package: own rows find its truth."""
    agreed = coded.agreement(kind)
    number = len(agreed.model.coordinate_names())
    plain = reward_posteriors.reward(agreed, agreed.model.at_coordinates(np.zeros((10, number))))
    table, truth = coded.rows(kind, 1_500, np.random.default_rng(20))
    model = eq.combine(plain, table, draws=1_600)  # of "north" alone: nobody else is in it
    found = agreed.model.own_units(model.posterior.draws)
    errors = [(found[name].mean() - value) / found[name].std() for name, value in truth.items()]
    assert model.rows == 1_500
    assert np.max(np.abs(errors)) < 3.5
    assert np.sqrt(np.mean(np.square(errors))) < 1.7


ONE_CLASS = {"age": [50.0, 60.0] * 20, "bmi": [25.0, 30.0] * 20, "ill": ["no"] * 40}


def test_own_rows_of_one_class_leave_a_proper_model() -> None:
    drawn = 0.5 * np.random.default_rng(12).normal(size=(16, 250, 3))
    with pytest.warns(UserWarning, match="effective number"):
        model = eq.combine(with_others("logistic", drawn), ONE_CLASS, draws=1_600)
    assert model.posterior.converged
    assert np.all(model.predict_proba([[55, 27]])[:, 0] > 0.5)


def test_a_million_rows_swamp_the_evidence() -> None:
    """And are combined in seconds: families count equal values, regressions sum products."""
    drawn = -1.0 + 0.3 * np.random.default_rng(13).normal(size=(16, 250, 1))
    table = {"ill": np.repeat(["yes", "no"], [400_000, 600_000])}
    with pytest.warns(UserWarning, match="effective number .*, below 100.* up to 0.0[0-9]* standard deviations"):
        model = eq.combine(with_others("bernoulli", drawn), table)
    assert model.posterior.mean("probability") == pytest.approx(0.4, abs=0.002)


def test_useless_rows_leave_the_evidence() -> None:
    """Features that never vary say nothing of their weights."""
    drawn = np.array([0.3, -0.6, 0.4, 0.0]) + 0.3 * np.random.default_rng(14).normal(size=(16, 250, 4))
    table = {"age": [60.0] * 5, "bmi": [30.0] * 5, "progression": [200.0, 210.0, 190.0, 205.0, 195.0]}
    model = eq.combine(with_others("linear", drawn), table)
    assert model.posterior.coordinates is not None
    np.testing.assert_allclose(model.posterior.coordinates.mean(axis=0)[1:3], [-0.6, 0.4], atol=0.1)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"age": [50.0], "bmi": [25.0]}, "'progression' is not in the table"),
        ({"age": [50.0], "weight": [25.0], "progression": [1.0]}, "'bmi' is not in the table"),
        ({"age": [50.0, None], "bmi": [25.0, 30.0], "progression": [100.0, 110.0]}, "missing"),
        ({"age": [50.0, 60.0], "bmi": [25.0, 30.0], "progression": [None, None]}, "is empty"),
        ({"age": ["old"], "bmi": [25.0], "progression": [100.0]}, "age"),
        ({"age": [50.0], "bmi": [float("inf")], "progression": [100.0]}, "infinite"),
        ({"age": [], "bmi": [], "progression": []}, "no rows"),
    ],
)
def test_tables_that_do_not_fit_are_refused(table: dict[str, Any], said: str) -> None:
    drawn = np.random.default_rng(15).normal(size=(4, 200, 4))
    with pytest.raises(eq.TableError, match=said):
        eq.combine(with_others("linear", drawn), table)


def test_labels_nobody_agreed_to_are_refused() -> None:
    drawn = np.random.default_rng(16).normal(size=(4, 200, 1))
    with pytest.raises(eq.TableError, match="maybe"):
        eq.combine(with_others("bernoulli", drawn), {"ill": ["yes", "maybe"]})


def test_rows_without_a_target_are_left_out() -> None:
    drawn = np.random.default_rng(17).normal(size=(4, 200, 1))
    model = eq.combine(with_others("bernoulli", drawn), {"ill": ["yes", None, "no", None]})
    assert model.rows == 2


def _protecting(agreed: eq.Agreement, **privacy: Any) -> eq.Agreement:
    """The same agreement about individuals."""
    document = agreed.model_dump(mode="json")
    document["privacy"] |= {"individual": "patient", **privacy}
    return eq.Agreement.model_validate(document)


VISITS: dict[str, list[Any]] = {
    "patient": ["a", "b", "a", "a", "c"],
    "age": [50.0, 30.0, None, 70.0, 40.0],
    "smoker": ["yes", "no", "yes", "no", "no"],
    "creatinine": [None, None, 2.0, 8.0, 1.0],
    "region": ["west", "abroad", "south", "west", "north"],
    "pain": ["none", "some", "much", "much", "none"],
    "outcome": [1.0, 2.0, 3.0, 5.0, None],
}
MADE_ONE: dict[str, dict[str, list[Any]]] = {
    "mean": {
        "age": [60.0, 30.0],
        "smoker": ["yes", "no"],
        "creatinine": [5.0, None],
        "region": ["west", "abroad"],
        "pain": ["much", "some"],
        "outcome": [3.0, 2.0],
    },
    "last": {
        "age": [70.0, 30.0],
        "smoker": ["no", "no"],
        "creatinine": [8.0, None],
        "region": ["west", "abroad"],
        "pain": ["much", "some"],
        "outcome": [5.0, 2.0],
    },
}


@pytest.mark.parametrize("aggregate", MADE_ONE)
def test_rows_that_a_release_makes_one_are_one_at_home(aggregate: str) -> None:
    """Visits of one patient are no independent rows, and the agreed model is not about visits."""
    plain = coded.agreement("linear")
    found = own_rows(_protecting(plain, aggregate=aggregate), VISITS)
    expected = own_rows(plain, MADE_ONE[aggregate])
    assert len(found) == 2
    np.testing.assert_array_equal(found.rows.features, expected.rows.features)
    np.testing.assert_array_equal(found.rows.target, expected.rows.target)
    assert (found.without_target, found.read, found.rows.unit) == (1, 5, expected.rows.unit)
    assert "5 rows count as 3 rows" in found.remarks[0]
    with pytest.raises(eq.TableError, match="'patient' is not in the table"):
        own_rows(_protecting(plain, aggregate=aggregate), MADE_ONE[aggregate])


def test_labels_that_a_release_makes_one_are_one_at_home() -> None:
    agreed = _protecting(reward_posteriors.agreement("bernoulli"), aggregate="mean")
    found = own_rows(agreed, {"patient": [1, 1, 1, 2], "ill": ["yes", "no", "yes", None]})
    assert found.rows.target.tolist() == [1.0]


def test_rows_that_a_release_leaves_out_are_left_out_at_home() -> None:
    agreed = _protecting(reward_posteriors.agreement("bernoulli"), rows_per_individual=2, excess="drop")
    found = own_rows(agreed, {"patient": [7, 7, 8, 7, 8, 7], "ill": ["yes", None, "no", "yes", "no", "no"]})
    assert found.rows.target.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert found.owners is not None
    assert found.owners.tolist() == [0, 1, 0, 1]
    assert (found.without_target, found.read) == (1, 6)
    assert "6 rows count as 5 rows" in found.remarks[0]


def test_decimals_are_numbers() -> None:
    """As of a database, and as a release takes them."""
    agreed = reward_posteriors.agreement("linear")
    ages = pa.array([50.0, 60.0, 200.0]).cast(pa.decimal128(5, 1))
    found = own_rows(agreed, {**TABLES["linear"], "age": ages}, allow_clipping=True)
    assert found.moved == {"age": Moved(1, 200.0, 100.0)}


def test_bad_cells_count_at_the_bounds_as_in_a_release() -> None:
    """Two cells of 999 and 30,000 among 1,200 moved a coefficient from -0.7 to -0.007 in version 0.14."""
    reward = with_others("linear", None, kappa=0.0)
    table = in_own_units(*rows_of(400, 19))
    clean = eq.combine(reward, table, draws=1_600, seed=1)
    table["bmi"][7], table["bmi"][9] = 999.0, 30_000.0
    rows = own_rows(clean.agreement, table)
    assert rows.moved == {"bmi": Moved(2, 30_000.0, 45.0)}
    assert "bmi in 2 rows (the farthest from 30000 to 45)" in rows.remarks[0]
    spoilt = eq.combine(reward, table, draws=1_600, seed=1)
    shift = spoilt.posterior.mean("weights") - clean.posterior.mean("weights")
    np.testing.assert_allclose(shift / clean.posterior.sd("weights"), 0, atol=1)


def test_a_table_of_which_much_lies_outside_the_bounds_is_refused() -> None:
    table = in_own_units(*rows_of(50, 19))
    table["age"] = table["age"] * 365.25
    reward = with_others("linear", None, kappa=0.0)
    with pytest.raises(eq.TableError, match="of 'age' in the table lie beyond the agreed range.*--allow-clipping"):
        eq.combine(reward, table)
    assert eq.combine(reward, table, draws=800, allow_clipping=True).rows == 50
    with pytest.raises(eq.TableError, match="not finite numbers"):
        eq.combine(reward, {**TABLES["linear"], "progression": [np.inf, 200.0, 250.0]})


def test_own_rows_in_the_tail_of_the_evidence_are_told_and_shown_beside_the_model() -> None:
    """Six standard deviations away nobody knows the evidence: no draw is near."""
    drawn = 0.3 * np.random.default_rng(20).normal(size=(16, 250, 1))
    agreeing = eq.combine(with_others("bernoulli", drawn), {"ill": ["yes", "no"] * 20}, draws=1_600)
    assert agreeing.effective is not None
    assert agreeing.effective > 1_000
    assert (agreeing.own, agreeing.beside_own_rows(), agreeing.remarks) == (None, None, [])
    table = {"ill": ["yes"] * 390 + ["no"] * 10}
    with pytest.warns(UserWarning, match="effective number"):
        model = eq.combine(with_others("bernoulli", drawn), table, draws=1_600)
    assert model.effective is not None
    assert model.effective < 100
    beside = model.beside_own_rows()
    assert beside is not None
    assert "own rows" in beside.headers
    assert model.own is not None
    (own,) = model.own.values()
    assert own[2] == pytest.approx(391 / 402, abs=0.005)
    assert model.shift is not None
    assert model.shift > 0.5
    assert "party compare" in model.remarks[0]


def test_few_effective_draws_are_told_however_near_the_model_is_to_own_rows() -> None:
    """A description that is wrong where own rows are may leave the model at the own rows, too."""
    drawn = 0.3 * np.random.default_rng(20).normal(size=(16, 250, 1))
    with pytest.warns(UserWarning, match="effective number") as caught:
        model = eq.combine(with_others("bernoulli", drawn), {"ill": np.tile(["yes", "no"], 100_000)}, draws=1_600)
    assert model.effective is not None
    assert model.effective < 100
    assert model.shift is not None
    assert model.shift < 0.5
    assert [str(one.message) for one in caught] == model.remarks
    assert "party compare" not in model.remarks[0]
    assert model.beside_own_rows() is not None


def test_own_rows_whose_chains_do_not_converge_are_not_shown_beside_the_model() -> None:
    drawn = 0.3 * np.random.default_rng(20).normal(size=(16, 250, 1))
    reward, table = with_others("bernoulli", drawn), {"ill": np.tile(["yes", "no"], 100_000)}

    def never_alone(density: Any, around: Any, draws: int, seed: int) -> Any:
        found, diagnostics = sample(density, around, draws, seed)
        # Evidence of nobody is described by the prior, N(0, 1).
        alone = np.array_equal(around[0].covariance, np.eye(1))
        return found, replace(diagnostics, rhat=np.array([2.0])) if alone else diagnostics

    with (
        mock.patch("equipoise.client.home.model.sample", never_alone),
        pytest.warns(UserWarning, match="cannot be compared with your own rows alone, whose chains did not converge"),
    ):
        model = eq.combine(reward, table, draws=1_600)
    assert model.posterior.converged
    assert (model.own, model.shift, model.beside_own_rows()) == (None, None, None)


def test_the_effective_number_is_that_of_importance_weights() -> None:
    """Evidence N(0, 1) and own rows of a normal likelihood: in closed form, n √(2s² + s⁴) / (1 + s²) at distance 0."""
    points = stats.norm.ppf((np.arange(40_000) + 0.5) / 40_000).reshape(4, 10_000, 1)
    reward = with_others("bernoulli", points)
    model: Any = reward.agreement.model
    s = 0.5
    log_weights = -0.5 * (points.reshape(-1) / s) ** 2
    with mock.patch.object(type(model), "likelihood_of", return_value=mock.Mock(return_value=log_weights)):
        found = effective_draws(reward, own_rows(reward.agreement, TABLES["bernoulli"]).rows)
    assert found == pytest.approx(40_000 * s * np.sqrt(2 + s**2) / (1 + s**2), rel=1e-3)


@pytest.mark.parametrize(("others", "says"), [(1e5, "prior standard deviations away"), (0.0, "1 draw that differ")])
def test_evidence_that_no_settlement_gives_is_refused(others: float, says: str) -> None:
    drawn = np.full((16, 25, 4), others) + (np.random.default_rng(0).normal(size=(16, 25, 4)) if others else 0.0)
    with pytest.raises(eq.MediationError, match=says):
        eq.combine(with_others("linear", drawn), TABLES["linear"])


class TestReleased:
    """A reward is combined with the table that was released, and with no other by mistake."""

    @staticmethod
    def reward(tmp_path: Path, table: dict[str, Any]) -> Reward:
        agreed = reward_posteriors.agreement("linear")
        release = eq.release(agreed, table, party="north", epsilon=1.0, ledger=tmp_path / "north.ledger")
        plain = with_others("linear", None, kappa=0.0)
        return Reward("north", agreed, plain.posterior, plain.value, release=release)

    def test_the_table_that_was_released(self, tmp_path: Path) -> None:
        table = in_own_units(*rows_of(200, 19))
        reward = self.reward(tmp_path, table)
        assert eq.combine(reward, table, draws=800).rows == 200
        reward.save(tmp_path / "reward.nc")
        assert Reward.load(tmp_path / "reward.nc") == reward
        assert Reward.load(tmp_path / "reward.nc").release == reward.release

    def test_tables_of_others(self, tmp_path: Path) -> None:
        reward = self.reward(tmp_path, in_own_units(*rows_of(200, 19)))
        longer = in_own_units(*rows_of(201, 19))
        with pytest.raises(eq.TableError, match="201 rows.*'north' was made for a release of 200.*--other-rows"):
            eq.combine(reward, longer)
        south = in_own_units(*rows_of(200, 23))
        south["bmi"] = 30 + 0.5 * (south["bmi"] - 30)
        with pytest.raises(eq.TableError, match="sums of this table are not those that 'north' released"):
            eq.combine(reward, south)
        with pytest.raises(eq.TableError, match="not those that 'north' released"):
            eq.compare(reward, south)
        assert eq.combine(reward, longer, draws=800, other_rows=True).rows == 201

    def test_a_row_without_a_target_hides_no_other_table(self, tmp_path: Path) -> None:
        table = in_own_units(*rows_of(200, 19))
        reward = self.reward(tmp_path, table)
        target = reward.agreement.model.target.name
        unanswered = {
            name: np.append(values, np.nan if name == target else values[0]) for name, values in table.items()
        }
        assert len(read_own_rows(reward, unanswered)) == 200
        unanswered["bmi"] = 30 + 0.5 * (unanswered["bmi"] - 30)
        with pytest.raises(eq.TableError, match="not those that 'north' released"):
            read_own_rows(reward, unanswered)

    def test_a_reward_with_the_release_of_somebody_else_is_refused(self, tmp_path: Path) -> None:
        reward = self.reward(tmp_path, in_own_units(*rows_of(200, 19)))
        release = reward.release
        assert release is not None
        others = Reward(
            "north",
            reward.agreement,
            reward.posterior,
            reward.value,
            release=release.model_copy(update={"party": "south"}),
        )
        others.save(tmp_path / "reward.nc")
        with pytest.raises(eq.MediationError, match="holds a release of 'south'"):
            Reward.load(tmp_path / "reward.nc")
