"""The server process: checks its configuration, listens, announces its address, and ends when told to."""

import asyncio
import ipaddress
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import NoReturn
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from equipoise._util.files import exists, replaced_file
from equipoise.errors import ServiceError
from equipoise.protocol.keys import fingerprint
from equipoise_service.context import KEY, Context
from equipoise_service.embedded import EmbeddedWorker
from equipoise_service.jobs.lease import LEASE
from equipoise_service.logs import configure_logging
from equipoise_service.rules import people
from equipoise_service.settings import Settings
from equipoise_service.web.app import create_app
from equipoise_service.web.connections import (
    RESERVED_DESCRIPTORS,
    HandshakeTimeoutLoop,
    HeaderTimeout,
    Listener,
    raise_descriptor_limit,
)
from equipoise_service.web.middleware import ProxyOnly

# Seconds that a connection may be idle between two requests.
KEEP_ALIVE = 15
# Seconds that open requests have left once the server is told to end.
GRACE = 10
BACKLOG = 1_024
# A file in the data folder with the address at which the service was last reached.
ADDRESS_FILE = "address"
MAX_HEADER_BYTES = 32 * 2**10  # bytes
# For TLS 1.2, whose other ciphers are weaker. All ciphers of TLS 1.3 are as strong as these.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
# One address may belong to a whole institution, so it always gets this many connections.
MIN_PER_ADDRESS = 50


@dataclass(frozen=True)
class Deployment:
    """Data folder, database and addresses of a service. Without `public_url`, people reach it where it listens."""

    folder: Path
    database: str | None = None
    host: str = "127.0.0.1"
    port: int = 8351
    public_url: str | None = None
    begin_anew: bool = False  # create a new service if the database of an earlier one is gone


# Called with the address, the one-time link if there is no operator yet (None otherwise), and the fingerprint.
Announce = Callable[[str, str | None, str], None]


def serve(
    deployment: Deployment, settings: Settings, *, worker: bool, announce: Announce, lease: float = LEASE
) -> None:
    """Serve until an interrupt, or until SIGTERM, which ends the process with exit code 0."""
    check_exposure(deployment, settings)
    _check_tls(settings)
    signal.signal(signal.SIGTERM, _exit)
    with ExitStack() as stack:
        listener = stack.enter_context(closing(_listen(deployment, settings)))
        settings = replace(settings, public_url=public_url(deployment, settings, listener.getsockname()[1]))
        context = Context.open(deployment.folder, deployment.database, begin_anew=deployment.begin_anew)
        stack.callback(context.close)
        configure_logging()
        app: ASGIApp = create_app(context, settings)
        if settings.trusted_proxies:
            trusting = ProxyHeadersMiddleware(app, trusted_hosts=list(settings.trusted_proxies))  # type: ignore[arg-type]
            app = ProxyOnly(trusting, settings.trusted_proxies)  # type: ignore[arg-type]
        if worker:
            embedded = EmbeddedWorker(deployment.folder, deployment.database, lease=lease)
            stack.callback(embedded.stop)
            embedded.start()

        def listening() -> None:
            link = None if people.has_operator(context) else _link(context, settings)
            _write_address(deployment.folder, settings.origin)
            announce(settings.origin, link, fingerprint(context.public_key))

        _Server(_config(app, settings), listening).run(sockets=[listener])


def operator_link(deployment: Deployment, settings: Settings) -> str:
    """Return a new one-time link for an operator. Earlier links stop working."""
    if not (deployment.folder / KEY).exists():
        raise ServiceError(f"there is no service in {str(deployment.folder)!r}; give its data folder with --data")
    address_file = deployment.folder / ADDRESS_FILE
    # The port may have been chosen at the start of the server, so the address it wrote down is the better guess.
    if deployment.public_url is None and address_file.exists():
        deployment = replace(deployment, public_url=address_file.read_text(encoding="utf-8").strip())
    _check_public_url(deployment, settings)
    settings = replace(settings, public_url=public_url(deployment, settings, deployment.port))
    with closing(Context.open(deployment.folder, deployment.database)) as context:
        return _link(context, settings)


