"""`equipoise predict`: a reward put to use, through real files."""

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

from equipoise.agreement import Agreement
from program import equipoise, from_json, run
from reward_posteriors import TAIL, reward, some_reward, some_rows


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for kind in ("linear", "logistic", "poisson", "categorical"):
        some_reward(kind).save(tmp_path / f"{kind}.nc")
    rows = some_rows(5)
    lines = ["bmi,who,age", *(f"{bmi!r},patient,{age!r}" for age, bmi in rows.tolist())]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def read(text: str) -> dict[str, list[str]]:
    rows = list(csv.DictReader(io.StringIO(text)))
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_regression(home: Path) -> None:
    result = run("predict", "linear.nc", "--data", "rows.csv", "--interval", 0.8, cwd=home)
    assert "Reward of north under agreement" in result.stderr
    assert "worth 3.00 ± 0.10 nats" in result.stderr
    found = read(result.stdout)
    expected, interval = some_reward("linear").predict(some_rows(5), return_interval=0.8)
    assert list(found) == ["age", "bmi", "prediction", "lower", "upper"]
    np.testing.assert_array_equal(np.array([found["age"], found["bmi"]], float).T, some_rows(5))
    np.testing.assert_allclose(np.array(found["prediction"], float), expected, atol=0.0501)
    np.testing.assert_allclose(np.array([found["lower"], found["upper"]], float).T, interval, atol=0.0501)
    assert all(len(cell.partition(".")[2]) == 1 for cell in found["prediction"])


def test_columns_are_kept_and_bounds_are_watched(home: Path) -> None:
    (home / "people.csv").write_text("id,age,progression,bmi\n007,50,120,25\nb,130,90.5,12\nc,30,,50\n")
    result = run("predict", "linear.nc", "--data", "people.csv", "--keep", "id", "--keep", "progression", cwd=home)
    found = read(result.stdout)
    assert list(found) == ["id", "progression", "age", "bmi", "prediction", "lower", "upper"]
    assert (found["id"], found["progression"], found["age"]) == (
        ["007", "b", "c"],
        ["120", "90.5", ""],
        ["50", "130", "30"],
    )
    assert "outside the agreed bounds: age in 1 row, bmi in 2 rows." in result.stderr
    assert "predictions take the nearest agreed value" in result.stderr
    highest = [feature.scaled_range[1] for feature in some_reward("linear").agreement.model.features]  # type: ignore[attr-defined]
    (home / "ends.csv").write_text("age,bmi\n50,25\n" + ",".join(map(str, highest)) + "\n")
    (home / "beyond.csv").write_text("age,bmi\n50,25\n1000,1000\n")
    predict = ("predict", "linear.nc", "--data")
    ends, beyond = (read(run(*predict, name, cwd=home).stdout) for name in ("ends.csv", "beyond.csv"))
    assert beyond["prediction"] == ends["prediction"]
    told = from_json("predict", "linear.nc", "--data", "people.csv", "--keep", "id", cwd=home)
    assert told["outside_bounds"] == {"age": 1, "bmi": 2}
    assert told["predictions"][0]["id"] == "007"
    frame = pa.table({"id": [7, 8], "age": [50.0, 60.0], "bmi": [25.0, 26.0]})
    pa_parquet.write_table(frame, home / "people.parquet")
    told = from_json("predict", "linear.nc", "--data", "people.parquet", "--keep", "id", cwd=home)
    assert ([row["id"] for row in told["predictions"]], told["outside_bounds"]) == ([7, 8], {})
    says = equipoise("predict", "linear.nc", "--data", "people.csv", "--keep", "name", cwd=home, code=4)
    assert "--keep 'name' is no column of 'people.csv', which has 'id', 'age', 'progression', 'bmi'" in says
    (home / "clash.csv").write_text("age,bmi,lower\n50,25,1\n")
    assert "rename it" in equipoise("predict", "linear.nc", "--data", "clash.csv", "--keep", "lower", cwd=home, code=4)
    assert "model with features" in equipoise("predict", "poisson.nc", "--keep", "id", cwd=home, code=9)


