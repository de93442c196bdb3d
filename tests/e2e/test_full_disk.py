"""Disks without room: a message says so, nothing that was accepted is lost, and work goes on once there is room."""

from pathlib import Path

import httpx
import pytest

import equipoise as eq
import rounds
from e2e.processes import Home, Server, until
from e2e.stage import EPSILONS, OPTIONS, Stage
from full_disk import small_disk

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.process]


def test_a_service_whose_disk_is_full_goes_on_once_there_is_room(stage: Stage) -> None:
    north = stage.parties["north"]
    with small_disk(stage.folder / "server" / "data", "8m") as disk:
        with Server(stage.folder / "server") as server:
            stage.enter(server)
            disk.fill()
            assert "the disk of the database is full" in north.do("submit", "north.csv", "--epsilon", 8, code=11)
            health = httpx.get(f"{server.url}/v1/health")
            assert (health.status_code, health.json()["error"]["code"]) == (503, "disk-full")
        with Server(stage.folder / "server", port=server.port) as server:  # starts on the full disk, and can be read
            assert httpx.get(f"{server.url}/v1/service").status_code == 200
            disk.make_room()
            stage.submit()
            stage.start()
            until(lambda: "began settlement" in server.said(), 60, "a worker has it")
            disk.fill()
            until(lambda: "is full" in server.said().partition("began settlement")[2], 60, "the worker noticed")
            disk.make_room()
            stage.finished()
            stage.equals_undisturbed()


def test_mediating_on_a_disk_that_is_too_small_goes_on_once_there_is_room(tmp_path: Path) -> None:
    """Whatever does not fit: an answer into the journal, a reward, a report. HDF5 would crash on such a disk."""
    home = Home(tmp_path / "operator")
    (home.folder / "agreement.toml").write_text(rounds.agreement_text("gaussian"))
    sent = rounds.submissions(rounds.agreement("gaussian"), tmp_path / "ledgers", tuple(EPSILONS.values()))
    for one in sent:
        one.save(home.folder / f"{one.party}.json")
    files = [f"{one.party}.json" for one in sent]
    options = [text for name, value in OPTIONS.items() for text in (f"--{name}", value)]
    expected = eq.mediate(rounds.agreement("gaussian"), sent, **OPTIONS, processes=1)
    kept = 0
    with small_disk(home.folder / "disk", "4k") as disk:
        for size, problem in (
            ("4k", "cannot write 'disk/out/journal.jsonl': No space left on device"),
            ("64k", "cannot write the settlement into 'disk/out': No space left on device"),
            ("500k", "cannot write the report 'disk/out/"),
        ):
            disk.resize(size)
            said = home.do("mediate", "agreement.toml", *files, "-o", "disk/out", *options, code=9)
            assert problem in said
            assert "room" in said
            assert not list(disk.folder.rglob(".*.partial"))
            answers = len((disk.folder / "out" / "journal.jsonl").read_bytes().splitlines())
            assert answers > 1
            assert answers >= kept
            kept = answers
        disk.resize("8m")
        home.do("mediate", "agreement.toml", *files, "-o", "disk/out", *options)
        settled = eq.Settlement.load(disk.folder / "out")
        assert settled.decisions == expected.decisions
        assert {name: award.digest for name, award in settled.awards.items()} == {
            name: award.digest for name, award in expected.awards.items()
        }
