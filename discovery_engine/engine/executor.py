"""Validates the arguments of a tool call and sends it once.

Arguments that the owner pins are added to those of the caller and validated together with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.tasks import finish
from discovery_engine.config.entry_secrets import redact_transport
from discovery_engine.config.settings import (
    RemoteTransport,
    ServerSettings,
    Settings,
    StdioTransport,
)
from discovery_engine.engine.upstreams import CallQuota
from discovery_engine.errors import InputRequiredError, UpstreamProtocolError
from discovery_engine.rpc.client import covers, declarable
from discovery_engine.rpc.protocol import CONVERTED
from discovery_engine.rules.overrides.pinning import (
    pinned_references,
    pinned_values,
    referred_values,
)
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.secrets.masking import redact_url
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import Tool
from discovery_engine.upstream.call import UpstreamRequest

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.engine.catalog_state import CatalogState
    from discovery_engine.engine.upstreams import Upstreams
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.rpc.messages import OnProgress
    from discovery_engine.rules.overrides.override import Override
    from discovery_engine.tools.arguments import Checker
    from discovery_engine.upstream.call import CallObserver

OnUnchecked: TypeAlias = Callable[[str], object]
"""Called with the reason before arguments are sent without validation; awaited if async."""

_UNKNOWN = lazy_pattern("(?i)not found|unknown tool|no such tool")
_PLACES = 20  # converted arguments, at most, that a result names


class PreparedCall(Struct, frozen=True):
    """The part that all calls of a tool share while its catalog and its settings are the same."""

    entry: Entry
    server: ServerSettings
    checker: Checker
    quotas: tuple[CallQuota, ...]
    """The limits that each call counts against."""


class ToolExecutor:
    """Calls tools with the current settings."""

    def __init__(
        self,
        current: CatalogState,
        upstreams: Upstreams,
        *,
        secrets: SecretResolver,
    ) -> None:
        self._current = current
        self._upstreams = upstreams
        self._secrets = secrets

    def prepare(self, entry: Entry, settings: Settings) -> PreparedCall:
        """Prepare the calls of a tool by clients with these settings."""
        # The JSON Schema library takes 4 MB, which a gateway without calls does not need.
        from discovery_engine.tools.arguments import Checker  # noqa: PLC0415

        server = self._current.view.settings.by_name[entry.tool.server]
        quotas = CallQuota.all_of(server, settings)
        return PreparedCall(entry, server, Checker(entry.tool), quotas)

    async def call(
        self,
        prepared: PreparedCall,
        arguments: JSONObject,
        *,
        caller: Client | None,
        continuation: Continuation | None,
        on_progress: OnProgress | None,
        on_unchecked: OnUnchecked | None,
        observer: CallObserver | None = None,
    ) -> JSONObject:
        """Call a tool that the caller has authorized; see `Engine.execute`."""
        tool = prepared.entry.tool
        pinned = await self._pinned(tool) if tool.overridden.pinned else {}
        checked = prepared.checker.check(arguments, pinned)
        if checked is not None and checked.unchecked and on_unchecked is not None:
            await finish(on_unchecked(checked.unchecked))
        values = checked.arguments if checked else arguments
        request = UpstreamRequest.call(tool.upstream_name, {**values, **pinned})
        if pinned:
            request = replace(request, pinned=frozenset(pinned))
        try:
            result = await self._upstreams.send(
                prepared.server,
                request,
                caller=caller,
                continuation=continuation,
                on_progress=on_progress,
                quotas=prepared.quotas,
                observer=observer,
            )
        except UpstreamProtocolError as error:
            if refusal := self._refusal(tool, caller, error.message):
                raise refusal from error
            raise
        if result.get("isError") and (refusal := self._refusal(tool, caller, result["content"])):
            raise refusal
        return _with_converted(result, checked.converted) if checked else result

    def _refusal(
        self, tool: Tool, caller: Client | None, answer: object
    ) -> InputRequiredError | None:
        """Return the error of a tool that its server denies to have, for this client.

        None unless the server was listed for clients with more capabilities.
        """
        declared = self._current.view.catalog.part(tool.server).declared
        own = declarable(caller.capabilities) if caller else {}
        text = str(answer)
        if covers(own, declared) or not (tool.upstream_name in text and _UNKNOWN.search(text)):
            return None
        missing = [name for name in declared if not covers(own, {name: declared[name]})]
        return InputRequiredError(
            tool.server,
            "more of a client",
            f"it has {tool.upstream_name!r} only for clients that declare some of what this one"
            f" lacks: {', '.join(missing)}",
            hint="use another tool, or a client with these capabilities",
        )

    async def preview(self, prepared: PreparedCall, arguments: JSONObject) -> CallPreview:
        """Return what a call of an authorized tool would send; see `Engine.preview`."""
        entry, tool = prepared.entry, prepared.entry.tool
        pinned = await self._pinned(tool)
        checked = prepared.checker.check(arguments, pinned)
        return CallPreview(
            entry=entry,
            arguments=checked.arguments if checked else arguments,
            pinned=pinned_references(tool, self._current.view.settings.overrides),
            transport=prepared.server.transport,
            unchecked=checked.unchecked if checked else "",
        )

    async def _pinned(self, tool: Tool) -> JSONObject:
        """Return the values of the arguments that the owner pins.

        They are resolved in a thread, because that may read files or open a keyring prompt.
        """
        if not tool.overridden.pinned:
            return {}
        overrides = self._current.view.settings.overrides
        return await anyio.to_thread.run_sync(_known_values, tool, overrides, self._secrets)


def _with_converted(result: JSONObject, places: Sequence[str]) -> JSONObject:
    """Add the places of converted arguments to a complete result; other results are unchanged."""
    if not places or result.get("resultType", "complete") != "complete":
        return result
    meta = {**result.get("_meta", {}), CONVERTED: list(places[:_PLACES])}
    return {**result, "_meta": meta}


def _known_values(tool: Tool, overrides: Sequence[Override], secrets: SecretResolver) -> JSONObject:
    """Return `pinned_values` and register them for redaction, as the server may print them."""
    for reference, value in referred_values(tool, overrides, secrets):
        is_secret = reference.kind != "variable"
        KNOWN_SECRETS.add_value(value, reference.name, is_secret=is_secret)
    return pinned_values(tool, overrides, secrets)


class CallPreview(Struct, frozen=True):
    """A call that was validated but not sent."""

    entry: Entry
    """The tool, with the verdict of the rules."""
    arguments: JSONObject
    """The caller's arguments as they would be sent, valid unless `unchecked` is set."""
    pinned: JSONObject
    """The arguments that the owner pins, with references instead of their values."""
    transport: StdioTransport | RemoteTransport | None
    unchecked: str = ""
    """The reason why the arguments were not validated; empty if they were."""

    @property
    def place(self) -> str:
        """Return the host of a remote server, or a phrase for a local program without its path."""
        if isinstance(self.transport, RemoteTransport):
            return urlsplit(redact_url(self.transport.url)).netloc or "a remote server"
        return "a program on this machine"

    @property
    def target(self) -> str:
        """Return the command or the URL for the owner, without secrets."""
        match redact_transport(self.transport) if self.transport else None:
            case StdioTransport(command=command, args=args):
                return " ".join([command, *args])
            case RemoteTransport(url=url):
                return url
        return ""
