"""Rate limits on the requests of one address or one person.

Each has a bucket of tokens that refills at a steady rate; a request takes one token. Memory holds at most `max_buckets`
buckets: the least recently used one is dropped first, and by then it is full again, or nearly.
"""

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

from starlette.types import Scope

from equipoise_service.errors import RateLimited
from equipoise_service.settings import Rate, Rates

MAX_BUCKETS = 20_000
# Bits of an IPv6 address that identify one customer, who can choose the other bits freely.
_NETWORK = 64


class TokenBuckets:
    """Token buckets, one for every key that asks."""

    def __init__(
        self, rate: Rate, *, clock: Callable[[], float] = time.monotonic, max_buckets: int = MAX_BUCKETS
    ) -> None:
        self.rate = rate
        self.clock = clock
        self.max_buckets = max_buckets
        self._lock = threading.Lock()
        # By key: the number of tokens, and the time at which it was computed.
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> None:
        """Take a token, or refuse the request and say how long to wait for one."""
        now = self.clock()
        with self._lock:
            tokens, then = self._tokens.pop(key, (float(self.rate.burst), now))
            tokens = min(float(self.rate.burst), tokens + (now - then) * self.rate.per_second)
            enough = tokens >= 1.0
            self._tokens[key] = (tokens - 1.0 if enough else tokens, now)
            if len(self._tokens) > self.max_buckets:
                self._tokens.popitem(last=False)
        if not enough:
            raise RateLimited((1.0 - tokens) / self.rate.per_second)

    def __len__(self) -> int:
        return len(self._tokens)


class RateLimits:
    """The token buckets of one server: of addresses, of people, and of addresses that sign in or ask to join."""

    def __init__(self, rates: Rates) -> None:
        self.address = TokenBuckets(rates.address)
        self.person = TokenBuckets(rates.person)
        self.sign_in = TokenBuckets(rates.sign_in)


def client_address(scope: Scope) -> str:
    """Return the address that a request comes from; of an IPv6 address, the network of the customer."""
    client = scope.get("client")
    return _network_of(str(client[0])) if client else "unknown"


@lru_cache(maxsize=4096)
def _network_of(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:64]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _NETWORK), strict=False))
    return str(address)
