"""`equipoise demo-service`: the whole round through a service, as a stranger would start it."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from equipoise_service.cli.demo import Address, ServiceDemo
from program import run, spawn

pytestmark = pytest.mark.process


def test_mistakes_start_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    assert "exists" in spawn("demo-service", "-o", "there", cwd=tmp_path, code=1).stderr
    assert "no demo 'magic'" in spawn("demo-service", "magic", cwd=tmp_path, code=1).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_nobody_is_asked_who_could_not_answer(tmp_path: Path) -> None:
    """Its commands inherit the terminal, and what they print is kept: a question would wait for ever."""
    told: list[str] = []
    said: list[str] = []

    def played(self: ServiceDemo, who: str, *arguments: str, quiet: bool = False) -> dict[str, str]:
        told.append(" ".join(arguments))
        return {"fingerprint": who, "round": "one"}

    with mock.patch.object(ServiceDemo, "_do", played):
        ServiceDemo(tmp_path, Address("http://127.0.0.1", "link"), said.append).play()
    submits = [line for line in told if line.startswith("submit")]
    assert len(submits) == 3
    assert all(line.endswith("--yes") for line in submits)


@pytest.mark.slow
@pytest.mark.first
def test_the_whole_demo(tmp_path: Path) -> None:
    """Every step as it is told, but that the round is settled with less precision."""
    do = ServiceDemo._do

    def roughly(self: ServiceDemo, who: str, *arguments: str, quiet: bool = False) -> Any:
        options = ("--draws", "1000", "--precision", "0.3") if arguments[:2] == ("operator", "start") else ()
        return do(self, who, *arguments, *options, quiet=quiet)

    with mock.patch.object(ServiceDemo, "_do", roughly):
        done = run("demo-service", "-o", "round", "--port", 0, "--once", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["url"].startswith("http://127.0.0.1:")
    assert set(found["sign_in"]) == {"ana", "north", "south", "west"}
    for name in ("north", "south", "west"):
        files = {path.name for path in (tmp_path / "round" / name).iterdir()}
        assert {f"{name}.csv", f"{name}.receipt.json", f"{name}.nc", "predictions.csv"} <= files
    assert "north$ equipoise submit north.csv --epsilon 1 --yes" in done.stderr  # on a terminal nobody could answer
    assert (tmp_path / "round" / "ana" / "round.zip").exists()
