"""The server as a process: it says where it is, listens there alone, and ends when told to."""

import asyncio
import json
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from equipoise.errors import ServiceError
from equipoise_service.serving import Deployment, _max_per_address, check_exposure, public_url
from equipoise_service.settings import Settings
from equipoise_service.web.connections import HeaderTimeout, Listener
from program import spawn
from service.servers import self_signed, served, until

PROXY = Settings(trusted_proxies=("10.0.0.1",))


@pytest.mark.process
def test_a_first_operator_a_second_start_and_a_clean_end(tmp_path: Path) -> None:
    with served(tmp_path / "data") as (process, said):
        url, link = said["url"], said["operator_link"]
        address, _, secret = link.partition("#")
        assert address == f"{url}/first"
        assert httpx.get(f"{url}/v1/health").json() == {"state": "ready"}
        answer = httpx.post(f"{url}/v1/operators", json={"secret": secret, "name": "olga"})
        token = answer.json()["token"]
        me = httpx.get(f"{url}/v1/me", headers={"Authorization": f"Bearer {token}"})
        assert me.json()["role"] == "operator"
        assert "server" not in me.headers
        port = int(url.rpartition(":")[2])
        taken = spawn("serve", "--data", tmp_path / "other", "--port", port, "--no-worker", cwd=tmp_path, code=11)
        assert f"port {port}" in taken.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    log = (tmp_path / "data.log").read_text()
    assert secret not in log
    assert token not in log
    requests = [line for line in map(json.loads, log.splitlines()) if "route" in line]
    assert [(line["route"], line["status"], line["person"]) for line in requests][-1] == ("/v1/me", 200, "olga")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    new = json.loads(spawn("serve", "--data", "data", "--operator-link", "--json", cwd=tmp_path).stdout)
    assert new["operator_link"].partition("#")[2] != secret
    with served(tmp_path / "data") as (_, again):
        assert again["operator_link"] is None
        assert httpx.get(f"{again['url']}/v1/me", headers={"Authorization": f"Bearer {token}"}).status_code == 200


@pytest.mark.process
@pytest.mark.slow
def test_it_speaks_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with served(tmp_path / "data", "--tls-cert", certificate, "--tls-key", key) as (_, said):
        assert said["url"].startswith("https://127.0.0.1:")
        trust = ssl.create_default_context(cafile=str(certificate))
        answer = httpx.get(f"{said['url']}/v1/service", verify=trust)
        assert answer.status_code == 200
        assert "strict-transport-security" in answer.headers
        trust.maximum_version = ssl.TLSVersion.TLSv1_2
        assert shaken_hands(said["url"], trust, "ECDHE+AESGCM") == "ECDHE-ECDSA-AES256-GCM-SHA384"
        with pytest.raises(ssl.SSLError):
            shaken_hands(said["url"], trust, "ECDHE-ECDSA-AES256-SHA384")
    broken = spawn("serve", "--tls-cert", key, "--tls-key", key, cwd=tmp_path, code=11)
    assert "cannot be used" in broken.stderr
    assert "give both" in spawn("serve", "--tls-key", key, cwd=tmp_path, code=11).stderr


