"""What an experiment leaves behind: numbers, verdicts, pictures, and a page of them all."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from equipoise.errors import ExperimentError
from equipoise.estimate import Estimate
from equipoise_paper.outcome import Outcome, write_rows
from equipoise_paper.page import page
from equipoise_paper.pictures import Curve, draw_contours, draw_curves
from equipoise_paper.verdict import Verdict

RECORD = {
    "shows": "Table: coverage of the input space",
    "command": "equipoise reproduce coverage",
    "settings": {"Syn": {"sampler": "gibbs", "runs": 5, "chains": 16, "draws": 30_000}},
    "seconds": 300.0,
    "machine": "2 cores",
}


def some_outcome() -> Outcome:
    verdicts = [Verdict("it rises", "holds", "from 1 to 2"), Verdict("it falls", "does not hold", "from 1 to 2")]
    rows = [{"setting": "Syn", "rows": 700, "exact": 1 / 3}, {"setting": "Syn", "rows": 70, "exact": 2e7 / 3}]
    return Outcome("coverage", rows, [Path("somewhere/coverage.png")], verdicts, record=RECORD)


def looks(path: Path) -> None:
    """The picture is not blank, and text and lines are in it."""
    if path.suffix == ".svg":
        assert path.read_text().count("<path") > 20
    else:
        pixels = imread(path)
        assert min(pixels.shape[:2]) > 300
        assert 0.01 < np.mean(np.any(pixels[..., :3] < 0.9, axis=2)) < 0.8


def test_numbers_have_six_digits_and_texts_stay(tmp_path: Path) -> None:
    write_rows(tmp_path / "numbers.csv", some_outcome().rows)
    with (tmp_path / "numbers.csv").open(newline="") as file:
        headers, *rows = csv.reader(file)
    assert headers == ["setting", "rows", "exact"]
    assert rows == [["Syn", "700", "0.333333"], ["Syn", "70", "6.66667e+06"]]


def test_what_is_saved_can_be_read(tmp_path: Path) -> None:
    some_outcome().save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["coverage.csv", "coverage.json"]
    found = json.loads((tmp_path / "coverage.json").read_text())
    assert found == some_outcome().to_json()
    assert found["numbers"] == "coverage.csv"
    assert found["pictures"] == ["coverage.png"]
    assert found["verdicts"][1] == {"claim": "it falls", "word": "does not hold", "reason": "from 1 to 2"}
    assert found["machine"] == "2 cores"


def test_numbers_are_means_over_runs_with_their_errors(tmp_path: Path) -> None:
    runs = [
        {"epsilon": level, "run": run, "v": level + 0.1 * run, "v_error": 0.3, "mnlp": 2.0 * run, "rhat": 1 + run / 100}
        for level in (1.0, 2.0)
        for run in (0, 1)
    ]
    outcome = Outcome.of_runs("sweep", runs, ("epsilon",), [], [])
    assert list(outcome.rows[0]) == ["epsilon", "v", "v_error", "mnlp", "mnlp_error", "rhat"]
    assert [row["v"] for row in outcome.rows] == pytest.approx([1.05, 2.05])
    assert outcome.rows[1]["v_error"] == pytest.approx(0.3 / 2**0.5)  # more than these two runs differ by
    assert outcome.rows[0]["mnlp"] == outcome.rows[0]["mnlp_error"] == 1.0
    assert outcome.rows[0]["rhat"] == 1.01
    outcome.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep-runs.csv", "sweep.csv", "sweep.json"]


def test_a_page_counts_verdicts_and_shows_pictures_and_small_tables(tmp_path: Path) -> None:
    some_outcome().save(tmp_path)
    text = page(tmp_path, "there/")
    assert "Of 2 claims, **1 hold**, 1 do not hold, and for 0 these numbers cannot tell." in text
    assert "| it falls | **does not hold** | from 1 to 2 |" in text
    assert "![coverage](there/coverage.png)" in text
    assert "| Syn | 700 | 0.3333 |" in text
    assert "5 runs of Gibbs, 16 chains, 30,000 draws; 5 min on 2 cores" in text
    assert "[coverage.csv](there/coverage.csv)" in text


def test_a_page_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="holds nothing that was reproduced; run equipoise reproduce first"):
        page(tmp_path)


def test_curves(tmp_path: Path) -> None:
    curves = [
        Curve("tempering", (0.01, 0.1, 1.0), [Estimate(1.0, 0.1), Estimate(2.0, 0.1), Estimate(3.0, 0.0)]),
        Curve("added noise", (0.02, 1.0), [Estimate(3.0, 0.5), Estimate(1.0, 0.5)]),
    ]
    for logarithmic in (True, False):
        paths = draw_curves(tmp_path / f"a.b-{logarithmic}", curves, "κ", "r (nats)", logarithmic=logarithmic)
        assert [path.name for path in paths] == [f"a.b-{logarithmic}.png", f"a.b-{logarithmic}.svg"]
        for path in paths:
            looks(path)


def test_contours(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clouds = {
        "prior": 10 * rng.normal(size=(300, 2)),
        "all together": rng.normal(size=(300, 2)) @ [[0.5, 0.2], [0.0, 0.3]] + 2,
        "tempering": rng.normal(size=(300, 2)) + 1,
    }
    for path in draw_contours(tmp_path / "contours", clouds, "weight w1", "weight w2", (0.5, 0.9)):
        looks(path)
