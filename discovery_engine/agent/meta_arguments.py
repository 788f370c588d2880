"""Calls of meta-tools: which there are, who calls them, and their arguments as a model wrote them.

Reading is lenient where the meaning is plain (`"5"` for 5, one tag for a list of one, an object as
JSON text, `max_tokens` for `maxTokens`, `params` for `arguments`); any other mistake is answered
with the signature. An unknown name is an error: most often it is an argument of the upstream tool,
one level too high.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue, parse_json
from discovery_engine._util.suggestions import nearest
from discovery_engine._util.text import folded
from discovery_engine.config.settings import Settings
from discovery_engine.errors import DiscoveryError
from discovery_engine.tools import limits
from discovery_engine.tools.meta_tools import (
    EXECUTE_STEPS,
    META_TOOLS,
    READ_RESULT,
    REGISTRY,
    REGISTRY_ASKING,
    STEPS_BESIDE_TOOLS,
    MetaTool,
)
from discovery_engine.tools.schemas import WORDS_FOR_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discovery_engine.agent.answer_rendering import PoolReport
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.view.search_answers import SearchAnswer

_NAMES = 32  # arguments; more than the spellings of all arguments of a meta-tool
_MAX_REFUSED_VALUE_LENGTH = 40  # characters of a value that is refused
_DIGITS = 18  # of a number in quotes; Python refuses thousands of them
_ARGUMENTS = "arguments"

_FOR_ARGUMENTS = frozenset(map(folded, WORDS_FOR_ARGUMENTS))
_WORDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_FOR_ARGUMENTS, (_ARGUMENTS,)),
    **dict.fromkeys(("toolname", "function", "functionname"), ("tool",)),
    **dict.fromkeys(("servername", "serverid", "mcpserver", "mcpservername"), ("server",)),
    **dict.fromkeys(("q", "search", "searchquery", "request", "text"), ("query",)),
    "name": ("tool", "server"),
}
"""Arguments of meta-tools by other words for them, folded; the first that the tool has is meant."""


def meant_argument(name: str, names: Collection[str]) -> str | None:
    """The argument among `names` that a name spells, or is another word for; None for none."""
    if name in names:
        return name
    spelling = folded(name)
    spelt = (candidate for candidate in names if folded(candidate) == spelling)
    return next(
        chain(spelt, (candidate for candidate in _WORDS.get(spelling, ()) if candidate in names)),
        None,
    )


class MetaArgumentsError(DiscoveryError):
    """A meta-tool was called with arguments that it does not take."""

    code = "VALIDATION_ERROR"

    def __init__(self, mistake: str, signature: str) -> None:
        super().__init__(mistake, hint=f"it takes {signature}")


class MetaArguments:
    def __init__(self, members: JSONObject, schema: JSONObject, tool: str) -> None:
        """Raises `MetaArgumentsError` if something is given that `schema` does not name."""
        self._properties: Mapping[str, JSONValue] = schema["properties"]
        self._required = schema.get("required", [])
        self._tool = tool
        self._given: JSONObject = {}
        self._written: dict[str, str] = {}
        limits.require_names(f"argument of {tool}", members, most=_NAMES)
        for name, value in self._unwrapped(members).items():
            argument = self._known(name, value, members)
            if argument in self._given:
                raise self._error(f"{argument} is given twice")
            self._given[argument], self._written[argument] = value, name

    def optional_text(self, name: str) -> str | None:
        """A text; None if it is missing or blank."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._error(f"{name} must be a string, not {_shown(value)}")
        return value.strip() or None

    def optional_name(self, name: str) -> str | None:
        """The name of a server or a tool; None if it is missing or blank.

        Raises `InputTooLongError` if it is longer than any.
        """
        value = self.optional_text(name)
        limits.require_name(name, value)
        return value

    def text(self, name: str) -> str:
        """A required text; all there are are names, as `optional_name` takes them."""
        value = self.optional_name(name)
        if value is None:
            raise self.missing(name)
        return value

    def written(self, name: str) -> str | None:
        """How an argument is called by the caller; None if it is missing."""
        return self._written.get(name)

    def called_tool(self) -> tuple[str | None, str]:
        """The server, if it is named apart, and the tool that is to be called."""
        return self.optional_name("server"), self.optional_name("call_as") or self.tool()

    def tool(self) -> str:
        """The name of a tool as it was given: blanks around it may be a part of it."""
        self.text("tool")
        name: str = self._given["tool"]
        return name

    def optional_count(self, name: str) -> int | None:
        """A whole number from the schema's `minimum`, or from 1."""
        value, least = self._given.get(name), self._properties[name].get("minimum", 1)
        if value is None:
            return None
        if isinstance(value, str) and len(value) <= _DIGITS and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self._error(f"{name} must be a whole number from {least}")
        return value

    def flag(self, name: str) -> bool:
        """True or false; false if it is missing."""
        value = self._given.get(name)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            value = value.lower() == "true"
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self._error(f"{name} must be true or false")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; one text is a list of one."""
        value = self._given.get(name)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list):
            raise self._error(f"{name} must be a list of strings")
        most = self._properties[name].get("maxItems", limits.TAGS)
        if len(values) > most:
            raise self._error(f"{name} takes at most {most}, not {len(values):,}")
        if not all(isinstance(v, str) for v in values):
            raise self._error(f"{name} must be a list of strings")
        return tuple(values)

    def value(self, name: str) -> JSONValue:
        """Any JSON, perhaps as JSON text; None if it is missing."""
        value = self._given.get(name)
        return _parsed(value) if isinstance(value, str) else value

    def mapping(self, name: str) -> JSONObject:
        """An object; empty if it is missing."""
        value = self._given.get(name)
        if isinstance(value, str):
            value = _parsed(value)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._error(f"{name} must be an object")
        return value

    def mistake(self, text: str) -> MetaArgumentsError:
        """The error that a value is wrong."""
        return self._error(text)

    def missing(self, *names: str) -> MetaArgumentsError:
        """The error that one of `names` is required."""
        return self._error(f"{' or '.join(names)} is required")

    def _unwrapped(self, members: JSONObject) -> JSONObject:
        """The arguments, if all of them stand in one that is no argument of this tool."""
        if len(members) != 1:
            return members
        [(name, content)] = members.items()
        if folded(name) not in _FOR_ARGUMENTS or not isinstance(content, dict) or not content:
            return members
        is_meant = all(meant_argument(inner, self._properties) for inner in content)
        return content if is_meant and set(self._required) <= self._names(content) else members

    def _names(self, members: JSONObject) -> set[str | None]:
        return {meant_argument(name, self._properties) for name in members}

    def _known(self, name: str, value: JSONValue, members: JSONObject) -> str:
        """The schema's name of an argument, in any spelling, or by another word for it."""
        if name in self._properties:
            return name
        argument = meant_argument(name, self._properties)
        if argument is None:
            raise self._error(self._unknown_argument(name, members))
        is_other_word = folded(argument) != folded(name)
        # Then this one is probably the upstream tool's own.
        if is_other_word and argument in members:
            raise self._error(self._unknown_argument(name, members))
        if is_other_word and argument == _ARGUMENTS and not _is_object(value):
            raise self._error(
                f"{name!r} is not an argument of {self._tool}; use `{argument}`, an object"
            )
        return argument

    def _unknown_argument(self, name: str, members: JSONObject) -> str:
        near = nearest(name, [argument for argument in self._properties if argument not in members])
        if near:
            return f"{name!r} is not an argument of {self._tool}; did you mean {near[0]!r}?"
        where = "; put it into `arguments`" if _ARGUMENTS in self._properties else ""
        return f"{name!r} is not an argument of {self._tool}{where}"

    def _error(self, mistake: str) -> MetaArgumentsError:
        names = [f"{n}{'' if n in self._required else '?'}" for n in self._properties]
        return MetaArgumentsError(mistake, f"{self._tool}({', '.join(names)})")


