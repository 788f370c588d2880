"""Answers made once and given again for as long as they hold.

The catalog is a snapshot in memory, so what is saved here is the making of answers out of it,
never a question to a server. The rule: a key holds all that an answer is made from, and whatever
a key cannot hold ends the answer's life by its time, or by `Caches.drop`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from cachetools import TLRUCache
from msgspec import Struct

from discovery_engine.config.settings import CacheSettings
from discovery_engine.tools.model import ServerName

T = TypeVar("T")

_Key: TypeAlias = tuple[Hashable, ...]

# Answers each cache keeps, the least lately used given up first: some megabytes when all are full.
_SERVER_LISTS = 20
_SUMMARIES = 1_000
_DETAILS = 2_000


class CacheStats(Struct, frozen=True):
    hits: int
    misses: int
    size: int
    """Answers held now."""

    @property
    def hit_rate(self) -> float:
        """Share of the questions that a held answer settled, in [0, 1]; 0 if there were none."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else 0.0


class Cache:
    """Answers by key. Not for several threads at once."""

    def __init__(self, *, maxsize: int, ttl: float, timer: Callable[[], float]) -> None:
        self._ttl = ttl
        self._kept: TLRUCache[_Key, _Kept] = TLRUCache(maxsize, _end, timer)
        self._hits = 0
        self._misses = 0

    def get_or(self, key: _Key, make: Callable[[], T], *, ttl: float = math.inf) -> T:
        """The answer held for `key`, or the one that `make` gives, which is then held.

        Treat it as read-only: the next one who asks gets the same object.

        Args:
            key: All that the answer is made from; in `Caches.summaries` the server comes first.
            make: Makes the answer; what it raises is raised, and nothing is held.
            ttl: Seconds to hold it if that is less than the cache's own time.
        """
        if not self._kept.maxsize:
            return make()
        if (kept := self._kept.get(key)) is not None:
            self._hits += 1
            answer: T = kept.answer
            return answer
        self._misses += 1
        answer = make()
        self._kept[key] = _Kept(answer, min(ttl, self._ttl))
        return answer

    def drop(self, server: ServerName) -> None:
        """Forget the answers whose key begins with `server`."""
        for key in [key for key in self._kept if key[0] == server]:
            self._kept.pop(key, None)

    def clear(self) -> None:
        self._kept.clear()

    @property
    def stats(self) -> CacheStats:
        self._kept.expire()
        return CacheStats(self._hits, self._misses, len(self._kept))


class Caches:
    """The three caches of answers. What was found by a search is never held.

    With `settings.enabled` false nothing is held or counted: every answer is made anew.
    """

    def __init__(
        self, settings: CacheSettings, *, timer: Callable[[], float] = time.monotonic
    ) -> None:
        def cache(maxsize: int, ttl: float) -> Cache:
            return Cache(maxsize=maxsize if settings.enabled else 0, ttl=ttl, timer=timer)

        self.servers = cache(_SERVER_LISTS, settings.ttl)
        """Lists of servers, for `settings.ttl` seconds."""
        self.summaries = cache(_SUMMARIES, settings.ttl)
        """A server's tools in brief, as long as the list of its tools is fresh."""
        self.details = cache(_DETAILS, math.inf)
        """A tool in full, by its key and definition: another definition is another answer."""

    def drop(self, server: ServerName) -> None:
        """Forget what a server's reconnecting or changing its list makes doubtful."""
        self.servers.clear()
        self.summaries.drop(server)

    def clear(self) -> None:
        """Forget every answer; the counts go on."""
        for cache in (self.servers, self.summaries, self.details):
            cache.clear()

    def stats(self) -> dict[str, CacheStats]:
        return {
            "servers": self.servers.stats,
            "summaries": self.summaries.stats,
            "details": self.details.stats,
        }


class _Kept(NamedTuple):
    answer: Any
    ttl: float


def _end(_: _Key, kept: _Kept, now: float) -> float:
    return now + kept.ttl
