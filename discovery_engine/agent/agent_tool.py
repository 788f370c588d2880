"""A tool as the model of an agent framework sees it and calls it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue, parse_json
from discovery_engine.agent.meta_arguments import MetaArgumentsError
from discovery_engine.tools.model import ToolKey

if TYPE_CHECKING:
    from discovery_engine.agent.caller import OnProgress
    from discovery_engine.rpc.client import Client


class ToolCalls(Protocol):
    """The interface that carries out the calls of a tool."""

    async def run(
        self,
        tool: AgentTool,
        arguments: JSONObject,
        client: Client | None,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        """Call a tool; see `AgentTool.call`."""

    async def run_as_result(
        self,
        tool: AgentTool,
        arguments: JSONObject,
        client: Client | None,
        on_progress: OnProgress | None,
    ) -> JSONObject:
        """Call a tool, with errors as results; see `AgentTool.call_as_result`."""


class AgentTool(Struct, frozen=True):
    """Made by a `Toolset`; it can be kept and called as long as the engine is open."""

    name: str
    """1 to 64 characters of `a-z A-Z 0-9 _ -`, unique within its toolset."""
    title: str | None
    description: str
    parameters: JSONObject
    """JSON Schema of an object, as the APIs of models take it; treat it as read-only."""
    output_schema: JSONObject | None
    """JSON Schema of `structuredContent`; None if there is none."""
    annotations: JSONObject
    """The annotations as the server gave them: `readOnlyHint`, `destructiveHint` and others."""
    origin: ToolKey | None
    """Its server, and its name there; None for a meta-tool."""
    calls: ToolCalls
    renamed: Mapping[str, str] = MappingProxyType({})
    """The server's own name of a parameter, where it is another one in `parameters`."""

    async def call(
        self,
        arguments: JSONObject,
        *,
        client: Client | None = None,
        on_progress: OnProgress | None = None,
    ) -> JSONObject:
        """The result of `tools/call`: `content`, perhaps `structuredContent`, `isError`.

        A tool that runs and fails is a result with `isError`.

        Args:
            arguments: Checked against the tool's own schema before anything is sent.
            client: Who makes the call; that of the toolset if None.
            on_progress: Awaited with progress, total and message of each notification.

        Raises:
            DiscoveryError: As `Engine.execute` of a tool, or the verb that a meta-tool stands for.
        """
        return await self.calls.run(self, arguments, client, on_progress)

    async def call_as_result(
        self,
        arguments: JSONObject,
        *,
        client: Client | None = None,
        on_progress: OnProgress | None = None,
    ) -> JSONObject:
        """Call the tool; an error is a result that tells a model what happened and what to do.

        It has `isError`, and the error's fields in `_meta["discovery/error"]`.
        """
        return await self.calls.run_as_result(self, arguments, client, on_progress)

    def parsed(self, arguments: JSONObject | str | None) -> JSONObject:
        """Arguments as a model wrote them: an object, its JSON text, or nothing.

        Raises:
            MetaArgumentsError: If they are anything else.
        """
        value: JSONValue = arguments
        if isinstance(value, str):
            with suppress(ValueError):
                value = parse_json(value) if value.strip() else None
        if value is None:
            return {}
        if not isinstance(value, dict):
            signature = f"{self.name}({', '.join(self.parameters['properties'])})"
            mistake = f"the arguments of {self.name} must be a JSON object"
            raise MetaArgumentsError(mistake, signature)
        return value
