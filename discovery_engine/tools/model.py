"""A tool as its server defines it and its owner overrides it.

A tool keeps its whole definition as JSON text, so that clients get all of it. Everything else is
read from this text and the overrides.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NewType

import msgspec
from msgspec import Struct, field

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.text import cut, named
from discovery_engine.tools.apps import app_of, is_of_app_alone
from discovery_engine.tools.schemas import (
    ArgumentChoice,
    DescribedArguments,
    arguments_in,
    object_schema,
    says_nothing,
    without_parameters,
)

ServerName = NewType("ServerName", str)
ToolName = NewType("ToolName", str)

_UNION_DEPTH = 3  # levels of nested unions; a server may nest them endlessly
_PARSED = 1000  # cached definitions, and cached summaries
_DESCRIBED = 100  # cached argument lists
_SUMMARY_LENGTH = 120  # characters; about 30 tokens, so that ten hits stay under 400


class ToolKey(Struct, frozen=True, order=True):
    """The address of a tool: its server and its name."""

    server: ServerName
    tool: ToolName

    def __str__(self) -> str:
        return f"{self.server}:{self.tool}"

    @property
    def label(self) -> str:
        """The address for a line of output, quoted if the tool's name is not a plain word."""
        return named(self.tool, before=f"{self.server}:")


class Parameter(Struct, frozen=True):
    name: str
    type: str
    """A JSON Schema type, several joined by `|`, or `any`."""
    description: str
    required: bool
    schema: JSONObject


class AppliedOverride(Struct, frozen=True):
    """The owner's overrides of one tool, merged."""

    name: ToolName | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    """Requests that the tool serves; for search alone."""
    pinned: Mapping[str, int] = field(default_factory=dict)
    """The parameters that the owner pins, each with the index of the entry that has its value."""
    by: tuple[int, ...] = ()
    """The indices of the entries of `overrides` that match."""
    problems: tuple[str, ...] = ()
    """The problems of these entries, each in a few words without a full stop."""

    def __hash__(self) -> int:
        # A dict is not hashable, so `pinned` is left out.
        return hash((self.name, self.description, self.tags, self.examples, self.by))


NO_OVERRIDE = AppliedOverride()
"""Shared by all tools without one: one each would be a sixth of a tool's memory."""


