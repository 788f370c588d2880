"""Executes a tool once, after its arguments were checked.

Arguments that the owner pins are added to those of the caller and checked together with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from cachetools import LRUCache
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.tasks import finish
from discovery_engine.config.entry_secrets import redact_transport
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.rpc.protocol import CONVERTED
from discovery_engine.rules.overrides.pinning import (
    pinned_references,
    pinned_values,
    referred_values,
)
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.secrets.masking import redact_url
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import Tool, ToolKey
from discovery_engine.upstream.call import UpstreamRequest

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry
    from discovery_engine.engine.catalog_state import CatalogState
    from discovery_engine.engine.upstreams import CallQuota, Upstreams
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.rpc.messages import OnProgress
    from discovery_engine.rules.overrides.override import Override
    from discovery_engine.tools.arguments import Checker
    from discovery_engine.tools.model import Tool
    from discovery_engine.upstream.call import CallObserver

OnUnchecked: TypeAlias = Callable[[str], object]
"""Called, and awaited if it is async, with the reason why arguments are sent unchecked."""

_PLACES = 20  # of converted arguments that are named


class ToolExecutor:
    """Executes tools under the settings of the current view."""

    def __init__(
        self,
        current: CatalogState,
        upstreams: Upstreams,
        *,
        secrets: SecretResolver,
    ) -> None:
        self._current = current
        self._upstreams = upstreams
        self._checkers = CheckerCache()
        self._secrets = secrets

    async def call(
        self,
        tool: Tool,
        arguments: JSONObject,
        *,
        caller: Client | None,
        continuation: Continuation | None,
        on_progress: OnProgress | None,
        on_unchecked: OnUnchecked | None,
        quota: CallQuota | None,
        observer: CallObserver | None = None,
    ) -> JSONObject:
        """Call a tool that may be called; see `Engine.execute`. The call counts against `quota`."""
        view = self._current.view
        pinned = await self._pinned(tool, view.settings.overrides)
        checked = self._checkers.get(tool).check(arguments, pinned)
        if checked is not None and checked.unchecked and on_unchecked is not None:
            await finish(on_unchecked(checked.unchecked))
        values = checked.arguments if checked else arguments
        request = UpstreamRequest.call(tool.upstream_name, {**values, **pinned})
        if pinned:
            request = replace(request, pinned=frozenset(pinned))
        result = await self._upstreams.send(
            view.settings.by_name[tool.server],
            request,
            caller=caller,
            continuation=continuation,
            on_progress=on_progress,
            quota=quota,
            observer=observer,
        )
        return _with_converted(result, checked.converted) if checked else result

    async def preview(self, entry: Entry, arguments: JSONObject) -> CallPreview:
        """Return what a call of a tool that may be called would send; see `Engine.preview`."""
        view, tool = self._current.view, entry.tool
        overrides = view.settings.overrides
        pinned = await self._pinned(tool, overrides)
        checked = self._checkers.get(tool).check(arguments, pinned)
        return CallPreview(
            entry=entry,
            arguments=checked.arguments if checked else arguments,
            pinned=pinned_references(tool, overrides),
            transport=view.settings.by_name[tool.server].transport,
            unchecked=checked.unchecked if checked else "",
        )

    async def _pinned(self, tool: Tool, overrides: Sequence[Override]) -> JSONObject:
        """Return the values that the owner gives to the tool's arguments.

        They are read in a thread: that may read files, and a keyring may ask a person.
        """
        if not tool.overridden.pinned:
            return {}
        return await anyio.to_thread.run_sync(_known_values, tool, overrides, self._secrets)


def _with_converted(result: JSONObject, places: Sequence[str]) -> JSONObject:
    """A result that says which arguments were converted; as it is if it is not the last one."""
    if not places or result.get("resultType", "complete") != "complete":
        return result
    meta = {**result.get("_meta", {}), CONVERTED: list(places[:_PLACES])}
    return {**result, "_meta": meta}


def _known_values(tool: Tool, overrides: Sequence[Override], secrets: SecretResolver) -> JSONObject:
    """Return `pinned_values`; they are redacted from now on, since the server may print them."""
    for reference, value in referred_values(tool, overrides, secrets):
        is_secret = reference.kind != "variable"
        KNOWN_SECRETS.add_value(value, reference.name, is_secret=is_secret)
    return pinned_values(tool, overrides, secrets)


# Compiled argument checkers, kept for the tools that were called lately.

_MAX_CACHED_CHECKERS = 2_000  # checkers: some megabytes

_Key: TypeAlias = tuple[ToolKey, str, frozenset[str]]


class CheckerCache:
    """Not for several threads at once."""

    def __init__(self, *, maxsize: int = _MAX_CACHED_CHECKERS) -> None:
        self._checkers: LRUCache[_Key, Checker] = LRUCache(maxsize)

    def get(self, tool: Tool) -> Checker:
        """The checker of a tool; another definition or other pinned arguments need another one."""
        # The definition itself, not its fingerprint: equal for equal fingerprints, and not hashed
        # for each call. Compiling ten string properties takes 24 us, a check of them 1 us.
        key = (tool.key, tool.source, frozenset(tool.overridden.pinned))
        if (checker := self._checkers.get(key)) is None:
            # It loads the library of JSON Schema: 4 MB that a gateway without calls does not need.
            from discovery_engine.tools.arguments import Checker  # noqa: PLC0415

            checker = self._checkers[key] = Checker(tool)
        return checker


class CallPreview(Struct, frozen=True):
    entry: Entry
    """The tool, with the verdict of the rules."""
    arguments: JSONObject
    """The arguments as they would be sent; they fit the tool's schema."""
    pinned: JSONObject
    """The arguments that the owner adds, as written: references, not their values."""
    transport: StdioTransport | RemoteTransport | None
    unchecked: str = ""
    """Why the arguments could not be checked; empty if they were."""

    @property
    def place(self) -> str:
        """Where it would be sent, without any path of this machine."""
        if isinstance(self.transport, RemoteTransport):
            return urlsplit(redact_url(self.transport.url)).netloc or "a remote server"
        return "a program on this machine"

    @property
    def target(self) -> str:
        """The same for the owner: the command or the address, without secrets."""
        match redact_transport(self.transport) if self.transport else None:
            case StdioTransport(command=command, args=args):
                return " ".join([command, *args])
            case RemoteTransport(url=url):
                return url
        return ""
