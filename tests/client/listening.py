"""A real service on a port of this machine, in a thread of the test; and its members' commands in this process."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
import uvicorn
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import rounds
from equipoise._util.files import write_new_file
from equipoise.cli.app import app
from equipoise.client.membership import Membership, Place, Role
from equipoise.protocol.keys import load_or_create_key
from equipoise_service.context import Context
from equipoise_service.settings import Rate, Rates, Settings
from equipoise_service.web.app import create_app
from service.world import key_of

FAST = Rate(1e6, 10**6)


@contextmanager
def listening(context: Context) -> Iterator[str]:
    """Serve until the block ends; the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        served = create_app(context, Settings(public_url=url, rates=Rates(FAST, FAST, FAST)))
        server = uvicorn.Server(uvicorn.Config(served, log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield url
        finally:
            server.should_exit = True
            thread.join()


def member(folder: Path, url: str, audience: str, name: str, role: Role = "party") -> Membership:
    """A membership with a key of its own."""
    folder.mkdir(exist_ok=True)
    load_or_create_key(folder / f"{name}.key")
    return Membership(Place(url=url), audience, name, role, folder / f"{name}.key", folder / f"{name}.ledger")


def known_member(folder: Path, url: str, audience: str, name: str) -> Membership:
    """A membership with the key that the service of a `World` knows, where commands find it."""
    folder.mkdir(exist_ok=True)
    pem = key_of(name).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if not (folder / f"{name}.key").exists():
        write_new_file(folder / f"{name}.key", pem, mode=0o600)
    made = member(folder, url, audience, name)
    made.save(folder / "equipoise.json")
    return made


@dataclass
class Commands:
    """Runs the program in this process, in a folder; real processes are slower, and `program.run` has them."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch
    errors: str = ""  # what the last command told people on standard error

    def __call__(self, *arguments: object) -> Any:
        """What a command says as JSON; what it refuses is raised."""
        self.patch.chdir(self.folder)
        self.capture.readouterr()
        with mock.patch("equipoise.party.release.perturb", rounds.seeded(5)):
            app([*(str(argument) for argument in arguments), "--json"], standalone_mode=False)
        return json.loads(self.capture.readouterr().out)

    def said(self, *arguments: object) -> str:
        """What it says to people."""
        self.patch.chdir(self.folder)
        self.capture.readouterr()
        with mock.patch("equipoise.party.release.perturb", rounds.seeded(5)):
            app([str(argument) for argument in arguments], standalone_mode=False)
        captured = self.capture.readouterr()
        self.errors = captured.err
        return captured.out

    def at(self, folder: Path) -> "Commands":
        """Somebody else's."""
        folder.mkdir(exist_ok=True)
        return Commands(folder, self.capture, self.patch)


class Altering(httpx.BaseTransport):
    """A network in which somebody changes answers; the service itself, if it lies."""

    def __init__(self, where: str, change: Callable[[bytes], bytes]) -> None:
        self.where, self.change, self.inner = where, change, httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self.inner.handle_request(request)
        if not request.url.path.endswith(self.where):
            return response
        response.read()
        headers = {name: value for name, value in response.headers.items() if name != "content-length"}
        return httpx.Response(response.status_code, headers=headers, content=self.change(response.content))

    def close(self) -> None:
        self.inner.close()
