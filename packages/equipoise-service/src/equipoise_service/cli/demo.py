"""The demo's round through a service: a server, an operator and three hospitals, each a process of its own.

This module uses commands only. Every step is a command that a person could type in a folder of their own; the demo
prints each command as it runs it, so that you can repeat the steps by hand.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.cli.demo.examples import EXAMPLES, HOSPITALS, split_rows
from equipoise.cli.demo.rounds import TEST_FILE, write_table
from equipoise.cli.options import JsonOption
from equipoise.cli.output import claim_folder, echo, print_json
from equipoise.errors import EquipoiseError, ServiceError

OPERATOR = "ana"


@dataclass(frozen=True)
class Address:
    """The URL at which the server listens, and the one-time link for its first operator."""

    url: str
    operator_link: str


@dataclass
class ServiceDemo:
    """A running server and the people who use it, each with a folder."""

    folder: Path
    address: Address
    tell: Callable[[str], None]
    round: str = ""
    fingerprints: dict[str, str] = field(default_factory=dict)

    def play(self, example: str = "regression") -> None:
        """Run the whole round: people, agreement, submissions, settlement, rewards."""
        self.tell("The operator comes by the one-time link, the hospitals ask to join:")
        self._do(OPERATOR, "join", self.address.operator_link, "--party", OPERATOR, "--role", "operator")
        tables = split_rows(EXAMPLES[example].load())
        write_table(self.folder / TEST_FILE, tables["test"])
        for name in HOSPITALS:
            write_table(self._home(name) / f"{name}.csv", tables[name])
            joined = self._do(name, "join", self.address.url, "--party", name)
            self.fingerprints[name] = joined["fingerprint"]
        self.tell("The operator approves each by the fingerprint it was read, and opens a round:")
        for fingerprint in self.fingerprints.values():
            self._do(OPERATOR, "operator", "approve", fingerprint)
        (self._home(OPERATOR) / "agreement.toml").write_text(EXAMPLES[example].agreement, encoding="utf-8")
        self.round = self._do(OPERATOR, "operator", "create", "agreement.toml")["round"]
        self.tell("Each hospital releases at its own ε, sends that, and keeps the receipt:")
        for name, (_, epsilon) in HOSPITALS.items():
            self._do(name, "submit", f"{name}.csv", "--epsilon", f"{epsilon:g}", "--yes")
        self.tell("The operator settles (half a minute):")
        self._do(OPERATOR, "operator", "start", self.round, "--watch")
        self.tell("Each hospital fetches its reward, and predicts with it:")
        for name in HOSPITALS:
            self._do(name, "fetch")
            self._do(name, "predict", f"{name}.nc", "--data", str(Path("..") / TEST_FILE), "-o", "predictions.csv")
        self.tell("The operator exports the round, and anyone who has the file can check it:")
        self._do(OPERATOR, "operator", "export", self.round, "-o", "round.zip")
        self._do(OPERATOR, "verify", "round.zip")

    def sign_in(self, who: str) -> str:
        """Return a one-time link that opens the dashboard for a person."""
        return str(self._do(who, "login", quiet=True)["url"])

    def _home(self, who: str) -> Path:
        home = self.folder / who
        home.mkdir(exist_ok=True)
        return home

    def _do(self, who: str, *arguments: str, quiet: bool = False) -> Any:
        if not quiet:
            self.tell(f"  {who}$ equipoise {' '.join(arguments)}")
        command = [sys.executable, "-m", "equipoise", *arguments, "--json"]
        done = subprocess.run(command, cwd=self._home(who), capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            raise ServiceError(f"`equipoise {' '.join(arguments)}` of {who} failed: {done.stderr.strip()}")
        return json.loads(done.stdout)


@contextmanager
def serving(folder: Path, *, port: int) -> Iterator[Address]:
    """Run a server with its worker, reachable from this machine only, until the block ends."""
    command = [
        *(sys.executable, "-m", "equipoise", "serve", "--data", str(folder / "service")),
        *("--host", "127.0.0.1", "--port", str(port), "--json"),
    ]
    with (folder / "server.log").open("w", encoding="utf-8") as log:
        # In a session of its own, the server does not get Ctrl-C. This process gets it, and then ends the server.
        server = subprocess.Popen(  # noqa: S603
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )  # fmt: skip
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        if not line:
            said = (folder / "server.log").read_text(encoding="utf-8").strip().splitlines()
            raise ServiceError(f"the server did not start: {said[-1] if said else f'exit code {server.wait()}'}")
        document = json.loads(line)
        yield Address(document["url"], document["operator_link"])
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def demo_service(
    kind: Annotated[str, typer.Argument(help="regression or classification")] = "regression",
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder for everybody's files.")] = Path(
        "demo-service-out"
    ),
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.")] = 8351,
    once: Annotated[bool, typer.Option("--once", help="End when the round is over.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Start a service on this machine, let an operator and three hospitals settle a round, and keep it running.

    Example: equipoise demo-service --output demo-service-out
    """
    if kind not in EXAMPLES:
        raise EquipoiseError(f"there is no demo {kind!r}; choose one of {', '.join(EXAMPLES)}")
    claim_folder(output)

    def tell(text: str) -> None:
        echo(text, err=as_json)

    with serving(output.resolve(), port=port) as address:
        tell(f"The service listens at {address.url}; its log is {output / 'server.log'}.")
        demo = ServiceDemo(output.resolve(), address, tell)
        demo.play(kind)
        links = {who: demo.sign_in(who) for who in (OPERATOR, *HOSPITALS)}
        if as_json:
            print_json({"url": address.url, "round": demo.round, "sign_in": links, "folder": str(output)})
        else:
            _show(address.url, demo.round, links, output)
        while not once:
            time.sleep(3600)


def _show(url: str, round_: str, links: dict[str, str], output: Path) -> None:
    echo(f"\nThe dashboard is at {url}/rounds/{round_}. Sign in, once with each link, within ten minutes, as")
    for who, link in links.items():
        echo(f"  {who:8} {link}")
    echo(
        f"\nNew links: equipoise login, in the folder of whoever signs in, for instance {output / 'ana'}.\n"
        "Ctrl-C ends the service; everything stays in its folder."
    )
