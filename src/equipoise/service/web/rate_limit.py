"""How often one address, or one person, may ask.

Each has a bucket of tokens that fills again at a steady rate; a request takes one. Buckets are kept in memory, at most
so many: what was not seen for longest is forgotten first, and by then it is full again, or nearly.
"""

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from equipoise.service.settings import Rate, Rates
from equipoise.service.web.problems import SlowDown, refused

MOST_BUCKETS = 20_000
_NETWORK = 64  # bits of an IPv6 address that belong to one customer; the rest can be chosen freely


class Buckets:
    """A bucket for every key that asks."""

    def __init__(self, rate: Rate, *, clock: Callable[[], float] = time.monotonic, most: int = MOST_BUCKETS) -> None:
        self.rate = rate
        self.clock = clock
        self.most = most
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when there were that many

    def take(self, key: str) -> None:
        """Take a token, or refuse with how long to wait for one."""
        now = self.clock()
        with self._lock:
            tokens, then = self._left.pop(key, (float(self.rate.burst), now))
            tokens = min(float(self.rate.burst), tokens + (now - then) * self.rate.per_second)
            enough = tokens >= 1.0
            self._left[key] = (tokens - 1.0 if enough else tokens, now)
            if len(self._left) > self.most:
                self._left.popitem(last=False)
        if not enough:
            raise SlowDown((1.0 - tokens) / self.rate.per_second)

    def __len__(self) -> int:
        return len(self._left)


class Limits:
    """The buckets of one server."""

    def __init__(self, rates: Rates) -> None:
        self.address = Buckets(rates.address)
        self.person = Buckets(rates.person)
        self.strangers = Buckets(rates.strangers)


class AddressLimit:
    """ASGI: every request takes a token of its address."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self.limits.address.take(sender(scope))
            except SlowDown as error:
                response = refused(error)
                assert response is not None
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)


def sender(scope: Scope) -> str:
    """Whose bucket a request takes from: its address, or its network where addresses are free."""
    client = scope.get("client")
    if not client:
        return "unknown"
    try:
        address = ipaddress.ip_address(str(client[0]))
    except ValueError:
        return str(client[0])[:64]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _NETWORK), strict=False))
    return str(address)
