"""What is known about one callable, as the upstream told it.

A tool keeps its whole definition as raw JSON, so that nothing an upstream says is lost on the
way to a client; everything else here is read from it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NewType, TypeAlias

JSONValue: TypeAlias = Any
JSONObject: TypeAlias = dict[str, JSONValue]

ServerName = NewType("ServerName", str)
ToolName = NewType("ToolName", str)

_UNION_DEPTH = 3  # unions in unions that are told apart; a stranger may nest them without end
_SUMMARY_LENGTH = 120  # characters; about 30 tokens, so that ten hits stay under 400


@dataclass(frozen=True, slots=True, order=True)
class ToolKey:
    """The one address of a tool: which server, which name."""

    server: ServerName
    tool: ToolName

    def __str__(self) -> str:
        return f"{self.server}:{self.tool}"


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str
    """A JSON Schema type, several joined by `|`, or `any`."""
    description: str
    required: bool
    schema: JSONObject


@dataclass(frozen=True)
class Tool:
    """One tool of one server. `source` is its definition as canonical JSON text."""

    server: ServerName
    name: ToolName
    """The name it is known by here: the upstream's, behind the server's `prefix` if it has one."""
    upstream_name: str
    source: str
    fingerprint: str

    @classmethod
    def from_mcp(cls, server: ServerName, definition: JSONObject, *, prefix: str = "") -> Tool:
        """Read a definition from `tools/list`; it must have passed the listing's checks."""
        source = canonical_json(definition)
        name = definition["name"]
        return cls(server, ToolName(prefix + name), name, source, fingerprint(source))

    @property
    def key(self) -> ToolKey:
        return ToolKey(self.server, self.name)

    @cached_property
    def definition(self) -> JSONObject:
        """The definition as the upstream gave it; treat it as read-only."""
        definition: JSONObject = json.loads(self.source)
        return definition

    @property
    def description(self) -> str:
        text = self.definition.get("description") or self.title
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
    def input_schema(self) -> JSONObject:
        schema = self.definition.get("inputSchema")
        return schema if isinstance(schema, dict) else {"type": "object"}

    @cached_property
    def summary(self) -> str:
        """The first sentence of the description on one line, cut at a word if it is long."""
        text = " ".join(self.description.split())
        sentence, stop, _ = text.partition(". ")
        text = sentence + stop.strip()
        if len(text) <= _SUMMARY_LENGTH:
            return text
        return text[:_SUMMARY_LENGTH].rsplit(" ", 1)[0].rstrip(",;:") + "…"

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Required ones first, then by name."""
        properties = self.input_schema.get("properties")
        if not isinstance(properties, dict):
            return ()
        required = self.input_schema.get("required")
        named = required if isinstance(required, list) else []
        needed = {name for name in named if isinstance(name, str)}
        found = [
            _parameter(name, schema, required=name in needed) for name, schema in properties.items()
        ]
        return tuple(sorted(found, key=lambda p: (not p.required, p.name)))


def canonical_json(value: JSONValue) -> str:
    """JSON text that is equal for equal values, whatever the order of their keys.

    A lone surrogate is escaped, so that the text can be stored and sent as UTF-8.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()


def fingerprint(canonical: str) -> str:
    """SHA-256 in hexadecimal of canonical JSON."""
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
