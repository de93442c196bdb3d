"""`equipoise reproduce`: names, mistakes, and a whole small run."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.app import app
from equipoise_paper import effort
from equipoise_paper.contents import ITEMS
from program import equipoise, from_json
from reproduction.small import TINY


def test_everything_has_a_name(tmp_path: Path) -> None:
    said = equipoise("reproduce", "--list", cwd=tmp_path)
    assert "Figs. 2a and 3a" in said
    listed = from_json("reproduce", "--list", cwd=tmp_path)
    assert [one["name"] for one in listed] == [item.name for item in ITEMS]
    assert listed[0]["settings"] == ["Syn"]
    assert all(one["name"] in said for one in listed)


def test_mistakes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, says in (
        ((), "nothing to reproduce; name what --list shows, or all"),
        (("figure-9",), "there is no 'figure-9' in the paper; choose among tradeoff-syn, "),
        (("naive-syn", "-o", "file"), "cannot make the folder 'file': File exists; choose another with --output"),
        (("naive-syn", "samples", "--data", "nowhere"), "cannot read 'nowhere/pima_indians_diabetes.csv'"),
    ):
        assert says in equipoise("reproduce", *arguments, cwd=tmp_path, code=10)
    assert not list(tmp_path.rglob("*.csv"))


@pytest.mark.engine
@pytest.mark.usefixtures("one_process")
@pytest.mark.slow
def test_a_figure_is_reproduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "QUICK", TINY)
    folder = tmp_path / "new" / "out"
    result = CliRunner().invoke(app, ["reproduce", "naive-syn", "--output", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)
    assert "Syn: coalitions, and everybody tempered" in result.stderr
    assert {path.name for path in folder.iterdir()} == {
        "index.md",
        "naive-syn.csv",
        "naive-syn-runs.csv",
        "naive-syn.json",
        "naive-syn-values.png",
        "naive-syn-values.svg",
    }
    assert json.loads((folder / "naive-syn.json").read_text()) == found
    assert found["command"] == "equipoise reproduce naive-syn"
    assert found["settings"]["Syn"]["draws"] == TINY.linear
    with (folder / "naive-syn.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["epsilon"]) for row in rows] == [0.004, 0.02, 0.1, 0.5, 2.5, 12.5]
    assert len(found["verdicts"]) == 4
    page = (folder / "index.md").read_text()
    assert page.startswith("# What was reproduced\n\nOf 4 claims")
    assert all(verdict["reason"] in page for verdict in found["verdicts"])
