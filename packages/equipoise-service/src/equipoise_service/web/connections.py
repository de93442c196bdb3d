"""Connections: counted when they are accepted, timed from then on, and aborted if the client keeps silent.

Otherwise a client with a few hundred silent connections could lock everybody else out. Counting later would miss
connections in the TLS handshake: asyncio allows a minute for it, and only then does our protocol learn of them. So the
listening socket itself closes connections over the limits, and the event loop shortens the time for handshakes.
"""

import asyncio
import errno
import logging
import socket
import sys
import time
import weakref
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from equipoise_service.web.rate_limit import client_address

if sys.platform != "win32":
    import resource

LOGGER = logging.getLogger("equipoise.connections")

HANDSHAKE_TIMEOUT = 5.0
# Seconds that TLS has to shut down.
SHUTDOWN_TIMEOUT = 5.0
# Descriptors kept free for the database, files and workers.
RESERVED_DESCRIPTORS = 200
# Seconds without attempts to accept when the system has no room for a connection. Asyncio itself pauses for one second.
ACCEPT_PAUSE = 0.5
HEADER_TIMEOUT = 10.0
READ_CHECK_SECONDS = 30.0
# Bytes per second. Every real line is faster, and hundreds of connections at this rate are costly for an attacker.
MIN_READ_RATE = 4 * 2**10
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Listener(socket.socket):
    """A listening socket that limits open connections, in all and per address (None: no limit per address)."""

    def __init__(self, family: int, *, max_connections: int, max_per_address: int | None) -> None:
        # Name the protocol: asyncio sends small answers at once (TCP_NODELAY) only if it is sure that this is TCP.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.max_connections, self.max_per_address = max_connections, max_per_address
        self.open: Counter[str] = Counter()  # by address
        self._paused_until = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next connection. One over a limit is closed at once, logged, and reported as aborted."""
        if time.monotonic() < self._paused_until:
            raise BlockingIOError(errno.EAGAIN, "the system has no room for connections")
        try:
            plain, address = super().accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                # Asyncio stops listening for a second, but before that it would try, and log, a thousand times.
                self._paused_until = time.monotonic() + ACCEPT_PAUSE
            raise
        peer = client_address({"client": address})
        if self.open.total() >= self.max_connections:
            plain.close()
            LOGGER.warning("turned a connection away: there are as many as can be, in all")
            raise ConnectionAbortedError(errno.ECONNABORTED, "too many connections")
        if self.max_per_address is not None and self.open[peer] >= self.max_per_address:
            plain.close()
            LOGGER.warning("turned a connection away: its address has as many as one may have")
            raise ConnectionAbortedError(errno.ECONNABORTED, "too many connections of one address")
        self.open[peer] += 1
        return _CountedSocket(plain, self.open, peer), address


class _CountedSocket(socket.socket):
    """A connection that is counted until it is closed or garbage-collected."""

    def __init__(self, plain: socket.socket, open_: Counter[str], peer: str) -> None:
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self._leave = weakref.finalize(self, _uncount, open_, peer)
        self._leave.atexit = False

    def close(self) -> None:
        self._leave()
        super().close()


class HandshakeTimeoutLoop(asyncio.SelectorEventLoop):
    """An event loop with a short timeout for TLS handshakes, for which uvicorn has no setting."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """Create a server as asyncio does, with shorter timeouts for TLS."""
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": HANDSHAKE_TIMEOUT, "ssl_shutdown_timeout": SHUTDOWN_TIMEOUT}
        return await super().create_server(*args, **options)


class HeaderTimeout(H11Protocol):
    """The HTTP/1.1 protocol with timeouts for receiving the head of a request and for reading a response.

    Uvicorn would wait for ever for both. The connection is aborted, because closing it would wait until the client has
    read everything.
    """

    _header_timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None
    _unread = 0  # bytes at the last check

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_header_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._start_header_timer()
        else:
            self._stop_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_header_timer()
        self._stop_reader_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_reader_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        # If the connection is closing, the peer must still read the rest in time.
        if not self.transport.is_closing():
            self._stop_reader_timer()

    # All three methods below may close the connection, which waits until the peer has read all that was written.

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._start_reader_timer()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._start_reader_timer()

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg)
        self._start_reader_timer()

    def _start_header_timer(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_TIMEOUT, self._on_header_timeout)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _on_header_timeout(self) -> Any:
        self._header_timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.abort()

    def _start_reader_timer(self) -> None:
        if self._reader_timer is None:
            self._unread = self.transport.get_write_buffer_size()
            self._reader_timer = self.loop.call_later(READ_CHECK_SECONDS, self._check_reader)

    def _stop_reader_timer(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _check_reader(self) -> Any:
        """Abort the connection if its peer reads the response more slowly than `MIN_READ_RATE`."""
        self._reader_timer = None
        taken = self._unread - self.transport.get_write_buffer_size()
        if taken < MIN_READ_RATE * READ_CHECK_SECONDS:
            self.transport.abort()
        else:
            self._start_reader_timer()


def raise_descriptor_limit() -> int:
    """Raise the limit of open descriptors as far as this process may; return the limit."""
    if sys.platform == "win32":
        # Windows has no such limit for sockets.
        return 2**16
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, 2**16) if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    # Some systems have another limit, which they do not report.
    except (OSError, ValueError):
        return soft
    return wanted


def _uncount(open_: Counter[str], peer: str) -> None:
    open_[peer] -= 1
    if not open_[peer]:
        # Otherwise the counter would remember every address that ever connected.
        del open_[peer]
