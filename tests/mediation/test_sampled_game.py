"""A game whose sample grows: until errors are as asked, within the budget, and honestly; values are made up."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.mediation import coalitions
from equipoise.mediation.coalitions import Coalitions
from equipoise.mediation.requests import Evaluation, Request
from equipoise.mediation.settings import SettlementSettings, check_budget, check_coalitions, default_budget
from equipoise.reward.targets import TargetPolicy, Targets, min_contribution_factor
from equipoise.valuation.sampling import smallest_budget
from equipoise.valuation.shapley import ShapleyValues

Floats = NDArray[np.float64]
SPREAD = 3.0  # of one draw


class Game:
    """½ d log(1 + information), seen by the proxy, less a bias that it does not see and that parties differ in."""

    def __init__(self, parties: int, *, useless: bool = False) -> None:
        rng = np.random.default_rng(parties)
        self.information = rng.lognormal(1.0, 0.7, parties)
        if useless:
            self.information[0] = 0.0
        self.odd = np.zeros(parties) if useless else 0.2 * rng.normal(size=parties)
        self.names = tuple(f"p{party:03}" for party in range(parties))

    def proxy(self, inside: NDArray[np.bool_]) -> Floats:
        return np.asarray(2.5 * np.log1p(inside @ self.information))

    def value(self, inside: NDArray[np.bool_]) -> Floats:
        sizes = inside.sum(axis=1)
        return np.asarray(self.proxy(inside) * (1 - 0.1 / (1 + sizes)) + np.sin(inside @ self.odd) / 4)

    def shapley(self) -> Floats:
        """By the textbook's sum over coalitions."""
        number = len(self.names)
        every = (np.arange(2**number)[:, None] >> np.arange(number) & 1).astype(bool)
        values, sizes = self.value(every), every.sum(axis=1)
        of_size = np.array([math.factorial(s) * math.factorial(number - s - 1) for s in range(number)], float)
        of_size /= math.factorial(number)
        found = [
            float(np.sum(values[on] * of_size[sizes[on] - 1]) - np.sum(values[~on] * of_size[sizes[~on]]))
            for on in every.T
        ]
        return np.array(found)

    def play(
        self, monkeypatch: pytest.MonkeyPatch, seed: int, **options: Any
    ) -> tuple[Coalitions, ShapleyValues, Targets]:
        rng = np.random.default_rng(1_000 + seed)
        places = {name: place for place, name in enumerate(self.names)}

        def appraise(requests: Sequence[Request], **_: Any) -> list[Evaluation]:
            inside = np.zeros((len(requests), len(self.names)), bool)
            for row, request in zip(inside, requests, strict=True):
                row[[places[name] for name in request.coalition]] = True
            errors = [SPREAD / math.sqrt(request.draws) for request in requests]
            return [
                Evaluation(Estimate(float(value + error * rng.normal()), error), request.draws, 1.0, 1e3)
                for value, error, request in zip(self.value(inside), errors, requests, strict=True)
            ]

        monkeypatch.setattr(coalitions, "normal_proxy", lambda *_: self.proxy)
        settings = SettlementSettings(**options)
        terms = TargetPolicy(
            0.5, "alone", settings.precision, 2 * settings.precision, least=min_contribution_factor(len(self.names))
        )
        task: Any = SimpleNamespace(
            parties=self.names, settings=settings, teams=(self.names,), seed=seed, agreement=None, submissions=None,
            first_draws=settings.draws, terms=terms, enumerates=settings.coalitions == "all",
        )  # fmt: skip
        appraiser: Any = SimpleNamespace(appraise=appraise)
        game = Coalitions(task, appraiser)
        return (game, *game.shares())


def test_a_sample_grows_until_targets_are_as_good_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {}
    for precision in (0.2, 0.05):
        game, _, targets = Game(10).play(monkeypatch, 1, coalitions="sampled", precision=precision)
        assert targets.errors.max() <= precision
        assert not game.complete
        sizes[precision] = len(game.known)
    assert sizes[0.2] == smallest_budget(10)
    assert sizes[0.2] < sizes[0.05] < 2**10 / 2


def test_the_budget_is_never_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    game, _, targets = Game(14).play(monkeypatch, 1, coalitions="sampled", precision=0.01, budget=100)
    assert 98 < len(game.known) <= 100
    assert targets.errors.max() > 0.01  # and says so


def test_who_would_sample_most_of_them_takes_all(monkeypatch: pytest.MonkeyPatch) -> None:
    game, shapley, _ = Game(8).play(monkeypatch, 1, coalitions="sampled", precision=0.02)
    assert game.complete
    assert len(game.known) == 255
    np.testing.assert_allclose(shapley.values.sum(), shapley.grand.value)


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("useless", [False, True])
def test_errors_are_true_though_the_sample_stops_when_they_look_small(
    monkeypatch: pytest.MonkeyPatch, useless: bool
) -> None:
    game = Game(9, useless=useless)
    truth, scores = game.shapley(), []
    for seed in range(40):
        _, shapley, targets = game.play(monkeypatch, seed, coalitions="sampled", precision=0.08)
        scores.append((shapley.values - truth) / shapley.errors)
        assert targets.errors.max() < 0.09
        assert targets.nothing[0] == useless
    assert 0.8 < np.sqrt(np.mean(np.square(scores))) < 1.2
    assert np.mean(np.abs(scores) > 3) < 0.02


def test_which_coalitions_are_valued() -> None:
    assert [check_coalitions(number, "auto") for number in (1, 7, 8, 12, 1_000)] == ["all"] * 2 + ["sampled"] * 3
    assert check_coalitions(12, "all") == "all"
    assert check_coalitions(4, "sampled") == "sampled"
    with pytest.raises(MediationError, match="for up to 12 parties; 13 have 8191 coalitions"):
        check_coalitions(13, "all")
    with pytest.raises(MediationError, match="leave it out"):
        check_budget(5, "all", 20)
    with pytest.raises(MediationError, match="budget = 10 coalitions is too small for 20 parties; give 89 or more"):
        check_budget(20, "sampled", 10)
    assert default_budget(10) == 1_023
    assert default_budget(13) == 1_000
    assert default_budget(1_000) == 18_001


def test_that_all_are_valued_goes_without_saying() -> None:
    """As earlier versions wrote it, whose decisions are digests of what they wrote."""
    assert "coalitions" not in SettlementSettings(coalitions="all").options
    assert SettlementSettings(coalitions="sampled").options["coalitions"] == "sampled"
