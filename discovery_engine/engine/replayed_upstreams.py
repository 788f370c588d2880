"""Servers whose lists and answers come from recordings: none is started or reached."""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import anyio.to_thread
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.quantities import counted
from discovery_engine.engine.recordings import (
    Exchange,
    find,
    load_exchanges,
    load_listing,
    shown_params,
)
from discovery_engine.engine.upstreams import OnTried, Upstreams
from discovery_engine.errors import UpstreamError, UpstreamProtocolError
from discovery_engine.secrets.references import Reference, UnsetReference
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import canonical_json
from discovery_engine.upstream.connection import connection_fingerprint

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine.upstreams import RateLimits
    from discovery_engine.upstream.call import UpstreamRequest
    from discovery_engine.upstream.listing import Listing
    from discovery_engine.upstream.transport_opening import OnStderr


class NotRecordedError(UpstreamError):
    """A request of which there is no recording; nothing was sent anywhere."""

    code = "NOT_RECORDED"

    def __init__(self, server: str, subject: str, count: int) -> None:
        what = f"{subject!r} with these arguments" if count else repr(subject)
        others = f"; {counted(count, 'other call')} of it recorded" if count else ""
        super().__init__(
            server,
            f"server {server!r} has no recording of {what}{others}",
            hint="record it with `discovery serve --record DIR`",
        )


class ReplayedUpstreams(Upstreams):
    """Opens no session; answers of one request are given in their order."""

    def __init__(
        self,
        folder: Path,
        tasks: TaskGroup,
        secrets: SecretResolver,
        rates: RateLimits,
        on_tried: OnTried,
    ) -> None:
        super().__init__(tasks, _no_sessions, secrets, rates, on_tried=on_tried)
        self._folder = folder
        self._given: Counter[str] = Counter()
        self._exchanges = cache(partial(load_exchanges, folder))

    async def watch(self, server: ServerSettings, uri: str) -> None:
        """No-op: what was recorded does not change."""

    async def ping(self, server: ServerSettings) -> float:
        """Raises `NotRecordedError`: nothing is reached."""
        raise NotRecordedError(server.name, "ping", 0)

    async def _listing(self, server: ServerSettings, *_: object) -> Listing:
        """Raises `NotRecordedError` if the server was not listed in the recorded run."""
        listing = await anyio.to_thread.run_sync(load_listing, self._folder, server.name)
        if listing is None:
            raise NotRecordedError(server.name, "its list of tools", 0)
        return replace(listing, connection=connection_fingerprint(server))

    async def _result(
        self, server: ServerSettings, request: UpstreamRequest, *_: object
    ) -> JSONObject:
        """Raises `NotRecordedError` if no recording has the arguments or their template."""
        # Every caller gets the same answers; a continued call takes the next one.
        exchanges = await anyio.to_thread.run_sync(self._exchanges, server.name)
        exchange = find(exchanges, request.method, shown_params(request))
        if exchange is None:
            candidates = [candidate for candidate in exchanges if _is_about(candidate, request)]
            raise NotRecordedError(server.name, request.subject, len(candidates))
        key = f"{server.name} {canonical_json([exchange.method, exchange.params])}"
        answer = exchange.answers[min(self._given[key], len(exchange.answers) - 1)]
        self._given[key] += 1
        if error := answer.get("error"):
            raise UpstreamProtocolError(server.name, error["message"], error["code"])
        result: JSONObject = answer["result"]
        return result


def _no_sessions(_: OnStderr) -> NoReturn:
    raise AssertionError("what is replayed needs no session")


class ReplayedSecrets:
    """A value for every reference: what is sent nowhere needs no secret."""

    def __init__(self, secrets: SecretResolver) -> None:
        self._secrets = secrets

    def value(self, reference: Reference, *, base_dir: str | None) -> str:
        try:
            return self._secrets.value(reference, base_dir=base_dir)
        except UnsetReference:
            return "replayed"

    def run(self, reference: Reference, *, base_dir: str | None) -> None:
        """Run nothing."""


def _is_about(exchange: Exchange, request: UpstreamRequest) -> bool:
    subject = exchange.params.get("name") or exchange.params.get("uri") or exchange.method
    return exchange.method == request.method and subject == request.subject