def check_exposure(deployment: Deployment, settings: Settings) -> None:
    """Refuse a deployment that other machines can reach without TLS, because tokens and rewards could be read."""
    _check_public_url(deployment, settings)
    if is_loopback(deployment.host):
        if settings.trusted_proxies and deployment.public_url is None:
            raise ServiceError("--behind-proxy needs --public-url: the address at which people reach the proxy")
        return
    if settings.tls is None and not settings.trusted_proxies:
        raise ServiceError(
            f"--host {deployment.host} can be reached from other machines, and what they send could be read on the "
            "way; give --tls-cert and --tls-key, or put a reverse proxy in front and give --behind-proxy ADDRESS"
        )
    if deployment.public_url is None:
        raise ServiceError(
            f"--host {deployment.host} needs --public-url: the address at which people reach the service, as in "
            "https://rounds.example.org"
        )


def _check_public_url(deployment: Deployment, settings: Settings) -> None:
    parts = urlsplit(deployment.public_url or "")
    if parts.scheme != "http":
        return
    better = f"https://{parts.netloc}"
    if settings.tls is not None:
        raise ServiceError(
            f"--public-url {deployment.public_url!r} is without TLS, but --tls-cert is given; write {better}, or leave "
            "out the certificate"
        )
    if not is_loopback(parts.hostname or ""):
        raise ServiceError(
            f"--public-url {deployment.public_url!r} is without TLS, so that what people send could be read on the "
            f"way; write {better}, and give --tls-cert and --tls-key or let the reverse proxy end TLS"
        )


def is_loopback(host: str) -> bool:
    """Return True if a host is a loopback address, which only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def public_url(deployment: Deployment, settings: Settings, port: int) -> str:
    """Return the address at which people reach the service."""
    if deployment.public_url is not None:
        return deployment.public_url
    scheme = "http" if settings.tls is None else "https"
    name = f"[{deployment.host}]" if ":" in deployment.host else deployment.host
    return f"{scheme}://{name}:{port}"


def _write_address(folder: Path, origin: str) -> None:
    path, line = folder / ADDRESS_FILE, f"{origin}\n"
    try:
        if exists(path) and path.read_text(encoding="utf-8") == line:
            # A restart must work even if the disk is full.
            return
        with replaced_file(path) as partial:
            partial.write_text(line, encoding="utf-8")
    except OSError as error:
        raise ServiceError(
            f"cannot write into the data folder {str(folder)!r}: {error.strerror}; free some room, or make it writable"
        ) from error


def _link(context: Context, settings: Settings) -> str:
    # The secret follows the #, because browsers do not send that part, so no log can contain it.
    return f"{settings.origin}/first#{people.first_operator_secret(context)}"


def _check_tls(settings: Settings) -> None:
    if settings.tls is None:
        return
    certificate, key = settings.tls
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    # Errors of OpenSSL are OSErrors.
    except (OSError, ValueError) as error:
        raise ServiceError(
            f"the certificate {str(certificate)!r} and key {str(key)!r} cannot be used: "
            f"{getattr(error, 'strerror', None) or error}; both must be PEM files, and the key unencrypted"
        ) from error


def _listen(deployment: Deployment, settings: Settings) -> Listener:
    most = max(1, min(2 * settings.max_connections, raise_descriptor_limit() - RESERVED_DESCRIPTORS))
    try:
        family, _, _, _, address = socket.getaddrinfo(
            deployment.host, deployment.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = Listener(family, max_connections=most, max_per_address=_max_per_address(settings))
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
    except (OSError, OverflowError) as error:
        raise ServiceError(
            f"cannot listen at {deployment.host} port {deployment.port}: {getattr(error, 'strerror', None) or error}; "
            "is another service running there? choose another with --port, or --port 0 for any that is free"
        ) from error
    listener.setblocking(False)
    return listener


def _config(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    certificate, key = settings.tls or (None, None)
    return uvicorn.Config(
        app,
        loop=f"{HandshakeTimeoutLoop.__module__}:{HandshakeTimeoutLoop.__name__}",
        http=HeaderTimeout,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        # `serve` evaluates these headers itself, and refuses connections that bypass the proxy.
        proxy_headers=False,
        server_header=False,
        limit_concurrency=settings.max_connections,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        ssl_ciphers=CIPHERS,
    )


def _max_per_address(settings: Settings) -> int | None:
    """Return the most connections of one address; None behind a proxy, which must limit its clients itself."""
    if settings.trusted_proxies:
        return None
    return max(MIN_PER_ADDRESS, settings.max_connections // 4)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            await asyncio.to_thread(self._listening)


def _exit(_number: int, _frame: FrameType | None) -> NoReturn:
    """Exit with code 0, because SIGTERM is no failure. A running server handles the signal first, then calls this."""
    sys.exit(0)
