"""Calls of meta-tools: the tools that exist, their callers, and the arguments a model wrote.

Parsing is lenient where the meaning is unambiguous (`"5"` for 5, one tag for a list of one, an
object as JSON text, `max_tokens` for `maxTokens`, `params` for `arguments`); any other mistake
raises an error with the signature. An unknown name is an error, because it is usually an argument
of the upstream tool that was written one level too high.
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
    EXECUTE_SCRIPT,
    EXECUTE_STEPS,
    META_TOOLS,
    READ_RESULT,
    REGISTRY,
    REGISTRY_ASKING,
    SCRIPT_BESIDE_TOOLS,
    STEPS_BESIDE_TOOLS,
    MetaTool,
)
from discovery_engine.tools.schemas import WORDS_FOR_ARGUMENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discovery_engine.agent.answer_rendering import PoolReport
    from discovery_engine.catalog import Entry
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.view.search_answers import SearchAnswer

_NAMES = 32  # arguments, at most; more than all spellings of the arguments of a meta-tool
_MAX_REFUSED_VALUE_LENGTH = 40  # characters of a rejected value in an error
_LISTED = 8  # unknown arguments in an error
_DIGITS = 18  # of a number in quotes; Python refuses to convert thousands of digits
_ARGUMENTS = "arguments"

_FOR_ARGUMENTS = frozenset(map(folded, WORDS_FOR_ARGUMENTS))
_WORDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_FOR_ARGUMENTS, (_ARGUMENTS,)),
    **dict.fromkeys(("toolname", "function", "functionname"), ("tool",)),
    **dict.fromkeys(("servername", "serverid", "mcpserver", "mcpservername"), ("server",)),
    **dict.fromkeys(("q", "search", "searchquery", "request", "text"), ("query",)),
    "name": ("tool", "server"),
}
"""Maps folded synonyms to arguments of meta-tools; the first that the tool has is used."""


def meant_argument(name: str, names: Collection[str]) -> str | None:
    """Return the argument in `names` that `name` spells or is a synonym of; None if none."""
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
        """Match the arguments of a call to the properties of a schema.

        Args:
            members: The arguments as the model wrote them.
            schema: The input schema of the meta-tool.
            tool: The name of the meta-tool.

        Raises:
            MetaArgumentsError: If an argument is unknown, or given twice.
            InputTooLongError: If there are more than 32 arguments, or a name is too long.
        """
        self._properties: Mapping[str, JSONValue] = schema["properties"]
        self._required = schema.get("required", [])
        self._tool = tool
        self._given: JSONObject = {}
        self._written: dict[str, str] = {}
        if len(members) > 1 and members.keys() <= self._properties.keys():  # as nearly always
            self._given, self._written = members, dict(zip(members, members, strict=True))
            return
        if not self._properties:  # some hosts make models write one: `{"random_string": "dummy"}`
            return
        limits.require_names(f"argument of {tool}", members, most=_NAMES)
        for name, value in self._unwrapped(members).items():
            argument = self._known(name, value, members)
            if argument in self._given:
                raise self._error(f"{argument} is given twice")
            self._given[argument], self._written[argument] = value, name

    def optional_text(self, name: str, *, is_whole: bool = False) -> str | None:
        """Return a string, without surrounding blanks unless whole; None if missing or blank."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._error(f"{name} must be a string, not {_shown(value)}")
        text = value.strip() or None
        return value if text and is_whole else text

    def optional_name(self, name: str) -> str | None:
        """Return the name of a server or a tool; None if it is missing or blank.

        Raises:
            InputTooLongError: If it is longer than any name may be.
        """
        value = self.optional_text(name)
        limits.require_name(name, value)
        return value

    def text(self, name: str) -> str:
        """Return a required name; see `optional_name`.

        Raises:
            MetaArgumentsError: If it is missing or blank.
        """
        value = self.optional_name(name)
        if value is None:
            raise self.missing(name)
        return value

    def written(self, name: str) -> str | None:
        """Return the spelling that the caller used for an argument; None if it is missing."""
        return self._written.get(name)

    def called_tool(self) -> tuple[str | None, str]:
        """Return the server, or None if it is not given, and the tool to call."""
        server = self.optional_name("server") if "server" in self._given else None
        name = self.optional_name("call_as") if "call_as" in self._given else None
        return server, name or self.tool()

    def tool(self) -> str:
        """Return the unchanged name of a tool: surrounding blanks may be part of the name."""
        self.text("tool")
        name: str = self._given["tool"]
        return name

    def optional_count(self, name: str) -> int | None:
        """Return an integer not below the schema's `minimum`, or 1; None if it is missing."""
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
        """Return a boolean; False if it is missing."""
        value = self._given.get(name)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            value = value.lower() == "true"
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self._error(f"{name} must be true or false")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return strings as a tuple: of one for a lone string, empty for a missing argument."""
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
        """Return any JSON value, decoded if it was written as JSON text; None if it is missing."""
        value = self._given.get(name)
        return _parsed(value) if isinstance(value, str) else value

    def mapping(self, name: str) -> JSONObject:
        """Return an object, decoded if it was written as JSON text; empty if it is missing."""
        value = self._given.get(name)
        if isinstance(value, str):
            value = _parsed(value)
        if value is None or value == []:  # PHP writes an empty object so
            return {}
        if not isinstance(value, dict):
            raise self._error(f"{name} must be an object")
        return value

    def mistake(self, text: str) -> MetaArgumentsError:
        """Return an error for a wrong value; `text` says what is wrong."""
        return self._error(text)

    def missing(self, *names: str) -> MetaArgumentsError:
        """Return an error that one of `names` is required."""
        return self._error(f"{' or '.join(names)} is required")

    def _unwrapped(self, members: JSONObject) -> JSONObject:
        """Unwrap a lone argument such as `params` that holds all arguments of the tool.

        Otherwise return `members` unchanged.
        """
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
        """Return the schema's name of an argument that was spelt differently or by a synonym.

        Raises:
            MetaArgumentsError: If there is no such argument.
        """
        if name in self._properties:
            return name
        argument = meant_argument(name, self._properties)
        if argument is None:
            raise self._error(self._unknown_argument(name, members))
        is_other_word = folded(argument) != folded(name)
        # With the real name beside it, a synonym is probably an argument of the upstream tool.
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
        if _ARGUMENTS not in self._properties:
            return f"{name!r} is not an argument of {self._tool}"
        if folded(name) in _FOR_ARGUMENTS:
            return f"{name!r} is not an argument of {self._tool}; only `arguments` is sent"
        strangers = [other for other in members if not meant_argument(other, self._properties)]
        if len(strangers) < 2:  # noqa: PLR2004
            return f"{name!r} is not an argument of {self._tool}; put it into `arguments`"
        listed = ", ".join(map(repr, strangers[:_LISTED]))
        return f"{listed} are not arguments of {self._tool}; put them into `arguments`"

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
    """Return the meta-tools that the settings enable by name, in the order of listing."""
    is_cutting = bool(settings.result_limits) and settings.server.truncate.style == "boundary"
    optional = [READ_RESULT] if is_cutting else []
    if settings.server.steps:
        optional.append(EXECUTE_STEPS)
    if settings.server.script:
        optional.append(EXECUTE_SCRIPT)
    if settings.server.registry_tool != "off":
        is_asking = settings.server.registry_tool == "ask"
        optional.append(REGISTRY_ASKING if is_asking else REGISTRY)
    return {**META_TOOLS, **{tool.name: tool for tool in optional}}


def helpers_beside_tools(settings: Settings) -> Mapping[str, MetaTool]:
    """Return the meta-tools that are listed beside the tools of servers."""
    tools = meta_tools(settings)
    helpers = (
        READ_RESULT,
        STEPS_BESIDE_TOOLS,
        SCRIPT_BESIDE_TOOLS,
        tools.get(REGISTRY.name, REGISTRY),
    )
    return {tool.name: tool for tool in helpers if tool.name in tools}


OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
OnFound: TypeAlias = Callable[["Sequence[SearchAnswer]"], "PoolReport"]
OnCall: TypeAlias = Callable[["Entry"], None]


class Caller(Struct, frozen=True):
    """The client that calls a meta-tool, as far as its transport identifies it."""

    client: Client | None = None
    """The client; None if it is unknown, so that no requests can be sent to it."""
    on_progress: OnProgress | None = None
    continuation: Continuation | None = None
    """The client's answers to an `input_required` result of the same call of `execute_tool`."""
    on_call: OnCall | None = None
    """Makes a tool that is called, by name, in steps or a script, fresh in the client's list."""
    is_direct: bool = False
    """True if the client called an upstream tool by its own name, without `execute_tool`."""
    on_found: OnFound | None = None
    """Adds the tools that a search found to the client's list of tools."""
    label: str = ""
    """Identifies the client to the owner as far as possible."""

    @property
    def client_id(self) -> str | None:
        """Return the id of the client that may read more of a long result; None if unknown."""
        return self.client.id if self.client is not None else None
