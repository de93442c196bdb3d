"""The stages of `benchmarks/worth_joining.py` go together, from a tiny round to its page."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from pages import ROOT


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


@pytest.mark.slow
@pytest.mark.engine
def test_from_releases_to_the_page(
    script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stage(name: str, *arguments: str) -> None:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        script(name).main()

    rewards, results = str(tmp_path / "rewards"), tmp_path / "worth.json"
    monkeypatch.setattr(script("worth_others"), "PLANS", script("worth_others").PLANS[:2])
    monkeypatch.setattr(script("worth_posteriors"), "FIRST_LOOK", (1 / 4, 1 / 64))
    few = ("--tables", "diabetes", "--epsilon", "4", "--repetitions", "1", "--draws", "1280")
    stage("worth_posteriors", *few, "--mechanism", "tempering", "everything", "--output", rewards)
    stage("worth_joining", "home", "--tables", "diabetes", "--folder", rewards, "--results", str(results))
    stage("worth_joining", "rivals", "--tables", "diabetes", "--results", str(results))
    records = json.loads(results.read_text(encoding="utf-8"))
    assert [one["rows"] for one in records] == 2 * [33, 100, 199]
    for one in records:
        losses = one["losses"]
        assert set(losses) == set(script("worth_page").MODELS)
        assert np.isfinite(list(losses.values())).all()
        assert abs(losses["at home"] - losses["own rows"]) < 0.2  # other kinds of nonsense are tenths of nats away

    (tmp_path / "pictures").mkdir()
    (tmp_path / "worth.md").write_text((ROOT / "docs" / "worth.md").read_text(encoding="utf-8"), encoding="utf-8")
    script("worth_page").page(records, tmp_path)
    text = (tmp_path / "worth.md").read_text(encoding="utf-8")
    for setting in ("`tempering`, surplus, ρ = 0.5", "everything to everybody"):
        assert text.count(f"## Measured: {setting}") == 1
    assert "## When joining does not pay" in text
    assert "<svg" in (tmp_path / "pictures" / "worth-models-tempering-surplus-0.5.svg").read_text(encoding="utf-8")
    script("worth_page").page(records, tmp_path)
    assert (tmp_path / "worth.md").read_text(encoding="utf-8") == text  # again, nothing is added


def test_pulled_coefficients_go_from_own_rows_to_the_common_ones(script: Callable[[str], ModuleType]) -> None:
    others = script("worth_others")
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(size=(80, 2)), np.ones(80)])
    target = features @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=80)
    common = np.array([3.0, 3.0, 3.0])
    problem = others.Problem.__new__(others.Problem)
    for linear, answers in ((True, target), (False, np.where(target > rng.logistic(size=80), 1.0, -1.0))):
        problem.linear = linear
        free, held = (others.pulled(problem, features, answers, common, pull * np.ones(3)) for pull in (1e-9, 1e9))
        assert np.abs(problem.slopes(features, answers, free) @ features).max() < 1e-4  # a minimum of own rows' loss
        np.testing.assert_allclose(held, common, atol=1e-4)


def test_a_ridge_shrinks_what_does_not_predict_and_leaves_what_does(script: Callable[[str], ModuleType]) -> None:
    others = script("worth_others")
    rng = np.random.default_rng(1)
    problem = others.Problem.__new__(others.Problem)
    problem.linear, problem._middle, problem._deviation, problem._target = True, np.zeros(3), np.ones(3), (0.0, 1.0)
    features = np.column_stack([rng.normal(size=(40, 2)), np.ones(40)])
    for effect, least, most in ((2.0, 1.9, 2.05), (0.0, -0.03, 0.03)):
        target = 3.0 + effect * features[:, 0] + 0.2 * rng.normal(size=40)
        rows = SimpleNamespace(features=features, target=target)
        weights = others.ridge(problem, rows, seed=0)["weights"][0]
        assert least < weights[0] < most
        assert weights[2] == pytest.approx(3.0, abs=0.1)  # the bias is not shrunk


def test_federated_averaging_learns_where_there_is_hardly_any_noise(script: Callable[[str], ModuleType]) -> None:
    others = script("worth_others")
    rng = np.random.default_rng(0)
    truth = np.array([1.0, -2.0, 0.5])
    problem = others.Problem.__new__(others.Problem)
    problem.linear = True
    parts = []
    for rows in (30, 100, 200):
        features = np.column_stack([rng.normal(size=(rows, 2)), np.ones(rows)])
        parts.append((features, features @ truth))
    plan = others.Plan(200, 1, 0.3, 30.0)
    found = others.federated(problem, parts, 1e9, plan, np.random.default_rng(0))
    np.testing.assert_allclose(found, truth, atol=0.01)
    noisy = others.federated(problem, parts, 0.01, plan, np.random.default_rng(0))
    assert np.abs(noisy - truth).max() > 1
