"""When a server is listed again by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import CacheSettings

_RETRY_AFTER = 60.0  # seconds until a server that failed is listed again by itself


def due_in(part: ServerPart, cache: CacheSettings, *, now: float) -> float:
    """Seconds until a server should be listed again.

    A listing with a future time is due at once: the clock was set back, so its age is unknown.
    """
    at = part.failure.at if part.failure else part.listed_at
    if at is None or at > now:
        return 0.0
    return at + _lifetime(part, cache) - now


def _lifetime(part: ServerPart, cache: CacheSettings) -> float:
    if part.failure:
        return _RETRY_AFTER
    # A server may set a shorter time than the owner, down to the retry interval: a `ttlMs` of 0
    # means "do not cache", not "list without pause".
    return cache.ttl if part.ttl is None else min(cache.ttl, max(part.ttl, _RETRY_AFTER))
