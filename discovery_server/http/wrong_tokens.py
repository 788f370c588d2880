"""A rate limit on wrong tokens, by the address that sends them.

An address may be wrong ten times at once, and then ten times a minute. All addresses together may
be wrong a hundred times; beyond that, an address gets no second try before its first is forgotten.
So a token that its owner chose cannot be found by trying words. A token from an address that was
never wrong is always looked at: clients elsewhere cannot lock it out.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from discovery_server.http.client_addresses import machine_of

AT_ONCE = 10  # wrong tokens of one address
INTERVAL = 6.0  # seconds in which one of them is forgotten
_AT_ONCE_OF_ALL = 100  # wrong tokens of all addresses
_INTERVAL_OF_ALL = 0.6  # seconds
MOST_ADDRESSES = 1024


class _Bucket(Struct):
    """A leaky bucket: how many are held against an address; one less after each interval."""

    level: float = 0.0
    at: float = 0.0

    def leak(self, now: float, interval: float) -> float:
        self.level = max(0.0, self.level - (now - self.at) / interval)
        self.at = now
        return self.level


class WrongTokens:
    """The wrong tokens that are held against addresses."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is monotonic, in seconds."""
        self._clock = clock
        self._all = _Bucket(at=clock())
        self._addresses: OrderedDict[str, _Bucket] = OrderedDict()
        """The one that was wrong last is the last."""

    def __len__(self) -> int:
        return len(self._addresses)

    def wait(self, host: str) -> float:
        """Seconds until a token of an address is looked at again; 0 for now."""
        if not self._addresses:  # at nearly every request: an address takes 2 us to compare
            return 0.0
        address = machine_of(host)
        bucket = self._addresses.get(address)
        if bucket is None:
            return 0.0
        now = self._clock()
        level = bucket.leak(now, INTERVAL)
        if not level:
            del self._addresses[address]
            return 0.0
        is_full = self._all.leak(now, _INTERVAL_OF_ALL) > _AT_ONCE_OF_ALL - 1
        excess = level if is_full else level - (AT_ONCE - 1)
        return max(0.0, excess * INTERVAL)

    def record(self, host: str) -> None:
        """A token of this address was wrong."""
        address, now = machine_of(host), self._clock()
        bucket = self._addresses.setdefault(address, _Bucket(at=now))
        bucket.leak(now, INTERVAL)
        bucket.level += 1
        self._all.leak(now, _INTERVAL_OF_ALL)
        self._all.level = min(self._all.level + 1, float(_AT_ONCE_OF_ALL))
        self._addresses.move_to_end(address)
        if len(self._addresses) > MOST_ADDRESSES:
            self._addresses.popitem(last=False)
