"""Servers to be looked at from outside: as a process, with a certificate of their own."""

import asyncio
import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


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


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it, not for ever."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.01)


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
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
