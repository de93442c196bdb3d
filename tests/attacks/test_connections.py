"""One address that opens connections and says nothing, where TLS waits for it to begin."""

import asyncio
import errno
import json
import logging
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from equipoise_service.logs import RepeatFilter
from equipoise_service.serving import Deployment, _config, _listen
from equipoise_service.settings import Settings
from equipoise_service.web import connections
from equipoise_service.web.connections import HandshakeTimeoutLoop, Listener
from service.servers import self_signed, served, until

ATTACKER = "127.0.0.2"


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def secured(folder: Path, max_connections: int) -> AsyncIterator[tuple[Listener, int]]:
    """A server with TLS in this process, set up as `serve` does."""
    settings = Settings(tls=self_signed(folder), max_connections=max_connections)
    listener = _listen(Deployment(folder, port=0), settings)
    config = _config(app, settings)
    config.lifespan = "off"
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve([listener]))
    await until(lambda: server.started)
    yield listener, listener.getsockname()[1]
    server.should_exit = True
    await task


async def asked(folder: Path, port: int, source: str) -> int:
    """What a good client is answered."""
    trust = ssl.create_default_context(cafile=str(folder / "tls.crt"))
    transport = httpx.AsyncHTTPTransport(verify=trust, local_address=source)
    async with httpx.AsyncClient(transport=transport, timeout=5) as client:
        return (await client.get(f"https://127.0.0.1:{port}/")).status_code


def silent(port: int, number: int, stack: ExitStack) -> list[socket.socket]:
    """Connections of the attacker's, on which nothing is said."""
    return [
        stack.enter_context(socket.create_connection(("127.0.0.1", port), source_address=(ATTACKER, 0)))
        for _ in range(number)
    ]


def test_silent_connections_are_counted_and_closed_before_the_handshake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HANDSHAKE_TIMEOUT", 0.3)

    async def main() -> None:
        async with secured(tmp_path, max_connections=200) as (listener, port):
            with ExitStack() as stack:
                opened = silent(port, 60, stack)
                await until(lambda: listener.open[ATTACKER] == 50)  # the rest was turned away
                assert await asked(tmp_path, port, "127.0.0.3") == 204
                await until(lambda: not listener.open)  # by the clock, though nobody hung up
                for one in opened:
                    one.settimeout(5)
                    assert one.recv(1) == b""
            assert await asked(tmp_path, port, ATTACKER) == 204  # and may come again

    with asyncio.Runner(loop_factory=HandshakeTimeoutLoop) as runner:
        runner.run(main())


def test_all_connections_have_a_limit_below_the_systems(tmp_path: Path) -> None:
    with _listen(Deployment(tmp_path, port=0), Settings(max_connections=10**9)) as listener:
        assert (
            listener.max_connections == resource.getrlimit(resource.RLIMIT_NOFILE)[0] - connections.RESERVED_DESCRIPTORS
        )
    with Listener(socket.AF_INET, max_connections=2, max_per_address=None) as listener, ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        silent(listener.getsockname()[1], 3, stack)
        kept = [listener.accept()[0], listener.accept()[0]]
        assert {one.proto for one in kept} == {socket.IPPROTO_TCP}  # or answers would wait for acknowledgements
        with pytest.raises(ConnectionAbortedError):
            listener.accept()
        kept.pop().close()
        silent(listener.getsockname()[1], 1, stack)
        kept.append(listener.accept()[0])
        for one in kept:
            one.close()
            one.close()
        assert not listener.open


def test_a_system_without_room_is_not_asked_a_thousand_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Any) -> Any:
        raise OSError(errno.EMFILE, "too many open files")

    with Listener(socket.AF_INET, max_connections=2, max_per_address=None) as listener:
        monkeypatch.setattr(socket.socket, "accept", full)
        with pytest.raises(OSError, match="too many open files"):
            listener.accept()
        with pytest.raises(BlockingIOError):  # which ends asyncio's loop
            listener.accept()


def test_such_lines_are_written_once_a_minute() -> None:
    now = 0.0
    only = RepeatFilter(clock=lambda: now)

    def said(name: str, level: int, text: str) -> str | None:
        record = logging.LogRecord(name, level, "", 0, text, (), None)
        return record.getMessage() if only.filter(record) else None

    for _ in range(1_000):
        said("asyncio", logging.ERROR, "socket.accept() out of system resource\nsocket: <…>")
    assert said("uvicorn.error", logging.WARNING, "Invalid HTTP request received.") is not None
    assert said("uvicorn.error", logging.WARNING, "Invalid HTTP request received.") is None
    assert said("uvicorn.error", logging.ERROR, "something else") == "something else"
    now = 61.0
    assert said("asyncio", logging.ERROR, "socket.accept() out of system resource\nsocket: <…>") == (
        "socket.accept() out of system resource (999 more like this since the last line)"
    )


@pytest.mark.process
def test_a_service_with_few_descriptors_outlives_a_thousand_silent_connections(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))  # for the server, which inherits it
    try:
        running = served(tmp_path / "data", "--tls-cert", certificate, "--tls-key", key)
        _, said = running.__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    with ExitStack() as stack:
        stack.push(running)
        silent(int(said["url"].rpartition(":")[2]), 1_200, stack)
        trust = ssl.create_default_context(cafile=str(certificate))
        began = time.monotonic()
        assert httpx.get(f"{said['url']}/v1/health", verify=trust, timeout=10).status_code == 200
        assert time.monotonic() - began < 5
    log = (tmp_path / "data.log").read_text()
    assert len(log) < 10_000
    turned_away = [json.loads(line) for line in log.splitlines() if "turned a connection away" in line]
    assert len(turned_away) == 1
