"""`equipoise report` writes the edition that is asked for, or says why not."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import equipoise as eq
from equipoise.cli.mediate import report
from equipoise.report import render

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]

app = typer.Typer()
app.command()(report)


@pytest.fixture(scope="module")
def folder(settled: eq.Settlement, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("settled")
    settled.save(place)
    return place


def test_the_operators_edition_is_put_beside_the_settlement(folder: Path) -> None:
    result = CliRunner().invoke(app, [str(folder)], catch_exceptions=False)
    assert "report.html" in result.output
    assert (folder / "report.html").read_text(encoding="utf-8") == render(eq.Settlement.load(folder))


def test_a_partys_edition_as_json(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "north.html"
    result = CliRunner().invoke(
        app, [str(folder), "--party", "north", "-o", str(path), "--json"], catch_exceptions=False
    )
    told = json.loads(result.output)
    assert told["report"] == str(path)
    assert told["party"] == "north"
    assert "Edition for north" in path.read_text(encoding="utf-8")


def test_mistakes_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(eq.MediationError, match="'nowhere' took no part; the parties are north, south, west"):
        CliRunner().invoke(app, [str(folder), "--party", "nowhere"], catch_exceptions=False)
    with pytest.raises(eq.MediationError, match="cannot be read as a settlement"):
        CliRunner().invoke(app, [str(tmp_path / "missing")], catch_exceptions=False)
