"""A whole round by real processes: a server, a worker, an operator, and three parties that see only their own."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import coded
from e2e.processes import Home, Server, Worker, until
from e2e.stage import AGREEMENT, EPSILONS, Stage

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.process]

# What a party's data scientist might leave running: it works against a service and on a shared folder alike.
SCRIPT = """
$equipoise join "{place}" --party {name}
until $equipoise submit {name}.csv --epsilon {epsilon}; do sleep 2; done
$equipoise fetch --wait
$equipoise predict {name}.nc --output predictions.csv
"""


def _play(stage: Stage, server: Server) -> None:
    stage.operator.do("join", server.operator_link, "--party", "ana", "--role", "operator")
    running = {
        name: home.begin(SCRIPT.format(place=server.url, name=name, epsilon=EPSILONS[name]))
        for name, home in stage.parties.items()
    }
    try:

        def waiting() -> list[dict[str, str]]:
            people = stage.operator.do("operator", "people")
            return [one for one in people if one["state"] == "requested"]

        for person in until(lambda: len(waiting()) == len(EPSILONS) and waiting(), 120, "three requests"):
            stage.operator.do("operator", "approve", person["fingerprint"])
        stage.open_round()

        def received() -> bool:
            (one,) = stage.operator.do("operator", "rounds")
            return all(seat["submitted"] for seat in one["seats"])

        until(received, 120, "three submissions")
        stage.start()
        for name, process in running.items():
            said, _ = process.communicate(timeout=300)
            assert process.returncode == 0, f"{name}: {said}"
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
    stage.equals_undisturbed()
    for name, home in stage.parties.items():
        others = [other for other in EPSILONS if other != name]
        assert not [path for path in home.folder.iterdir() for other in others if other in path.name]
        assert (home.folder / "predictions.csv").read_text().startswith("quantity")
        (mine,) = home.do("status")["rounds"]
        assert mine["state"] == "settled"
        assert str(EPSILONS[others[0]]) not in str(mine)


@pytest.mark.exhaustive
def test_a_round_on_sqlite(stage: Stage) -> None:
    with Server(stage.folder / "server", "--no-worker") as server, Worker(stage.folder / "server"):
        _play(stage, server)
        assert server.end() == 0


@pytest.mark.first
def test_a_round_on_postgresql(stage: Stage, postgres_url: str) -> None:
    url = postgres_url
    with (
        Server(stage.folder / "server", "--no-worker", "--database", url) as server,
        Worker(stage.folder / "server", "--database", url),
        Worker(stage.folder / "server", "--database", url),
    ):
        _play(stage, server)


@pytest.mark.usefixtures("all_cores")  # which `mediate` uses
def test_the_same_script_on_a_shared_folder(stage: Stage, tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    (place / "agreement.toml").write_text(AGREEMENT)
    running = {
        name: home.begin(SCRIPT.format(place=place, name=name, epsilon=EPSILONS[name]))
        for name, home in stage.parties.items()
    }
    try:
        until(lambda: len(list(place.glob("submissions/*.json"))) == len(EPSILONS), 120, "three submissions")
        files = [os.path.relpath(path, stage.operator.folder) for path in sorted(place.glob("submissions/*.json"))]
        out = os.path.relpath(place, stage.operator.folder)
        agreement = f"{out}/agreement.toml"
        stage.operator.do("mediate", agreement, *files, "-o", out, "--draws", 1000, "--precision", 0.2)
        for name, process in running.items():
            said, _ = process.communicate(timeout=300)
            assert process.returncode == 0, f"{name}: {said}"
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
    for home in stage.parties.values():
        assert (home.folder / "predictions.csv").read_text().startswith("quantity")


LEVELS = """\
format = 2
[model]
kind = "linear"
features = [
  { name = "age", bounds = [0, 100] },
  { name = "creatinine", bounds = [0.1, 20], transform = "log", missing = "value", fill = 1.2 },
  { name = "smoker", kind = "binary", labels = ["no", "yes"] },
  { name = "region", kind = "category", levels = ["north", "<b>south</b>"], other = true },
]
target = { name = "outcome", bounds = [-8, 8] }
[privacy]
max_epsilon = 16.0
individual = "patient"
aggregate = "last"
[reward]
rho = 0.5
[[parties]]
name = "north"
[[parties]]
name = "south"
"""


@pytest.mark.first
def test_a_round_of_columns_with_levels(tmp_path: Path) -> None:
    """From tables of visits to predictions of raw rows, by commands alone."""
    operator, rng = Home(tmp_path / "operator"), np.random.default_rng(0)
    (operator.folder / "agreement.toml").write_text(LEVELS)
    with Server(tmp_path / "server") as server:
        operator.do("join", server.operator_link, "--party", "ana", "--role", "operator")
        homes = {name: Home(tmp_path / name) for name in ("north", "south")}
        for name, home in homes.items():
            operator.do("operator", "approve", home.do("join", server.url, "--party", name)["fingerprint"])
            visits, _ = coded.rows("linear", 800, rng)
            visits["region"] = visits["region"].replace("south", "<b>south</b>")
            visits.assign(patient=np.arange(800) // 2).to_csv(home.folder / "visits.csv", index=False)
        round_id = operator.do("operator", "create", "agreement.toml")["round"]
        for name, home in homes.items():
            assert home.do("submit", "visits.csv", "--epsilon", EPSILONS[name])["count"] == 400
        operator.do("operator", "start", round_id, "--draws", 400, "--precision", 1)
        until(lambda: operator.do("operator", "rounds")[0]["state"] == "settled", 900, "settled", pause=4)
        for name, home in homes.items():
            home.do("fetch", "-o", "reward.nc")
            (home.folder / "rows.csv").write_text(
                "age,creatinine,smoker,region\n40,,yes,<b>south</b>\n60,2,no,abroad\n"
            )
            home.do("predict", "reward.nc", "--data", "rows.csv", "-o", "predictions.csv")
            predicted = pd.read_csv(home.folder / "predictions.csv")
            assert np.all(predicted["lower"] < predicted["prediction"])
            told = (home.folder / f"{name}.report.html").read_text()
            assert "smoker: yes against no" in told
            assert "region: &lt;b&gt;south&lt;/b&gt; against north" in told
        operator.do("operator", "export", round_id, "-o", "round.zip")
        operator.do("verify", "round.zip")
