"""Where connections come in: counted as they are accepted, and timed from then on, before TLS has said anything.

What is counted later is not counted at all while somebody keeps silent: TLS is given a minute for its handshake by
asyncio, and until that ends no protocol of ours knows of the connection. So the listening socket itself turns away who
has too many, and the event loop has less patience with handshakes.
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

from equipoise.service.web.rate_limit import sender

LOGGER = logging.getLogger("equipoise.connections")

HANDSHAKE_SECONDS = 5.0
GOODBYE_SECONDS = 5.0  # for TLS to end well
RESERVED = 200  # descriptors for the database, files and workers
PAUSE = 0.5  # seconds, when the system has no room for a connection; asyncio waits for one
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Listener(socket.socket):
    """Accepts at most so many connections at one time, and of one address (None: as many as of all)."""

    def __init__(self, family: int, *, most: int, most_of_one: int | None) -> None:
        # By its name: asyncio sends small answers at once (TCP_NODELAY) only where it is sure that this is TCP.
        super().__init__(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.most, self.most_of_one = most, most_of_one
        self.present: Counter[str] = Counter()  # by address
        self._resting_until = 0.0

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; one too many is closed at once, without a word, and counts as one that hung up."""
        if time.monotonic() < self._resting_until:
            raise BlockingIOError(errno.EAGAIN, "the system has no room for connections")
        try:
            plain, address = super().accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                # asyncio takes the listener out for a second, but before that it would ask, and log, a thousand times.
                self._resting_until = time.monotonic() + PAUSE
            raise
        peer = sender({"client": address})
        if self.present.total() >= self.most:
            plain.close()
            LOGGER.warning("turned a connection away: there are as many as can be, in all")
            raise ConnectionAbortedError(errno.ECONNABORTED, "too many connections")
        if self.most_of_one is not None and self.present[peer] >= self.most_of_one:
            plain.close()
            LOGGER.warning("turned a connection away: its address has as many as one may have")
            raise ConnectionAbortedError(errno.ECONNABORTED, "too many connections of one address")
        self.present[peer] += 1
        return _Counted(plain, self.present, peer), address


class _Counted(socket.socket):
    """A connection that is taken off the count when it is closed, or forgotten."""

    def __init__(self, plain: socket.socket, present: Counter[str], peer: str) -> None:
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self._leave = weakref.finalize(self, _take_off, present, peer)
        self._leave.atexit = False

    def close(self) -> None:
        self._leave()
        super().close()


class PromptLoop(asyncio.SelectorEventLoop):
    """An event loop whose servers do not wait long for handshakes; uvicorn has no setting for it."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """As usual."""
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": GOODBYE_SECONDS}
        return await super().create_server(*args, **options)


def raise_descriptor_limit() -> int:
    """Let this process have as many descriptors as it may; how many that are."""
    if sys.platform == "win32":
        return 2**16  # sockets are not counted there
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, 2**16) if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # some systems have a limit that they do not tell
        return soft
    return wanted


def _take_off(present: Counter[str], peer: str) -> None:
    present[peer] -= 1
    if not present[peer]:
        del present[peer]  # or every address that ever came would be remembered
