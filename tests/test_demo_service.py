"""`equipoise demo-service`: the whole round through a service, as a stranger would start it."""

import json
from pathlib import Path

import pytest

from program import spawn

pytestmark = pytest.mark.process


def test_mistakes_start_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert "exists" in spawn("demo-service", "-o", "there", cwd=tmp_path, code=1).stderr
    assert "no demo 'magic'" in spawn("demo-service", "magic", cwd=tmp_path, code=1).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.slow
def test_the_whole_demo(tmp_path: Path) -> None:
    done = spawn("demo-service", "-o", "round", "--port", 0, "--once", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["url"].startswith("http://127.0.0.1:")
    assert set(found["sign_in"]) == {"ana", "north", "south", "west"}
    for name in ("north", "south", "west"):
        files = {path.name for path in (tmp_path / "round" / name).iterdir()}
        assert {f"{name}.csv", f"{name}.receipt.json", f"{name}.nc", "predictions.csv"} <= files
    assert "north$ equipoise submit north.csv --epsilon 4" in done.stderr
    assert (tmp_path / "round" / "ana" / "round.zip").exists()
