"""Servers whose lists and answers come from recordings: none is started or reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.quantities import counted
from discovery_engine.errors import TaskNotFoundError, UpstreamError, UpstreamProtocolError
from discovery_engine.runtime.recordings import (
    Exchange,
    find,
    load_exchanges,
    load_listing,
    shown_params,
)
from discovery_engine.secrets.references import Reference, UnsetReference
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import canonical_json
from discovery_engine.upstream.connection import connection_fingerprint
from discovery_engine.upstream.open_tasks import OpenTasks

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.rpc.peer import OnProgress
    from discovery_engine.tools.model import ServerName
    from discovery_engine.upstream.call import CallObserver
    from discovery_engine.upstream.listing import Listing
    from discovery_engine.upstream.open_tasks import OpenTask
    from discovery_engine.upstream.requests import UpstreamRequest
    from discovery_engine.upstream.task import TaskMethod


class NotRecordedError(UpstreamError):
    """A request of which there is no recording; nothing was sent anywhere."""

    code = "NOT_RECORDED"

    def __init__(self, server: str, subject: str, known: int) -> None:
        what = f"{subject!r} with these arguments" if known else repr(subject)
        others = f"; {counted(known, 'other call')} of it recorded" if known else ""
        super().__init__(
            server,
            f"server {server!r} has no recording of {what}{others}",
            hint="record it with `discovery serve --record DIR`",
        )


class ReplayedUpstreams:
    """Has the interface of `Upstreams`; answers of one request are given in their order."""

    histories: Mapping[ServerName, object] = MappingProxyType({})

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.tasks = OpenTasks()
        """None: what is replayed has ended."""
        self._given: Counter[str] = Counter()
        self._exchanges = cache(self._load)

    def states(self) -> Mapping[ServerName, object]:
        """None: no server is used."""
        return {}

    def reset_backoff(self, server: ServerName) -> None:
        """No-op."""

    def close_client(self, client: str) -> None:
        """No-op."""

    def roots_changed(self, client: Client) -> None:
        """No-op."""

    def settings_changed(self) -> None:
        """No-op."""

    async def close(self, server: ServerName) -> None:
        """No-op."""

    def expect(self, capabilities: Mapping[str, JSONObject]) -> None:
        """No-op: no client is asked anything."""

    async def watch(self, server: ServerSettings, uri: str) -> None:
        """No-op: what was recorded does not change."""

    def unwatch(self, server: ServerName, uri: str) -> None:
        """No-op."""

    async def list_tools(self, server: ServerSettings) -> Listing:
        """Raises `NotRecordedError` if the server was not listed in the recorded run."""
        listing = await anyio.to_thread.run_sync(load_listing, self._folder, server.name)
        if listing is None:
            raise NotRecordedError(server.name, "its list of tools", 0)
        return replace(listing, connection=connection_fingerprint(server))

    async def ping(self, server: ServerSettings) -> float:
        """Raises `NotRecordedError`: nothing is reached."""
        raise NotRecordedError(server.name, "ping", 0)

    async def send(
        self,
        server: ServerSettings,
        request: UpstreamRequest,
        *,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        on_progress: OnProgress | None = None,
        observer: CallObserver | None = None,
    ) -> JSONObject:
        """Raises `NotRecordedError` if no recording has the arguments or their template."""
        del (
            caller,
            continuation,
            on_progress,
            observer,
        )  # an answer of a continued call is the next one
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

    async def ask_task(
        self,
        server: ServerSettings,
        task: OpenTask,
        method: TaskMethod,
        caller: Client | None,
        responses: JSONObject | None = None,
    ) -> JSONObject:
        """Raises `TaskNotFoundError`: there is none."""
        del server, task, method, caller, responses
        raise TaskNotFoundError

    def _load(self, server: str) -> tuple[Exchange, ...]:
        return load_exchanges(self._folder, server)


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
        """Nothing is run."""


def _is_about(exchange: Exchange, request: UpstreamRequest) -> bool:
    subject = exchange.params.get("name") or exchange.params.get("uri") or exchange.method
    return exchange.method == request.method and subject == request.subject