def _shown(value: JSONValue) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return limits.shortened(json.dumps(value), _MAX_REFUSED_VALUE_LENGTH)


def _is_object(value: JSONValue) -> bool:
    return isinstance(_parsed(value) if isinstance(value, str) else value, dict)


def _parsed(text: str) -> JSONValue:
    try:
        return parse_json(text) if text.strip() else None
    except ValueError:
        return text


def meta_tools(settings: Settings) -> Mapping[str, MetaTool]:
    """The meta-tools under some settings, by name, in the order in which they are listed."""
    is_cutting = bool(settings.result_limits) and settings.server.truncate.style == "boundary"
    optional = [READ_RESULT] if is_cutting else []
    if settings.server.steps:
        optional.append(EXECUTE_STEPS)
    if settings.server.registry_tool != "off":
        is_asking = settings.server.registry_tool == "ask"
        optional.append(REGISTRY_ASKING if is_asking else REGISTRY)
    return {**META_TOOLS, **{tool.name: tool for tool in optional}}


def helpers_beside_tools(settings: Settings) -> Mapping[str, MetaTool]:
    """Return the meta-tools that are listed beside the tools of servers."""
    tools = meta_tools(settings)
    helpers = (READ_RESULT, STEPS_BESIDE_TOOLS, tools.get(REGISTRY.name, REGISTRY))
    return {tool.name: tool for tool in helpers if tool.name in tools}


OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
OnFound: TypeAlias = Callable[["Sequence[SearchAnswer]"], "PoolReport"]


class Caller(Struct, frozen=True):
    """The client that calls a meta-tool, with what is known from its transport."""

    client: Client | None = None
    """None if nothing is known of it; it cannot be asked then."""
    on_progress: OnProgress | None = None
    continuation: Continuation | None = None
    """Its answers to an `input_required` result of the same call of `execute_tool`."""
    is_direct: bool = False
    """True if the client called a tool of a server by that tool's own name."""
    on_found: OnFound | None = None
    """Puts what a search has found into the client's list of tools."""
    label: str = ""
    """Names the client for the owner, as far as it is known, and distinguishes it from others."""

    @property
    def client_id(self) -> str | None:
        """Who may read on in a result of this call."""
        return self.client.id if self.client is not None else None
