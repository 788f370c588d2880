"""A configuration that was found rather than named: it may tighten, and loosen nothing.

Whoever wrote a file in the working directory may be a stranger, so what it says about guarding
against strangers counts only where it guards more. A file that others may write to is nobody's
word either, however it was reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import to_builtins
from msgspec.structs import replace

from discovery_engine.config.files.location import VARIABLE, Location
from discovery_engine.config.files.permissions import writable_by_others
from discovery_engine.config.settings import (
    CacheSettings,
    EmbeddingsSettings,
    Limits,
    ServerSettings,
    ServeSettings,
    Settings,
)
from discovery_engine.errors import Origin, Problem
from discovery_engine.tools.model import canonical_json, fingerprint

_HINT = f"it counts in a file that is named, with --config or ${VARIABLE}"


def is_untrusted_origin(location: Location) -> bool:
    """Whether somebody other than the user may have written the file.

    Such a file was discovered in the working directory, not named; or others may write to it.
    """
    if location.is_discovered:
        return True
    return location.path is not None and writable_by_others(location.path) is not None


def permission_warnings(location: Location) -> Iterator[Problem]:
    """The warning that a named file is not trusted, because others may write to it."""
    if location.path is None or location.is_discovered:
        return
    if (folder := writable_by_others(location.path)) is None:
        return
    message = f"others may write to {folder}, so this file counts as found, not named"
    yield Problem(Origin(location.path), "", message, f"`chmod go-w {folder}`, if it is yours")


def restrict(settings: Settings) -> Settings:
    """The settings of such a file: every server waits for approval, and nothing is loosened."""
    bound_to = _digest_of_overrides(settings)
    return replace(
        settings,
        is_untrusted_origin=True,
        servers=tuple(_tightened(server, bound_to) for server in settings.servers),
        trust=_at_least_watched(settings.trust),
        search=replace(settings.search, embeddings=_at_home(settings.search.embeddings)),
        server=_serving_at_most_usual(settings.server),
        cache=CacheSettings(enabled=True, ttl=settings.cache.ttl),
        log=replace(settings.log, file=None),
        warnings=(*settings.warnings, *_warnings(settings)),
    )


def _tightened(server: ServerSettings, bound_to: str) -> ServerSettings:
    trust = None if server.trust is None else _at_least_watched(server.trust)
    limits = _at_most_usual(server.limits)
    return replace(server, is_untrusted_origin=True, trust=trust, limits=limits, bound_to=bound_to)


def _digest_of_overrides(settings: Settings) -> str:
    """What the file has agents told, and tools given, beside what the servers say themselves."""
    if not settings.overrides:
        return ""
    nowhere = [to_builtins(replace(override, origin=Origin(""))) for override in settings.overrides]
    return fingerprint(canonical_json(nowhere))


def _at_least_watched(policy: str) -> Literal["on_first_use", "quarantine"]:
    return "quarantine" if policy == "quarantine" else "on_first_use"


def _at_most_usual(limits: Limits) -> Limits:
    usual = Limits()
    return Limits(
        min(limits.calls, usual.calls),
        min(limits.queue, usual.queue),
        min(limits.answer_mib, usual.answer_mib),
        min(limits.sessions, usual.sessions),
    )


def _serving_at_most_usual(server: ServeSettings) -> ServeSettings:
    usual = ServeSettings()
    return replace(
        server,
        max_sessions=min(server.max_sessions, usual.max_sessions),
        max_own_sessions=min(server.max_own_sessions, usual.max_own_sessions),
    )


def _at_home(embeddings: EmbeddingsSettings) -> EmbeddingsSettings:
    """Nothing that sends texts and a key elsewhere, or loads what lies in the project."""
    return embeddings if embeddings.provider == "hash" else EmbeddingsSettings()


def _warnings(settings: Settings) -> Iterator[Problem]:
    origin = Origin(settings.path or "")
    if settings.trust == "open":
        yield Problem(origin, "trust", "'open' is not taken from a file that was found", _HINT)
    for server in settings.servers:
        if server.trust == "open":
            path = f"servers.{server.name}.trust"
            message = "'open' is not taken from a file that was found"
            yield Problem(server.origin, path, message, _HINT)
        if _at_most_usual(server.limits) != server.limits:
            path = f"servers.{server.name}.limits"
            message = "a file that was found allows no server more than the usual"
            yield Problem(server.origin, path, message, _HINT)
    if _serving_at_most_usual(settings.server) != settings.server:
        message = "a file that was found allows no more sessions than the usual"
        yield Problem(origin, "server", message, _HINT)
    if not settings.cache.enabled:
        message = "what is remembered guards against changes; a file that was found keeps it on"
        yield Problem(origin, "cache.enabled", message, _HINT)
    if _at_home(settings.search.embeddings) != settings.search.embeddings:
        message = "a file that was found does not choose who reads every tool"
        yield Problem(origin, "search.embeddings", message, _HINT)
    if settings.log.file:
        message = "a file that was found does not choose where to write"
        yield Problem(origin, "log.file", message, _HINT)
