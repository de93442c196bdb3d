"""A round with three parties, played by commands; and what it must come to."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
import rounds
from e2e.processes import Home, Server, until

# Their noise is real. With a fairness exponent that is agreed, no draw of it keeps a round from being settled.
EPSILONS = {"north": 8.0, "south": 2.0, "west": 0.5}
OPTIONS: dict[str, Any] = {"draws": 1_000, "precision": 0.2}
AGREEMENT = """\
format = 1
title = "Blood pressure, three practices"
[model]
kind = "gaussian"
target = { name = "y", bounds = [-3, 3] }
[privacy]
order = 2
max_epsilon = 100.0
[reward]
rho = 0.5
[[parties]]
name = "north"
[[parties]]
name = "south"
[[parties]]
name = "west"
"""


class Stage:
    """Folders of the server, the operator and the parties."""

    def __init__(self, folder: Path, agreed: eq.Agreement) -> None:
        self.folder, self.agreed = folder, agreed
        self.operator = Home(folder / "operator")
        self.parties = {name: Home(folder / name) for name in EPSILONS}
        self.round = ""
        for number, (name, home) in enumerate(self.parties.items()):
            values = np.asarray(rounds.table("gaussian", 300, number)["y"])
            (home.folder / f"{name}.csv").write_text("y\n" + "\n".join(f"{value:.6f}" for value in values) + "\n")

    def enter(self, server: Server) -> None:
        """The operator comes by the link, the parties join and are approved, and a round is opened."""
        self.operator.do("join", server.operator_link, "--party", "ana", "--role", "operator")
        for name, home in self.parties.items():
            joined = home.do("join", server.url, "--party", name)
            self.operator.do("operator", "approve", joined["fingerprint"])
        self.open_round()

    def open_round(self) -> None:
        """Open a round of the agreement."""
        (self.operator.folder / "agreement.toml").write_text(AGREEMENT)
        self.round = self.operator.do("operator", "create", "agreement.toml")["round"]

    def submit(self) -> None:
        """Everybody submits."""
        for name, home in self.parties.items():
            home.do("submit", f"{name}.csv", "--epsilon", EPSILONS[name])

    def start(self) -> None:
        """The operator starts the settlement."""
        options = [text for name, value in OPTIONS.items() for text in (f"--{name}", value)]
        self.operator.do("operator", "start", self.round, *options)

    def finished(self, seconds: float = 240) -> None:
        """Wait for the settlement."""

        def settled() -> bool:
            (one,) = [one for one in self.operator.do("operator", "rounds") if one["id"] == self.round]
            return bool(one["state"] == "settled")

        until(settled, seconds, "settled", pause=4)

    def exported(self) -> Path:
        """The whole round as a file, checked by `equipoise verify`."""
        path = self.operator.folder / f"{self.round}.zip"
        self.operator.do("operator", "export", self.round, "-o", path.name)
        self.operator.do("verify", path.name)
        return path

    def equals_undisturbed(self) -> None:
        """The round came to the very decisions and rewards that `mediate` comes to, and everybody gets its own."""
        with zipfile.ZipFile(self.exported()) as archive:
            sent = [eq.Submission.parse(archive.read(f"submissions/{name}.json")) for name in EPSILONS]
            agreed = eq.Agreement.model_validate_json(archive.read("agreement.json"))
            settled = json.loads(archive.read("settlement.json"))
        expected = eq.mediate(agreed, sent, **OPTIONS, processes=1)
        assert eq.Settlement.parse(settled).decisions == expected.decisions
        for name, home in self.parties.items():
            path = home.folder / f"{name}.nc"
            if not path.exists():
                home.do("fetch")
            assert eq.Reward.load(path).digest == expected.awards[name].digest
