"""Posteriors of experiments: in the order asked, right where the answer is known, and alike where they should be."""

import numpy as np
import pytest

from equipoise.inference import batch
from equipoise.inference.scenario import Scenario
from equipoise.valuation.surprise import surprise
from equipoise_paper.gibbs import GibbsSettings
from equipoise_paper.posteriors import Asked, Found, Measure, as_drawn, find
from equipoise_paper.releases import plain_submissions
from equipoise_paper.settings import EPSILONS, LARGEST_EPSILON, PARTIES, Setting
from reproduction.small import LITTLE, exact_posterior

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.group("sweep")]

THREE = [Asked(Scenario(), 1), Asked(Scenario(["1"]), 2), Asked(Scenario(None, 0.0), 3)]


def values(setting: Setting, epsilons: dict[str, float], asked: list[Asked], *, naive: bool = False) -> list[Found]:
    agreement, sent = plain_submissions(setting, epsilons, 1)
    return find(agreement, sent, asked, LITTLE, Measure(setting.test_rows), naive=naive)


@pytest.fixture(scope="module")
def three(syn: Setting, one_process: None) -> list[Found]:
    return values(syn, EPSILONS, THREE)


def test_more_parties_and_more_evidence_are_worth_more(three: list[Found]) -> None:
    everybody, alone, prior = (one.value for one in three)
    assert everybody.value > alone.value > prior.value
    assert prior.value == pytest.approx(0, abs=4 * prior.error)


@pytest.mark.parametrize("cores", [1, 2])
def test_answers_come_in_the_order_asked(
    cores: int, syn: Setting, three: list[Found], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "usable_cores", lambda: cores)
    assert values(syn, EPSILONS, THREE[::-1]) == three[::-1]


@pytest.mark.usefixtures("one_process")
def test_with_almost_no_noise_the_value_is_that_of_the_exact_statistics(syn: Setting) -> None:
    (found,) = values(syn, dict.fromkeys(PARTIES, LARGEST_EPSILON), [Asked(Scenario(), 1)])
    exact = surprise(syn.agreement(PARTIES), exact_posterior(syn, 5_000))
    assert found.value.value == pytest.approx(exact.value, abs=0.3)
    (naive,) = values(syn, dict.fromkeys(PARTIES, LARGEST_EPSILON), [Asked(Scenario(), 1)], naive=True)
    assert naive.value.value == pytest.approx(exact.value, abs=0.3)
    assert naive.loss == pytest.approx(found.loss, abs=0.05)


@pytest.mark.usefixtures("one_process")
def test_who_ignores_the_noise_is_too_sure(syn: Setting) -> None:
    asked = [Asked(Scenario(["2"]), 1)]
    (aware,), (naive,) = (values(syn, EPSILONS, asked, naive=naive) for naive in (False, True))
    assert naive.value.value > aware.value.value + 1
    assert naive.loss > aware.loss + 1


@pytest.mark.usefixtures("one_process")
def test_who_ignores_the_noise_is_too_sure_of_labels(diab: Setting) -> None:
    asked = [Asked(Scenario(["2"]), 1)]
    (aware,), (naive,) = (values(diab, EPSILONS, asked, naive=naive) for naive in (False, True))
    assert naive.value.value > aware.value.value + 1


@pytest.mark.usefixtures("one_process")
def test_a_posterior_is_like_itself_and_not_like_another(syn: Setting) -> None:
    agreement, sent = plain_submissions(syn, EPSILONS, 1)
    whole, again, other = find(
        agreement, sent, [Asked(Scenario(), 1), Asked(Scenario(), 2), Asked(Scenario(["1"]), 3)], LITTLE, as_drawn
    )
    chains, draws, own = whole.coordinates.shape
    assert chains * draws >= LITTLE
    assert own == 4
    assert whole.parameters["weights"].shape == (chains * draws, 3)
    measure = Measure(syn.test_rows, whole.coordinates)
    assert measure(again).similarity == pytest.approx(0, abs=0.3)
    assert measure(other).similarity < -0.5
    assert measure(again).loss == pytest.approx(Measure(syn.test_rows)(whole).loss, abs=0.05)
    assert Measure(syn.test_rows)(again).similarity == 0  # with nothing to compare


@pytest.mark.usefixtures("one_process")
def test_added_noise_is_that_of_its_seed(syn: Setting) -> None:
    agreement, sent = plain_submissions(syn, EPSILONS, 1)
    asked = [Asked(Scenario(None, 1.0, dict.fromkeys(PARTIES, 64.0)), 1)]
    measure = Measure(syn.test_rows)
    found = [find(agreement, sent, asked, LITTLE, measure, noise_seed=seed)[0] for seed in (1, 1, 2)]
    assert found[0] == found[1]
    assert found[0].value != found[2].value


@pytest.mark.usefixtures("one_process")
def test_the_papers_sampler_finds_the_same(syn: Setting) -> None:
    agreement, sent = plain_submissions(syn, EPSILONS, 1)
    gibbs = GibbsSettings(draws=3_200, max_thinning=1)
    measure = Measure(syn.test_rows)
    (theirs,) = find(agreement, sent, [Asked(Scenario(), 1)], gibbs, measure)
    (ours,) = find(agreement, sent, [Asked(Scenario(), 1)], LITTLE, measure)
    gap = theirs.value - ours.value
    assert abs(gap.value) < 4 * gap.error + 0.2
    assert np.isfinite(theirs.rhat)
