"""`equipoise party combine` and `compare`, through real files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from at_home import with_others
from equipoise.inference.scenario import Scenario
from equipoise.reward.model import Reward
from program import equipoise, from_json, run

pytestmark = pytest.mark.statistical


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    others = np.array([0.2, 0.4, -0.2, 0.1]) + 0.3 * rng.normal(size=(8, 200, 4))
    with_others("linear", others, kappa=0.5).save(tmp_path / "reward.nc")
    with_others("linear", None, kappa=0.5).save(tmp_path / "old.nc")
    age, bmi = rng.uniform(30, 90, 40), rng.uniform(18, 42, 40)
    target = 200 + 2.0 * (age - 60) - 3.0 * (bmi - 30) + 40 * rng.normal(size=40)
    lines = [
        "id,age,bmi,progression",
        *(f"{k},{a:.1f},{b:.1f},{t:.1f}" for k, (a, b, t) in enumerate(zip(age, bmi, target, strict=True))),
    ]
    (tmp_path / "north.csv").write_text("\n".join([*lines, "98,50,25,", "99,50,70,150"]) + "\n")
    return tmp_path


def test_combine_writes_a_model_that_predicts(home: Path) -> None:
    result = run("party", "combine", "reward.nc", "north.csv", "-o", "model.nc", cwd=home, COLUMNS="500")
    assert "Wrote model.nc: Model at home of north, a linear model: the reward and 41 own rows" in result.stdout
    assert "must not leave the house" in result.stderr
    assert "1 row of the table say nothing" in result.stderr
    assert "Moved to the ends of the agreed range, as in a release: bmi in 1 row" in result.stderr
    shown = run("predict", "model.nc", "--data", "north.csv", cwd=home)
    assert "Model at home of north (reward and 41 own rows; it must not leave it)" in shown.stderr
    assert len(shown.stdout.splitlines()) == 43
    assert "exists; choose another" in equipoise(
        "party", "combine", "reward.nc", "north.csv", "-o", "model.nc", cwd=home, code=9
    )


def test_combine_as_json(home: Path) -> None:
    told = from_json("party", "combine", "reward.nc", "north.csv", "-o", "model.nc", "--draws", 1_600, cwd=home)
    assert (told["party"], told["rows"], told["converged"], told["evidence"]["fits"]) == ("north", 41, True, True)
    assert "without noise" in told["notice"]
    assert len(told["remarks"]) == 3
    assert told["evidence"]["effective"] < 100
    assert list(told["own_rows"]["quantiles"]) == ["weight[age]", "weight[bmi]", "intercept", "residual_sd"]
    assert told["own_rows"]["shift"] > 0.5


def test_compare_shows_all_three(home: Path) -> None:
    said = equipoise("party", "compare", "reward.nc", "north.csv", "--folds", 2, cwd=home)
    assert "own rows" in said
    assert "both" in said
    assert "P4′, at home you predict no worse than with your own rows:" in said
    told = from_json("party", "compare", "reward.nc", "north.csv", "--folds", 2, cwd=home)
    assert list(told["losses"]) == ["own rows", "reward", "both"]
    assert all(one["error"] > 0 for one in told["losses"].values())
    assert told["P4'"] in ("holds", "fails", "cannot tell")


def test_compare_with_the_release_alone_as_a_page(home: Path) -> None:
    reward = Reward.load(home / "reward.nc")
    scenario = Scenario(("north",))
    replace(reward, posterior=replace(reward.posterior, scenario=scenario), others=None).save(home / "alone.nc")
    ask = ("party", "compare", "reward.nc", "north.csv", "--folds", 2)
    told = from_json(*ask, "--alone", "alone.nc", "-o", "home.html", cwd=home)
    assert list(told["losses"]) == ["own rows", "alone", "reward", "both"]
    assert list(told["better_than_own_rows"]) == ["alone", "reward", "both"]
    assert told["losses"]["alone"] == told["losses"]["reward"]  # here of the same draws
    page = (home / "home.html").read_text(encoding="utf-8")
    for words in ("For north alone", "the model of your release, noise and all", "<svg", "P4′"):
        assert words in page
    assert "exists; choose another" in equipoise(*ask, "-o", "home.html", cwd=home, code=9)
    assert "no model of the release of 'north' alone" in equipoise(*ask, "--alone", "reward.nc", cwd=home, code=9)
    equipoise(*ask, "-o", "three.html", cwd=home)
    assert "alone: not measured" in (home / "three.html").read_text(encoding="utf-8")


def test_what_cannot_be_combined(home: Path) -> None:
    arguments = ("north.csv", "-o", "new.nc")
    said = equipoise("party", "combine", "old.nc", *arguments, cwd=home, code=9)
    assert "does not hold the evidence of the others (south)" in said
    assert "settle the round again" in said
    assert "there is no file" in equipoise("party", "combine", "none.nc", *arguments, cwd=home, code=9)
    (home / "strange.csv").write_text("age,weight,progression\n50,80,100\n")
    assert "'bmi' is not in the table" in equipoise(
        "party", "combine", "reward.nc", "strange.csv", "-o", "new.nc", cwd=home, code=4
    )
    assert "too few for 5 folds" in equipoise("party", "compare", "reward.nc", _few(home), cwd=home, code=4)
    assert "leave nothing" in equipoise("party", "compare", "reward.nc", "north.csv", "--folds", 1, cwd=home, code=9)
    assert not (home / "new.nc").exists()


def _few(home: Path) -> str:
    (home / "few.csv").write_text("age,bmi,progression\n50,30,100\n51,31,110\n")
    return "few.csv"
