"""The endpoints `/health` and `/metrics`, for monitoring a gateway.

`/health` needs no token, and returns only the status, the version and the uptime. `/metrics` is for
owners, because it names every server and tool.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from discovery_engine._util.version import __version__
from discovery_engine.errors import RegistryError
from discovery_engine.rpc.json_codec import encode_finite
from discovery_server.access_token import NO_LIMITS, NO_PRINCIPALS
from discovery_server.http.asgi import CLOSE, JSON, header_values, refuse, respond

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.fleet import FleetStatus
    from discovery_engine.store.webhooks import WebhookState
    from discovery_server.http.asgi import Header, Receive, Scope, Send

_OK, _FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED = 200, 403, 404, 405
_NO_STORE: Header = (b"cache-control", b"no-store")
_RESERVED = "Forbidden: metrics also contain names that are reserved for teams and users"
_USE_OWNERS = "use a token with the scopes read and admin, or that of the gateway"
_ONLY_OWNERS = "Forbidden: metrics name every server and tool, and this token shows only some"
_LIMITED = "TOKEN_LIMITED"
_USE_UNLIMITED = "`discovery token create --scope read` makes one without limits"


class HealthEndpoint:
    """ASGI application of `/health`."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        if await _refused(scope, send, "/health"):
            return
        uptime = round(time.monotonic() - self._started, 3)
        form = {"status": "ok", "version": __version__, "uptime": uptime}
        # Closed, so that strangers cannot hold a connection by sending one request after another.
        await respond(send, _OK, encode_finite(form), JSON, _NO_STORE, CLOSE)


class MetricsEndpoint:
    """ASGI application of `/metrics`; the token was checked before."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        if await _refused(scope, send, "/metrics"):
            return
        if scope.get("view") is not None or scope.get("limits", NO_LIMITS) != NO_LIMITS:
            await refuse(scope, send, _FORBIDDEN, _ONLY_OWNERS, hint=_USE_UNLIMITED, code=_LIMITED)
            return
        if self._engine.settings.reserves and scope.get("principals", NO_PRINCIPALS) is not None:
            await refuse(scope, send, _FORBIDDEN, _RESERVED, hint=_USE_OWNERS, code=_LIMITED)
            return
        # Imported here: only gateways that are monitored need it.
        from discovery_server.http.exposition import exposition  # noqa: PLC0415

        reports = await self._engine.health()
        accepted = b", ".join(header_values(scope, b"accept")).decode("latin-1")
        registry = self._engine.registry_health
        fleet = await _fleet(self._engine)
        webhooks = await _webhooks(self._engine)
        work = partial(
            exposition, self._engine.call_log, reports, accepted, registry, fleet, webhooks
        )
        # In a thread: a thousand tools take a tenth of a second.
        body, media_type = await anyio.to_thread.run_sync(work)
        header = b"content-type", media_type.encode("latin-1")
        await respond(send, _OK, body, header, _NO_STORE)


async def _fleet(engine: Engine) -> FleetStatus | None:
    """Return the status of the refresh queue; None if it is empty or cannot be read."""
    try:
        status = await engine.fleet.status()
    except RegistryError:
        return None
    return status if status.jobs else None


async def _webhooks(engine: Engine) -> tuple[WebhookState, ...]:
    """Return the state of each webhook; empty if there are none or they cannot be read."""
    if not engine.settings.webhooks:
        return ()
    try:
        return await engine.webhooks.states()
    except RegistryError:
        return ()


async def _refused(scope: Scope, send: Send, path: str) -> bool:
    """Refuse a request that is not a GET of that path; return whether it was refused."""
    if scope["path"].removesuffix("/") != path:
        await refuse(scope, send, _NOT_FOUND, "Not Found", hint=f"use {path}")
        return True
    if scope["method"] not in ("GET", "HEAD"):
        allowed = b"allow", b"GET, HEAD"
        text, hint = "Method Not Allowed", "use GET or HEAD"
        await refuse(scope, send, _NOT_ALLOWED, text, allowed, hint=hint)
        return True
    return False
