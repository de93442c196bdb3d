"""TLS: by the server itself, and by nginx in front of it, set up as the documents say."""

import datetime
import ipaddress
import re
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from e2e.processes import Home, Server, until
from pages import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.process]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for this machine alone, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    today = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    places = tmp_path / "cert.pem", tmp_path / "key.pem"
    places[0].write_bytes(signed.public_bytes(Encoding.PEM))
    places[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return places


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _join(folder: Path, url: str, certificate: Path) -> None:
    """A party that trusts the certificate gets in line; one that does not, refuses to talk."""
    joined = Home(folder / "north").do("join", url, "--party", "north", "--ca", certificate)
    assert joined["state"] == "requested"
    assert "certificate" in Home(folder / "south").do("join", url, "--party", "south", code=11)


def test_the_server_speaks_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    tls = ("--tls-cert", certificate[0], "--tls-key", certificate[1])
    with Server(tmp_path / "server", "--no-worker", *tls) as server:
        assert server.url.startswith("https://")
        _join(tmp_path, server.url, certificate[0])


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed: make test-packages")
def test_nginx_as_documented(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    outside, inside = _free_port(), _free_port()
    documented = re.search(r"```text\n(server \{.*?\n\})\n```", (ROOT / "docs" / "service.md").read_text(), re.S)
    assert documented is not None
    changes = {
        "443 ssl": f"127.0.0.1:{outside} ssl",
        "mediator.example.org": "localhost",
        "/etc/ssl/mediator.pem": str(certificate[0]),
        "/etc/ssl/mediator.key": str(certificate[1]),
        "8351": str(inside),
    }
    block = documented[1]
    for old, new in changes.items():
        assert old in block
        block = block.replace(old, new)
    temporary = "".join(
        f"{kind}_temp_path {tmp_path / kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(
        f"daemon off;\nuser root;\npid {tmp_path / 'nginx.pid'};\nerror_log {tmp_path / 'error.log'};\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{block}\n}}\n"
    )
    url = f"https://localhost:{outside}"
    nginx = subprocess.Popen(["nginx", "-c", str(configuration), "-p", str(tmp_path)], stderr=subprocess.DEVNULL)
    try:
        behind = ("--no-worker", "--behind-proxy", "127.0.0.1", "--public-url", url)
        with Server(tmp_path / "server", *behind, port=inside) as server:
            assert server.url == url
            until(lambda: _listens(outside), 20, "nginx listens")
            _join(tmp_path, url, certificate[0])
            with httpx.Client(verify=ssl.create_default_context(cafile=certificate[0])) as browser:
                seen = browser.get(url)
                assert seen.status_code == 200
                assert "max-age" in seen.headers["strict-transport-security"]
                # Whoever comes from elsewhere cannot say that it came from somewhere else.
                browser.get(f"{url}/v1/health", headers={"X-Forwarded-For": "203.0.113.9"})
            assert "203.0.113.9" not in server.said()
    finally:
        nginx.terminate()
        nginx.wait(30)