def test_classification_of_a_parquet_file_with_some_labels(home: Path) -> None:
    rows = some_rows(6)
    labels = ["no", "yes", None, "no", "yes", "no"]
    columns: dict[str, Any] = {"ill": labels, "age": rows[:, 0], "bmi": rows[:, 1]}
    pa_parquet.write_table(pa.table(columns), home / "rows.parquet")
    result = run("predict", "logistic.nc", "--data", "rows.parquet", "-o", "found.csv", cwd=home)
    reward = some_reward("logistic")
    known = [0, 1, 3, 4, 5]
    given = [labels[place] for place in known]
    assert f"ill in 5 rows: accuracy {reward.score(rows[known], given):.3f}" in result.stderr
    assert f"log probability {reward.loss(rows[known], given):.4g}" in result.stderr
    assert result.stdout == ""
    found = read((home / "found.csv").read_text())
    assert list(found) == ["age", "bmi", "prediction", "probability[yes]", "lower", "upper"]
    assert found["prediction"] == reward.predict(rows).tolist()
    expected = reward.predict_proba(rows)[:, 1]
    np.testing.assert_allclose(np.array(found["probability[yes]"], float), expected, atol=1e-3)
    assert "'found.csv' exists" in equipoise(
        "predict", "logistic.nc", "--data", "rows.parquet", "-o", "found.csv", cwd=home, code=9
    )


def test_json_and_draws(home: Path) -> None:
    found = from_json(
        "predict", "linear.nc", "--data", "rows.csv", "--draws", "draws.csv", "--party", "north", cwd=home
    )
    assert found["party"] == "north"
    assert found["value"] == {"value": 3.0, "error": 0.1}
    assert found["compared"] is None
    assert [row["prediction"] for row in found["predictions"]] == some_reward("linear").predict(some_rows(5)).tolist()
    assert (home / "draws.csv").read_text().startswith("chain,draw,weight[age],weight[bmi],intercept,residual_sd\n")


def test_models_without_features_need_no_data(home: Path) -> None:
    said = equipoise("predict", "poisson.nc", cwd=home)
    assert "a new visits" in said
    found = {row["quantity"]: row for row in from_json("predict", "poisson.nc", cwd=home)["summary"]}
    assert found["rate"]["mean"] == pytest.approx(4.0, abs=0.02)
    assert found["a new visits"]["lower"] == 1
    assert found["a new visits"]["upper"] in (7, 8)
    shares: Any = from_json("predict", "categorical.nc", cwd=home)["summary"]
    assert [row["quantity"] for row in shares] == ["probability[A]", "probability[B]", "probability[C]"]
    (home / "wards.csv").write_text("ward\nA\nB\n")
    compared = from_json("predict", "categorical.nc", "--data", "wards.csv", cwd=home)["compared"]
    assert compared == {"rows": 2, "loss": pytest.approx(some_reward("categorical").loss(None, ["A", "B"]))}


def test_without_data_the_model_is_shown(home: Path) -> None:
    said = equipoise("predict", "linear.nc", cwd=home)
    means = some_reward("linear").coef_
    for name, mean in zip(("age", "bmi"), means, strict=True):
        assert f"weight[{name}]" in said
        assert f"{mean:.4g}" in said
    assert "odds ratio" not in said
    told = {row["quantity"]: row for row in from_json("predict", "logistic.nc", cwd=home)["summary"]}
    weight, ratio = told["weight[age]"], told["odds ratio of age"]
    np.testing.assert_allclose([ratio["lower"], ratio["upper"]], np.exp([weight["lower"], weight["upper"]]))


