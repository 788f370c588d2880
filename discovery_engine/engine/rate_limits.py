"""How many calls a server, or a view, takes in a minute: a token bucket for each.

A bucket holds at most `burst` tokens and is refilled evenly; a call takes one token of every
bucket that concerns it, or of none. Nothing waits and nothing runs between the look and the
taking, so the count is exact for any number of concurrent callers.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from discovery_engine.config.serve_settings import ViewLimits
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.errors import RateLimitedError

_MINUTE = 60.0  # seconds
_SHARE = 6  # of the calls of a minute that are possible at once, if nothing else is set


class CallQuota(Struct, frozen=True):
    subject: str
    """The thing limited, for instance `server 'github'`; quotas of one subject share a bucket."""
    calls_per_minute: int
    burst: int
    server: str | None = None

    @classmethod
    def of_server(cls, server: ServerSettings) -> CallQuota | None:
        """None if it takes any number of calls."""
        limits = server.limits
        if limits.calls_per_minute is None:
            return None
        subject = f"server {server.name!r}"
        return cls.of(subject, limits.calls_per_minute, limits.burst, server=server.name)

    @classmethod
    def of_view(cls, settings: Settings) -> CallQuota | None:
        """Return the quota of the view of these settings; None if it takes any number of calls."""
        limits = next((v.limits for v in settings.views if v.name == settings.view), ViewLimits())
        if limits.calls_per_minute is None:
            return None
        return cls.of(f"view {settings.view!r}", limits.calls_per_minute, limits.burst)

    @classmethod
    def of(
        cls, subject: str, calls_per_minute: int, burst: int | None, *, server: str | None = None
    ) -> CallQuota:
        """Without `burst`, what ten seconds allow."""
        at_once = max(calls_per_minute // _SHARE, 1) if burst is None else burst
        return cls(subject, calls_per_minute, at_once, server)


class _Bucket(Struct):
    tokens: float
    at: float


class RateLimits:
    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, *quotas: CallQuota | None) -> None:
        """Count a call against every quota.

        Raises:
            RateLimitedError: If one is used up, with the time after which it is not; none counts
                the call then.
        """
        now = self._clock()
        set_ones = [quota for quota in quotas if quota is not None]
        buckets = [self._refilled(quota, now) for quota in set_ones]
        for quota, bucket in zip(set_ones, buckets, strict=True):
            if bucket.tokens < 1:
                wait = (1 - bucket.tokens) * _MINUTE / quota.calls_per_minute
                raise RateLimitedError(quota.subject, quota.calls_per_minute, wait, quota.server)
        for bucket in buckets:
            bucket.tokens -= 1

    def _refilled(self, quota: CallQuota, now: float) -> _Bucket:
        bucket = self._buckets.setdefault(quota.subject, _Bucket(quota.burst, now))
        passed = max(now - bucket.at, 0.0)  # a clock may be set back
        refill = passed * quota.calls_per_minute / _MINUTE
        bucket.tokens, bucket.at = min(bucket.tokens + refill, quota.burst), now
        return bucket
