"""Resources and prompts of servers: `engine.offerings`.

A request goes to the server that an address leads to. What may not be seen is refused before
anything is sent. Results pass as the server sent them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread
from cachetools import LRUCache

from discovery_engine.engine.call_record import CallRecord
from discovery_engine.engine.upstreams import CallQuota
from discovery_engine.errors import (
    DiscoveryError,
    FileWithheldError,
    NotFoundError,
    UpstreamProtocolError,
    concerning,
)
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.tools.skills import MAX_FILE_TEXT, TEXT, content_of, is_content, text_in
from discovery_engine.trust import scanner
from discovery_engine.upstream.call import UpstreamRequest
from discovery_engine.view.uris import expanded

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import OfferingEntry
    from discovery_engine.engine.core import CurrentView, EngineCore
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.rpc.messages import OnProgress
    from discovery_engine.store.call_log.log_entry import Actor, EntryKind
    from discovery_engine.tools.findings import Finding
    from discovery_engine.tools.model import ServerName
    from discovery_engine.tools.offering import Offering
    from discovery_engine.view.offering_addresses import OfferingList, ResourceTarget
    from discovery_engine.view.view import View

T = TypeVar("T")

_RELISTING = 5.0  # seconds that a caller waits until a changed skill is listed again
_UNKNOWN_RESOURCE = "resource:?"  # a URI that leads nowhere is an argument, which is not published


class ServerOfferings:
    """Lists, reads and completes resources and prompts; available as `engine.offerings`."""

    def __init__(self, core: EngineCore, current: CurrentView) -> None:
        self._core = core
        self._current = current
        self._suspicions: LRUCache[tuple[str, str], Finding | None] = LRUCache(1000)

    async def list(
        self, kind: OfferingKind, server: str | None = None, *, include_disabled: bool = False
    ) -> OfferingList:
        """List the offerings of a kind; see `View.list_offerings`.

        A named server that was never listed is listed first.
        """
        if server is not None:
            name = self._current.snapshot.addresses.server(server)
            await self._core.lister.ensure_listed(name)
        return self._current.live.list_offerings(kind, server, include_disabled=include_disabled)

    async def read_resource(
        self,
        uri: str,
        *,
        server: str | None = None,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        on_progress: OnProgress | None = None,
        max_wait: float | None = None,
        by: Actor | None = None,
    ) -> JSONObject:
        """Read a resource and return the server's result of `resources/read`, as raw JSON.

        Args:
            uri: The URI of a listed resource, one that a template allows, or its address with the
                name of the server (`discovery://servers/NAME/resources/…`).
            server: The only server to search; None for all.
            caller: See `Engine.execute`.
            continuation: See `Engine.execute`.
            on_progress: See `Engine.execute`.
            max_wait: See `Engine.execute`.
            by: See `Engine.execute`.

        Raises:
            ResourceNotFoundError: If there is no such resource; suggests the nearest addresses.
            ResourceAmbiguousError: If several servers may have it; with the addresses.
            ResourceDisabledError: If a rule disables it, or its owner has not accepted it.
            FileWithheldError: If it is a file of a skill with a suspicious text.
            ServerNotFoundError, DisabledError, ServerStartingError, UpstreamError: See `execute`.
        """
        with self._record(
            "resource-read", server, _UNKNOWN_RESOURCE, {"uri": uri}, caller, by
        ) as record:
            await self._core.configuration.complete()
            target = await self._found(
                lambda view: view.resource(server, uri), server, max_wait=max_wait
            )
            record.set_name(target.server, target.entry.offering.decision_key)
            with concerning(target.server, target.uri):
                settings = self._core.state.view.settings.by_name[target.server]
                result = await self._core.upstreams.send(
                    settings,
                    UpstreamRequest.read(target.uri),
                    caller=record.client,
                    continuation=continuation,
                    on_progress=record.recording(on_progress),
                    quotas=CallQuota.all_of(settings, self._current.snapshot.settings),
                    observer=record,
                )
                await self._require_accepted(target, result)
            record.record_result(result)
        return result

    async def _require_accepted(self, target: ResourceTarget, result: JSONObject) -> None:
        """Check that a file of a skill is as it was when the skill was accepted, and harmless.

        Raises:
            UpstreamProtocolError: If it is another file; the server is listed again.
            FileWithheldError: If its text is suspicious, or too long for the scanner.
        """
        skill = self._current.live.offerings.skill_of(target)
        if skill is None or result.get("resultType", "complete") != "complete":
            return
        with suppress(ValueError):
            content = content_of(result, target.uri)
            if is_content(content, skill.files[target.uri]):
                text = text_in(result, content)
                if text is not None and target.uri != skill.identifier:
                    await self._require_harmless(skill, target.uri, text)
                return
        with suppress(DiscoveryError):
            await self._core.lister.list_server(target.server, max_wait=_RELISTING)
        reason = "a file of a skill that is not as the skill lists it: read the skill again"
        raise UpstreamProtocolError(target.server, reason)

    async def _require_harmless(self, skill: Offering, uri: str, text: str) -> None:
        state = self._core.state
        policy = state.trust_store.trust.policy_of(state.view.settings.by_name[skill.server])
        if policy == "open":
            return
        if len(text) > MAX_FILE_TEXT:
            reason = f"it has more than {MAX_FILE_TEXT >> 10} KiB of text to scan"
            raise FileWithheldError(skill.server, uri, reason)
        key = skill.fingerprint, uri
        if key not in self._suspicions:
            self._suspicions[key] = await anyio.to_thread.run_sync(_suspicion, skill, text)
        if finding := self._suspicions[key]:
            raise FileWithheldError(skill.server, uri, finding.message, detail=finding.excerpt)

    async def get_prompt(
        self,
        name: str,
        arguments: JSONObject | None = None,
        *,
        server: str | None = None,
        caller: Client | None = None,
        continuation: Continuation | None = None,
        on_progress: OnProgress | None = None,
        max_wait: float | None = None,
        by: Actor | None = None,
    ) -> JSONObject:
        """Get a prompt and return the server's result of `prompts/get`, as raw JSON.

        Args:
            name: The name of the prompt, or `server:prompt`.
            arguments: The arguments, which the server checks.
            server: The only server to search; None for all.
            caller: See `Engine.execute`.
            continuation: See `Engine.execute`.
            on_progress: See `Engine.execute`.
            max_wait: See `Engine.execute`.
            by: See `Engine.execute`.

        Raises:
            PromptNotFoundError, PromptAmbiguousError, PromptDisabledError: See `read_resource`.
            ServerNotFoundError, DisabledError, ServerStartingError, UpstreamError: See `execute`.
        """
        arguments = arguments or {}
        with self._record("prompt-get", server, f"prompt:{name}", arguments, caller, by) as record:
            await self._core.configuration.complete()
            entry = await self._found(
                lambda view: view.prompt(server, name), server, max_wait=max_wait
            )
            prompt = entry.offering
            record.set_name(prompt.server, prompt.decision_key)
            with concerning(prompt.server, prompt.identifier):
                settings = self._core.state.view.settings.by_name[prompt.server]
                result = await self._core.upstreams.send(
                    settings,
                    UpstreamRequest.get_prompt(prompt.identifier, arguments),
                    caller=record.client,
                    continuation=continuation,
                    on_progress=record.recording(on_progress),
                    quotas=CallQuota.all_of(settings, self._current.snapshot.settings),
                    observer=record,
                )
            record.record_result(result)
        return result

    async def complete(
        self, params: JSONObject, *, server: str | None = None, caller: Client | None = None
    ) -> JSONObject:
        """Complete an argument and return the result of `completion/complete`, as raw JSON.

        Values of a template that lead to hidden resources are left out.

        Args:
            params: The parameters of the request; `ref` has a name or an address as in lists.
            server: The only server to search; None for all.
            caller: See `Engine.execute`.

        Raises:
            DiscoveryError: See `get_prompt` and `read_resource`.
        """
        await self._core.configuration.complete()
        reference = params["ref"]
        if reference.get("type") == "ref/prompt":
            entry = self._current.live.prompt(server, reference["name"])
            named = {"name": entry.offering.identifier}
        else:
            entry, uri = self._referenced(server, reference["uri"])
            named = {"uri": uri}
        of = entry.offering.server
        with concerning(of, entry.offering.identifier):
            settings = self._core.state.view.settings.by_name[of]
            result = await self._core.upstreams.send(
                settings,
                UpstreamRequest.complete({**params, "ref": {**reference, **named}}),
                caller=caller,
                quotas=CallQuota.all_of(settings, self._current.snapshot.settings),
            )
        if entry.offering.kind is not OfferingKind.TEMPLATE:
            return result
        return _visible_values(self._current.live, entry.offering, params, result)

    async def watch_resource(self, uri: str, *, server: str | None = None) -> ResourceTarget:
        """Publish `ResourceUpdated` when a resource changes, until `unwatch_resource`.

        All watchers share one subscription, which is renewed when the session was lost.

        Args:
            uri: See `read_resource`.
            server: See `read_resource`.

        Raises:
            DiscoveryError: See `read_resource`; also if the server does not notify of updates.
        """
        await self._core.configuration.complete()
        target = await self._found(lambda view: view.resource(server, uri), server, max_wait=None)
        with concerning(target.server, target.uri):
            settings = self._core.state.view.settings.by_name[target.server]
            await self._core.upstreams.watch(settings, target.uri)
        return target

    def unwatch_resource(self, target: ResourceTarget) -> None:
        """End one `watch_resource`, whose result is given."""
        self._core.upstreams.unwatch(target.server, target.uri)

    def _record(
        self,
        kind: EntryKind,
        server: str | None,
        name: str,
        arguments: JSONObject,
        caller: Client | None,
        by: Actor | None,
    ) -> CallRecord:
        view = self._current.snapshot.settings.view
        record = CallRecord(
            self._core.recorder, server, name, arguments, caller, kind=kind, view=view, by=by
        )
        record.is_named = True
        return record

    def _referenced(self, server: str | None, uri: str) -> tuple[OfferingEntry, str]:
        """The template, or the resource, whose argument is completed."""
        view = self._current.live
        if template := view.template(server, uri):
            return template, template.offering.identifier
        target = view.resource(server, uri)
        return target.entry, target.uri

    async def _found(
        self, find: Callable[[View], T], server: str | None, *, max_wait: float | None
    ) -> T:
        """Return what `find` finds.

        Servers that were never listed, and may have it, are listed first.
        """
        with suppress(DiscoveryError):  # raised below, with the present states of servers
            return find(self._current.snapshot)
        try:
            return find(self._current.live)
        except NotFoundError as error:
            named = error.server or server
            unlisted = self._unlisted(named) if named else None
            if named and unlisted is None:
                raise
        if unlisted:
            await self._core.lister.list_server(unlisted, max_wait=max_wait)
        elif max_wait is not None:
            with anyio.move_on_after(max_wait):
                await self._core.lister.wait_all_listed(self._current.live.connectable)
        return find(self._current.live)

    def _unlisted(self, named: str) -> ServerName | None:
        """A server that was never listed; None if it was."""
        view = self._current.live
        name = view.addresses.server(named)
        return None if view.is_known(name) else view.require_connectable(name).name


def _suspicion(skill: Offering, text: str) -> Finding | None:
    """Return a severe finding in a file of a skill."""
    findings = scanner.scan(skill.with_text(text))
    return next((about for about in findings if about.is_severe and about.where == TEXT), None)


def _visible_values(
    view: View, template: Offering, params: JSONObject, result: JSONObject
) -> JSONObject:
    """A result of `completion/complete`; the same one if all of its values may be seen.

    A value is judged if the others that the template needs are in the request; else it stays.
    """
    completion = result["completion"]
    values = completion["values"]
    argument = params["argument"]["name"]
    context = params.get("context")
    arguments = context.get("arguments") if isinstance(context, dict) else None
    other_arguments = arguments if isinstance(arguments, dict) else {}
    remainder = [
        value
        for value in values
        if _is_visible(view, template, {**other_arguments, argument: value})
    ]
    hidden = len(values) - len(remainder)
    if not hidden:
        return result
    answer: JSONObject = {**completion, "values": remainder}
    if "total" in completion:
        answer["total"] = max(completion["total"] - hidden, len(remainder))
    return {**result, "completion": answer}


def _is_visible(view: View, template: Offering, values: JSONObject) -> bool:
    uri = expanded(template.identifier, values)
    if uri is None:
        return True
    try:
        return bool(view.resource(template.server, uri))
    except DiscoveryError:
        return False