def test_mistakes(home: Path) -> None:
    text = (home / "rows.csv").read_text()
    (home / "renamed.csv").write_text(text.replace("bmi", "BMI", 1))
    (home / "gap.csv").write_text(text + ",patient,50\n")
    (home / "empty.csv").write_text("")
    (home / "header.csv").write_text("age,bmi\n")
    (home / "fake.nc").write_text("hello")
    linear = ("predict", "linear.nc")
    for command, code, says in (
        (("predict", "none.nc"), 9, "there is no file 'none.nc'; rewards are in the folder"),
        (("predict", "fake.nc", "--data", "rows.csv"), 9, "'fake.nc' cannot be read as a reward"),
        ((*linear, "-o", "p.csv"), 9, "this linear model predicts from age, bmi; give a file with --data"),
        ((*linear, "--data", "none.csv"), 4, "there is no file or folder 'none.csv'"),
        ((*linear, "--data", "renamed.csv"), 4, "column 'bmi' is not in the table; did you mean 'BMI'?"),
        ((*linear, "--data", "gap.csv"), 4, "feature 'bmi', row 6: the value is missing; fill in a number"),
        ((*linear, "--data", "empty.csv"), 4, "'empty.csv' is empty"),
        ((*linear, "--data", "header.csv"), 4, "'header.csv' has no rows"),
        ((*linear, "--data", "rows.csv", "--interval", 90), 9, "--interval 90 is not between 0 and 1; give 0.9"),
        ((*linear, "--data", "rows.csv", "-o", "no/f.csv"), 9, "cannot write into"),
        ((*linear, "--data", "rows.csv", "--party", "south"), 9, "is the reward of 'north', not of 'south'; ask"),
    ):
        assert says in equipoise(*command, cwd=home, code=code)
    assert not list(home.glob(".*.partial"))


SOFFICE = shutil.which("soffice")
# Fields of a CSV file end at commas, which is the default, at semicolons, at tabs, or at any of them.
SEPARATORS = {"commas": "44", "semicolons": "59", "tabs": "9", "all": "44/59/9"}


def formulas(table: Path, separators: str) -> list[str]:
    """Formulas in the spreadsheet that LibreOffice makes of a CSV file."""
    assert SOFFICE is not None
    profile = f"-env:UserInstallation={(table.parent / 'profile').as_uri()}"
    # Double quotes around texts, UTF-8, from the first line on.
    reading = f"--infilter=Text - txt - csv (StarCalc):{separators},34,76,1"
    command = [SOFFICE, profile, "--headless", reading, "--convert-to", "fods", table.name]
    subprocess.run(command, cwd=table.parent, check=True, capture_output=True, timeout=120)
    text = table.with_suffix(".fods").read_text(encoding="utf-8")
    assert "<table:table-cell" in text
    return re.findall('table:formula="([^"]*)"', text)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(SOFFICE is None, reason="LibreOffice is not installed: apt-get install libreoffice-calc")
def test_libreoffice_finds_no_formula_in_predictions(tmp_path: Path) -> None:
    """Names and labels at the edge of what an agreement may have, however the reader separates columns."""
    levels = ["(-5, -1)", "0, =1", "some\nmore", "a; b", "c=d", "-", "-1.5"]
    numbers = ["a=1+1", "0, @1", "x;y\tz"]
    written = ", ".join(json.dumps(level) for level in levels)
    features = ", ".join(f"{{ name = {json.dumps(name)}, bounds = [0, 1] }}" for name in numbers)
    agreed = Agreement.parse(
        f'format = 2\n[model]\nkind = "logistic"\ntarget = {{ name = "ill", labels = ["-", "0, =1"] }}\n'
        f'features = [{features}, {{ name = "l, +1", kind = "category", levels = [{written}] }}]\n{TAIL}'
    )
    reward(agreed, {"weights": 0.1 * np.ones((20, 10))}).save(tmp_path / "edge.nc")
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[*numbers, "l, +1"], *([0.1, 0.2, 0.3, level] for level in levels)])
    run("predict", "edge.nc", "--data", "rows.csv", "-o", "predictions.csv", cwd=tmp_path)
    (tmp_path / "formula.csv").write_text("id,=1+1\nid,a;=1+1\n")
    for name, separators in SEPARATORS.items():
        assert formulas(tmp_path / "predictions.csv", separators) == [], name
        # The same reader does compute what agreements may not have.
        assert (formulas(tmp_path / "formula.csv", separators) == []) == (name == "tabs"), name