@asynccontextmanager
async def listening(app: Any, max_per_address: int | None = None) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    """A server in this process, and its port."""
    listener = Listener(socket.AF_INET, max_connections=1_000, max_per_address=max_per_address)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)  # so that what nobody reads stays in the server
    server = uvicorn.Server(
        uvicorn.Config(app, http=HeaderTimeout, lifespan="off", log_config=None, timeout_keep_alive=1, loop="asyncio")
    )
    task = asyncio.create_task(server.serve([listener]))
    yield server, listener.getsockname()[1]
    server.should_exit = True
    await task


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where the wait can be made short."""
    from equipoise_service.web import connections

    monkeypatch.setattr(connections, "HEADER_TIMEOUT", 0.2)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def talk(port: int, *parts: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answer = b""
        with suppress(ConnectionError):  # closed while something is said
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.1)
            answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        return answer

    async def main() -> list[bytes]:
        async with listening(app) as (_, port):
            head = b"GET / HTTP/1.1\r\nHost: x\r\n"
            slow = [b"X-Slow: 1\r\n", b"X-Slow: 2\r\n", b"X-Slow: 3\r\n"]
            return [await talk(port), await talk(port, head, *slow), await talk(port, head, b"\r\n")]

    silent, dripping, prompt = asyncio.run(main())
    assert silent == dripping == b""
    assert b"204" in prompt


@pytest.mark.slow
def test_who_does_not_read_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from equipoise_service.web import connections

    monkeypatch.setattr(connections, "READ_CHECK_SECONDS", 0.2)
    size = 2**20

    async def app(scope: Any, receive: Any, send: Any) -> None:
        length = 4 * size if scope["path"] == "/long" else 40_000
        start = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % length)]}
        await send(start)
        await send({"type": "http.response.body", "body": b"x" * length})

    def asked(port: int, what: bytes) -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", port))
        client.sendall(what)
        return client

    async def main() -> tuple[list[int], int]:
        async with listening(app) as (server, port):
            present = server.server_state.connections
            left = []
            ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
            last = ask.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            # Many requests; one whose answer is long; one that is to be closed once it was taken, at once or later.
            for what in (ask * 200, ask.replace(b"/", b"/long", 1), last, ask):
                with asked(port, what):
                    await until(lambda: len(present) == 1)
                    await until(lambda: not present)
                    left.append(len(present))
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=size)
            writer.write(b"GET /long HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            taken = 0
            while part := await reader.read(size // 4):  # steadily, for longer than nothing would be waited for
                taken += len(part)
                await asyncio.sleep(0.01)
            writer.close()
            await writer.wait_closed()
            return left, taken

    left, taken = asyncio.run(main())
    assert left == [0, 0, 0, 0]
    assert taken > 4 * size


def test_one_address_has_a_part_of_the_connections() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def answered(port: int, source: str) -> tuple[bool, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        with suppress(ConnectionError):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            return bool(await asyncio.wait_for(reader.read(100), 5)), writer
        return False, writer

    async def main() -> list[bool]:
        async with listening(app, max_per_address=3) as (server, port):
            tried = [await answered(port, "127.0.0.2") for _ in range(4)]
            tried.append(await answered(port, "127.0.0.3"))
            tried[0][1].close()
            await until(lambda: len(server.server_state.connections) == 3)
            tried.append(await answered(port, "127.0.0.2"))
            for _, writer in tried:
                writer.close()
            await until(lambda: not server.server_state.connections)
            return [answer for answer, _ in tried]

    assert asyncio.run(main()) == [True] * 3 + [False, True, True]
    limits = [_max_per_address(one) for one in (Settings(), Settings(max_connections=80), PROXY)]
    assert limits == [250, 50, None]


@pytest.mark.process
def test_it_is_not_exposed_by_mistake(tmp_path: Path) -> None:
    open_to_all = Deployment(tmp_path, host="0.0.0.0")
    with pytest.raises(ServiceError, match="tls-cert"):
        check_exposure(open_to_all, Settings())
    with pytest.raises(ServiceError, match="public-url"):
        check_exposure(open_to_all, PROXY)
    with pytest.raises(ServiceError, match="public-url"):
        check_exposure(Deployment(tmp_path), PROXY)
    check_exposure(Deployment(tmp_path, host="0.0.0.0", public_url="https://x.example"), PROXY)
    for place in (Deployment(tmp_path), open_to_all):
        with pytest.raises(ServiceError, match=r"'http://x.example:81'.*https://x.example:81"):
            check_exposure(replace(place, public_url="http://x.example:81"), PROXY)
    with pytest.raises(ServiceError, match=r"'http://localhost'.*https://localhost"):
        check_exposure(
            Deployment(tmp_path, public_url="http://localhost"), Settings(tls=(tmp_path / "a", tmp_path / "b"))
        )
    for url in ("http://localhost:81", "http://[::1]", "https://x.example"):
        check_exposure(Deployment(tmp_path, public_url=url), PROXY)
    for host in ("127.0.0.1", "::1", "localhost"):
        check_exposure(Deployment(tmp_path, host=host), Settings())
    assert public_url(Deployment(tmp_path, host="::1"), Settings(), 81) == "http://[::1]:81"
    refused = spawn("serve", "--host", "0.0.0.0", cwd=tmp_path, code=11)
    assert "other machines" in refused.stderr
    assert not (tmp_path / "equipoise-data").exists()
    with pytest.raises(ServiceError, match="neither an address nor a network"):
        Settings(trusted_proxies=("*",))


@pytest.mark.process
def test_help_needs_none_of_the_services_libraries(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom equipoise.cli.app import app\n"
        "for command in ('serve', 'worker'):\n"
        "    try:\n        app([command, '--help'])\n    except SystemExit:\n        pass\n"
        "assert not {'fastapi', 'sqlalchemy', 'uvicorn', 'starlette', 'jax'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.process
def test_a_worker_ends_when_told_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "equipoise", "worker", "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "is ready" in process.stderr.readline()
        time.sleep(0.1)
        process.terminate()
        assert process.wait(30) == 0
        assert "Traceback" not in process.stderr.read()


def shaken_hands(url: str, trust: ssl.SSLContext, ciphers: str) -> str:
    """The cipher that was agreed on."""
    trust.set_ciphers(ciphers)
    port = int(url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        trust.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        agreed = secure.cipher()
        assert agreed is not None
        return agreed[0]
