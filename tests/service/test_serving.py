"""The server as a process: it says where it is, listens there alone, and ends when told to."""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from equipoise.errors import ServiceError
from equipoise.service.serving import Place, check_exposure, public_url
from equipoise.service.settings import Settings
from program import run

PROXY = Settings(trusted_proxies=("10.0.0.1",))


@contextmanager
def served(folder: Path, *options: object) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """A server without a worker, at any port, and what it said when it was ready; ended by SIGTERM."""
    command = [sys.executable, "-m", "equipoise", "serve", "--data", folder, "--port", 0, "--no-worker", "--json"]
    log = (folder.parent / f"{folder.name}.log").open("w")
    with (
        log,
        subprocess.Popen(
            [str(part) for part in (*command, *options)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder.parent,
            env={**os.environ, "NO_COLOR": "1"},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said, (folder.parent / f"{folder.name}.log").read_text()
            yield process, json.loads(said)
        finally:
            process.terminate()
            process.wait(30)


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
        taken = run("serve", "--data", tmp_path / "other", "--port", port, "--no-worker", cwd=tmp_path, code=11)
        assert f"port {port}" in taken.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    log = (tmp_path / "data.log").read_text()
    assert secret not in log
    assert token not in log
    requests = [line for line in map(json.loads, log.splitlines()) if "route" in line]
    assert [(line["route"], line["status"], line["person"]) for line in requests][-1] == ("/v1/me", 200, "olga")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    new = json.loads(run("serve", "--data", "data", "--operator-link", "--json", cwd=tmp_path).stdout)
    assert new["operator_link"].partition("#")[2] != secret
    with served(tmp_path / "data") as (_, again):
        assert again["operator_link"] is None
        assert httpx.get(f"{again['url']}/v1/me", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_it_speaks_tls(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    with served(tmp_path / "data", "--tls-cert", certificate, "--tls-key", key) as (_, said):
        assert said["url"].startswith("https://127.0.0.1:")
        trust = ssl.create_default_context(cafile=str(certificate))
        answer = httpx.get(f"{said['url']}/v1/service", verify=trust)
        assert answer.status_code == 200
        assert "strict-transport-security" in answer.headers
    broken = run("serve", "--tls-cert", key, "--tls-key", key, cwd=tmp_path, code=11)
    assert "cannot be used" in broken.stderr
    assert "give both" in run("serve", "--tls-key", key, cwd=tmp_path, code=11).stderr


def test_a_silent_connection_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where the wait can be made short."""
    import asyncio

    import uvicorn

    from equipoise.service import connections

    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)

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
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, http=connections.PromptHeads, lifespan="off", log_config=None, timeout_keep_alive=1, loop="asyncio"
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve([listener]))
        port = listener.getsockname()[1]
        head = b"GET / HTTP/1.1\r\nHost: x\r\n"
        answers = [await talk(port), await talk(port, head, b"X-Slow: 1\r\n", b"X-Slow: 2\r\n", b"X-Slow: 3\r\n")]
        answers.append(await talk(port, head, b"\r\n"))
        server.should_exit = True
        await task
        return answers

    silent, dripping, prompt = asyncio.run(main())
    assert silent == dripping == b""
    assert b"204" in prompt


def test_it_is_not_exposed_by_mistake(tmp_path: Path) -> None:
    open_to_all = Place(tmp_path, host="0.0.0.0")
    with pytest.raises(ServiceError, match="tls-cert"):
        check_exposure(open_to_all, Settings())
    with pytest.raises(ServiceError, match="public-url"):
        check_exposure(open_to_all, PROXY)
    with pytest.raises(ServiceError, match="public-url"):
        check_exposure(Place(tmp_path), PROXY)
    check_exposure(Place(tmp_path, host="0.0.0.0", public_url="https://x.example"), PROXY)
    for host in ("127.0.0.1", "::1", "localhost"):
        check_exposure(Place(tmp_path, host=host), Settings())
    assert public_url(Place(tmp_path, host="::1"), Settings(), 81) == "http://[::1]:81"
    refused = run("serve", "--host", "0.0.0.0", cwd=tmp_path, code=11)
    assert "other machines" in refused.stderr
    assert not (tmp_path / "equipoise-data").exists()
    with pytest.raises(ServiceError, match="neither an address nor a network"):
        Settings(trusted_proxies=("*",))


def test_help_and_refusals_need_none_of_the_services_libraries(tmp_path: Path) -> None:
    block = (
        "import sys, importlib.util as util\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('fastapi', 'sqlalchemy', 'uvicorn', 'starlette', 'jax'):\n"
        "            raise AssertionError(f'{name} was imported')\n"
        "real = util.find_spec\n"
        "util.find_spec = lambda name, package=None: None if name == 'uvicorn' else real(name, package)\n"
        "sys.modules.pop('fastapi', None)\n"
    )
    code = block + (
        "from equipoise.cli.app import app\n"
        "from equipoise.errors import ServiceError\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "util.find_spec = lambda name, package=None: None if name == 'uvicorn' else object()\n"
        "for command in ('serve', 'worker'):\n"
        "    try:\n        app([command, '--help'])\n    except SystemExit:\n        pass\n"
        "    try:\n        app([command], standalone_mode=False)\n"
        "    except ServiceError as error:\n        print('refused:', error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("refused: a service needs uvicorn") == 2
    assert result.stdout.count("pip install 'equipoise[service]'") == 2


def test_a_worker_ends_when_told_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "equipoise", "worker", "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "is ready" in process.stderr.readline()
        time.sleep(0.1)
        process.terminate()
        assert process.wait(30) == 0
        assert "Traceback" not in process.stderr.read()


def self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    import ipaddress

    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "tls.crt", folder / "tls.key"
