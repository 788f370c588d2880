"""A tool as the model of an agent framework sees it and calls it, in the forms that APIs take."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Union, cast

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue, parse_json
from discovery_engine.agent.content import ResultContent
from discovery_engine.agent.meta_arguments import MetaArgumentsError
from discovery_engine.tools.model import ToolKey

if TYPE_CHECKING:
    from discovery_engine.agent.meta_arguments import OnProgress
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
    """A tool of a `Toolset`, which can be called as long as the engine is open."""

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


ToolFunction: TypeAlias = Callable[..., Awaitable[str]]

_DESCRIPTION = 1024  # characters; OpenAI's API refuses a request with a longer one
_DEPTH = 3  # of lists within lists whose items are annotated
_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict[str, Any],
    "null": type(None),
}


def openai_function(tool: AgentTool, api: Literal["chat", "responses"]) -> JSONObject:
    """A tool as OpenAI's API takes it."""
    function = {
        "name": tool.name,
        "description": _shortened(tool.description),
        "parameters": tool.parameters,
    }
    if api == "chat":
        return {"type": "function", "function": function}
    # Without `strict` this API refuses what is not a strict schema, and most are none.
    return {"type": "function", **function, "strict": False}


def anthropic_tool(tool: AgentTool, *, defer: bool = False) -> JSONObject:
    """A tool as Anthropic's API takes it; deferred, the model reads it once it was found."""
    form: JSONObject = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }
    return {**form, "defer_loading": True} if defer else form


def function(tool: AgentTool) -> ToolFunction:
    """A tool as an async function, for frameworks that read its signature and docstring.

    A parameter whose name is none in Python has the nearest one. What is None is not sent.
    """
    parameters = list(_parameters(tool))
    own_names = {parameter.name: own for own, parameter in parameters}
    signature = inspect.Signature([parameter for _, parameter in parameters], return_annotation=str)

    async def call(*args: Any, **kwargs: Any) -> str:
        values = signature.bind(*args, **kwargs).arguments
        arguments = {own_names[name]: value for name, value in values.items() if value is not None}
        return ResultContent.of(await tool.call_as_result(arguments)).text

    call.__name__ = call.__qualname__ = tool.name
    call.__doc__ = _docstring(tool, parameters)
    call.__annotations__ = {parameter.name: parameter.annotation for _, parameter in parameters} | {
        "return": str
    }
    cast("Any", call).__signature__ = signature
    return call


def _parameters(tool: AgentTool) -> Iterator[tuple[str, inspect.Parameter]]:
    """Each parameter behind its own name, required ones first, in the order of `required`."""
    properties = tool.parameters["properties"]
    required = tool.parameters.get("required", [])
    for alias, name in parameter_names(tool.parameters).items():
        annotation = _annotated_type(properties[name])
        is_needed = name in required
        yield (
            name,
            inspect.Parameter(
                alias,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=inspect.Parameter.empty if is_needed else None,
                annotation=annotation if is_needed else _union([annotation, type(None)]),
            ),
        )


def parameter_names(parameters: JSONObject) -> dict[str, str]:
    """The own name of each parameter by one that is an identifier of Python.

    Required ones come first, in the order of `required`.
    """
    taken: set[str] = set()
    names = dict.fromkeys([*parameters.get("required", ()), *parameters["properties"]])
    return {_identifier(name, taken): name for name in names}


def _annotated_type(schema: JSONValue, depth: int = _DEPTH) -> Any:
    """The type in Python of what a schema allows; Any if there is no plain one."""
    facts = schema if isinstance(schema, dict) else {}
    values = facts.get("enum")
    if isinstance(values, list) and values and all(isinstance(v, str | int) for v in values):
        return Literal[tuple(values)]
    kind = facts.get("type")
    if isinstance(kind, list):
        return _union([_annotated_type({**facts, "type": name}, depth) for name in kind])
    if kind == "array":
        items: Any = _annotated_type(facts.get("items"), depth - 1) if depth else Any
        return list[items]
    for branches in (facts.get("anyOf"), facts.get("oneOf")):
        if isinstance(branches, list) and branches and depth:
            return _union([_annotated_type(branch, depth - 1) for branch in branches])
    return _TYPES.get(kind, Any) if isinstance(kind, str) else Any


def _union(types: list[Any]) -> Any:
    return Any if Any in types else Union[tuple(types)]  # noqa: UP007 - of a tuple


def _identifier(name: str, taken: set[str]) -> str:
    """A name of a parameter as one in Python that is not `taken` yet."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not base or base[0].isdigit() or keyword.iskeyword(base):
        base = f"{base}_" if keyword.iskeyword(base) else f"_{base}"
    identifier, number = base, 2
    while identifier in taken:
        identifier, number = f"{base}_{number}", number + 1
    taken.add(identifier)
    return identifier


def _docstring(tool: AgentTool, parameters: list[tuple[str, inspect.Parameter]]) -> str:
    properties = tool.parameters["properties"]
    lines = [tool.description]
    if parameters:
        lines += ["", "Args:"]
    for own, parameter in parameters:
        facts = properties[own] if isinstance(properties[own], dict) else {}
        text = " ".join(str(facts.get("description") or facts.get("title") or own).split())
        lines.append(f"    {parameter.name}: {text}")
    return "\n".join(lines)


def _shortened(description: str) -> str:
    """A description that the API takes, cut at a word."""
    if len(description) <= _DESCRIPTION:
        return description
    return description[: _DESCRIPTION - 1].rsplit(None, 1)[0] + "…"