# Thousands live long, and none is part of a reference cycle, so the collector skips them.
class Tool(Struct, frozen=True, gc=False):
    """A tool of a server. `source` is its definition as canonical JSON text."""

    server: ServerName
    given_name: ToolName
    """The server's own name, after the server's `prefix` if it has one; rules match this one."""
    upstream_name: str
    source: str
    overridden: AppliedOverride = NO_OVERRIDE

    @classmethod
    def from_mcp(cls, server: ServerName, definition: JSONObject, *, prefix: str = "") -> Tool:
        """Create a tool from a definition of `tools/list` that the listing has checked."""
        source = canonical_json(definition)
        name = definition["name"]
        return cls(server, ToolName(prefix + name), name, source)

    @property
    def name(self) -> ToolName:
        """The name of the tool here: the owner's, or else `given_name`."""
        return self.overridden.name or self.given_name

    @property
    def key(self) -> ToolKey:
        return ToolKey(self.server, self.name)

    @property
    def decision_key(self) -> str:
        """The key of the owner's decisions, unique among the tools of its server."""
        return self.upstream_name

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the server's definition, without overrides."""
        return fingerprint(self.source)

    @property
    def definition(self) -> JSONObject:
        """The server's definition, read-only."""
        return parsed(self.source)

    @property
    def description(self) -> str:
        text = self.overridden.description or self.definition.get("description") or self.title
        return text if isinstance(text, str) else ""

    @property
    def title(self) -> str:
        title = self.definition.get("title") or self.annotations.get("title")
        return title if isinstance(title, str) else ""

    @property
    def annotations(self) -> JSONObject:
        annotations = self.definition.get("annotations")
        return annotations if isinstance(annotations, dict) else {}

    @property
    def app(self) -> str:
        """The URI of the page in which a host shows its results; empty if it has none."""
        return app_of(self.definition) if '"ui' in self.source else ""

    @property
    def is_for_models(self) -> bool:
        """False if only the page of an app may call it."""
        return '"visibility"' not in self.source or not is_of_app_alone(self.definition)

    @property
    def upstream_schema(self) -> JSONObject:
        """The object schema of the server's arguments, with pinned ones; for internal use."""
        return _input_schema(self.source)

    @property
    def is_described(self) -> bool:
        """True if the server describes the arguments, even if there are none."""
        return not says_nothing(self.definition.get("inputSchema"))

    @property
    def input_schema(self) -> JSONObject:
        """The schema of a caller's arguments: the server's, without pinned ones."""
        return _input_schema(self.source, self.overridden.pinned)

    @property
    def summary(self) -> str:
        """The first sentence of the description on one line, cut at a word if it is long."""
        return summary_of(self.description)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters, required ones first, then by name."""
        return _parameters(self.source, frozenset(self.overridden.pinned))

    @property
    def parameter_count(self) -> int:
        return len(self._arguments.schemas)

    @property
    def choices(self) -> tuple[ArgumentChoice, ...]:
        """The alternatives among parameters: which of them can stand in place of others."""
        return self._arguments.choices

    @property
    def takes_unnamed(self) -> bool:
        """True if it names no parameter and may still take some."""
        return not self._arguments.schemas and (self.takes_any or not self.is_described)

    @property
    def takes_any(self) -> bool:
        """True if the server allows arguments that it does not name."""
        return self._arguments.is_open

    @property
    def _arguments(self) -> DescribedArguments:
        return _described_arguments(self.source, frozenset(self.overridden.pinned))


_SAYS_WHEN = lazy_pattern(r"(?i)(?:use|call) (?:this|it)\b[\w ]{0,20}?\b(?:when(?:ever)?|if)\b")
_LEAD_IN = lazy_pattern(
    r"(?i)(?:(?:use|call) this(?: tool| function)? to"
    r"|this (?:tool|function) (?:is used to|allows you to|lets you|can|will)"
    r"|this (?:tool|function)(?= (?!is |has |was )\w+s )) (?=\w)"
)
# With its literal first it takes a hundredth of the time: 0.3 µs.
_SENTENCE_END = lazy_pattern(r"\. (?<!\be\.g\. )(?<!\bi\.e\. )(?<!\bvs\. )(?<!\bincl\. )")


# Parsed, a definition takes six times the memory of its text, so only those in use are cached.
@lru_cache(maxsize=_PARSED)
def parsed(source: str) -> JSONObject:
    """Return the definition in canonical JSON text, read-only."""
    definition: JSONObject
    try:
        definition = msgspec.json.decode(source)  # takes a quarter of the time of json
    except (ValueError, RecursionError):  # lone surrogates, and numbers beyond a float
        definition = json.loads(source)
    return definition


def _input_schema(source: str, pinned: Collection[str] = ()) -> JSONObject:
    schema = object_schema(parsed(source).get("inputSchema"))
    return without_parameters(schema, pinned) if pinned else schema


# A line about a tool needs them ten times, and reading them takes up to a millisecond.
@lru_cache(maxsize=_DESCRIBED)
def _described_arguments(source: str, pinned: frozenset[str]) -> DescribedArguments:
    return arguments_in(_input_schema(source, pinned))


@lru_cache(maxsize=_DESCRIBED)  # indexing a tool needs them twice
def _parameters(source: str, pinned: frozenset[str]) -> tuple[Parameter, ...]:
    described = _described_arguments(source, pinned)
    needed = frozenset(described.required)
    parameters = [
        _parameter(name, schema, required=name in needed)
        for name, schema in described.schemas.items()
    ]
    return tuple(sorted(parameters, key=lambda p: (not p.required, p.name)))


@lru_cache(maxsize=_PARSED)
def summary_of(description: str) -> str:
    """Return the first sentence that says what a tool does, on one line, cut if it is long.

    One that says when to use it is passed over, and so are words such as `Use this tool to`.
    """
    text = " ".join(description.split())
    while (end := _SENTENCE_END.search(text)) and _SAYS_WHEN.match(text):
        text = text[end.end() :]
    if end:
        text = text[: end.end()].rstrip()
    if lead_in := _LEAD_IN.match(text):
        text = text[lead_in.end()].upper() + text[lead_in.end() + 1 :]
    return cut(text, _SUMMARY_LENGTH)


def canonical_json(value: JSONValue) -> str:
    """Return JSON text that is equal for equal values, whatever the order of their keys.

    Lone surrogates are escaped, so that the text can be encoded as UTF-8.
    """
    text = _CANONICAL.encode(value)
    return text.encode("utf-8", "backslashreplace").decode()


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def is_canonical(text: str, value: JSONValue) -> bool:
    """Return whether `text` is surely canonical JSON of `value`; a seventh of encoding it."""
    try:
        return _SORTED.encode(value).decode() == text
    except (ValueError, OverflowError):  # a lone surrogate, a number of more than 64 bits
        return False


_SORTED = msgspec.json.Encoder(order="sorted")  # it writes some numbers in another way


def fingerprint(canonical: str) -> str:
    """Return the SHA-256 of canonical JSON, in hexadecimal."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, which reading does not need

    return hashlib.sha256(canonical.encode()).hexdigest()


def _parameter(name: str, schema: JSONValue, *, required: bool) -> Parameter:
    facts = schema if isinstance(schema, dict) else {}
    text = facts.get("description") or facts.get("title") or ""
    description = text if isinstance(text, str) else ""
    return Parameter(name, _type_name(facts), description, required, facts)


def _type_name(schema: JSONObject, depth: int = _UNION_DEPTH) -> str:
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    if isinstance(kind, list):
        return "|".join(map(str, kind))
    for union in ("anyOf", "oneOf"):
        branches = schema.get(union)
        if isinstance(branches, list) and depth:
            names = [_type_name(b, depth - 1) for b in branches if isinstance(b, dict)]
            return "|".join(dict.fromkeys(names)) or "any"
    return "any"
