"""Compares tools, resources, templates and prompts with their accepted definitions.

The whole definition counts, but not the order of keys, nor that of `required`, `enum` and other
lists in which order has no meaning. Tools are withheld one by one; a change of the server's
instructions withholds all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.tools.model import canonical_json, fingerprint
from discovery_engine.trust.decisions import INSTRUCTIONS, Acceptance, AcceptedTools

if TYPE_CHECKING:
    from discovery_engine.config.settings import TrustPolicy
    from discovery_engine.rules.rule import Withheld
    from discovery_engine.tools.offering import Definition

_MOST_NAMES = 80_001
"""The most names of one server: all that it may list, and the instructions. Further names are
withheld, so that a server cannot invent them without end."""
_UNORDERED = frozenset({"required", "enum", "type", "anyOf", "oneOf", "allOf", "examples"})
_NAMED_SCHEMAS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_DATA = frozenset({"default", "const", "enum", "examples"})
_SCHEMAS = frozenset({"inputSchema", "outputSchema"})


def withheld(
    tool: Definition, policy: TrustPolicy, accepted: AcceptedTools, suspects: Collection[str] = ()
) -> Withheld | None:
    """Return why a definition is withheld; None if it may be used.

    `accepted` is what the owner accepted of its server. A definition that is new follows the
    policy, but is withheld if it is one of the `suspects`.
    """
    digests = accepted.get(tool.decision_key)
    if policy == "open" or (digests and tool.fingerprint in digests):
        return None
    if digests:
        return None if meaning(tool.definition) in digests else "changed"
    if tool.decision_key in suspects:
        return "suspicious"
    return "pending" if policy == "quarantine" or len(accepted) >= _MOST_NAMES else None


def are_held_back(
    instructions: str,
    policy: TrustPolicy,
    accepted: AcceptedTools,
    suspects: Collection[str] = (),
) -> Withheld | None:
    """Return why a server's instructions are withheld; None if they may be shown."""
    digests = accepted.get(INSTRUCTIONS)
    if policy == "open" or (digests and _text_meaning(instructions) in digests):
        return None
    if digests:
        return "changed"
    if INSTRUCTIONS in suspects:
        return "suspicious"
    return "pending" if policy == "quarantine" else None


def first_seen(
    server: str,
    tools: Iterable[Definition],
    instructions: str,
    policy: TrustPolicy,
    accepted: AcceptedTools,
    suspects: Collection[str] = (),
) -> Iterator[Acceptance]:
    """Yield acceptances of everything new in a listing that the policy accepts on first use."""
    if policy != "on_first_use":
        return
    names = {*accepted, *suspects}
    if INSTRUCTIONS not in names:
        yield accept_instructions(server, instructions)
    room = _MOST_NAMES - len(accepted)
    for tool in tools:
        if tool.decision_key not in names and room > 0:
            room -= 1
            yield accept(server, tool)


def accept(server: str, tool: Definition) -> Acceptance:
    """Return the acceptance of a definition; `server` is the server's key in decisions."""
    return Acceptance(
        server, tool.decision_key, meaning(tool.definition), tool.fingerprint, tool.source
    )


def accept_instructions(server: str, text: str) -> Acceptance:
    digest = _text_meaning(text)
    return Acceptance(server, INSTRUCTIONS, digest, digest, canonical_json(text))


def meaning(definition: JSONObject) -> str:
    """Return a digest of a definition; definitions that differ only in order have the same."""
    return fingerprint(canonical_json(ordered(definition)))


def ordered(definition: JSONObject) -> JSONObject:
    """Return a definition in which every list without a meaningful order is sorted."""
    return {
        key: _plain_schema(value) if key in _SCHEMAS else _plain(value)
        for key, value in definition.items()
    }


def _text_meaning(text: str) -> str:
    return fingerprint(canonical_json(text))


def _plain_schema(schema: JSONValue) -> JSONValue:
    if isinstance(schema, list):
        return [_plain_schema(element) for element in schema]
    if not isinstance(schema, dict):
        return _plain(schema)
    return {key: _plain_member(key, value) for key, value in schema.items()}


def _plain_member(key: str, value: JSONValue) -> JSONValue:
    if key in _NAMED_SCHEMAS and isinstance(value, dict):
        return {name: _plain_schema(schema) for name, schema in value.items()}
    plain = _plain(value) if key in _DATA else _plain_schema(value)
    if key in _UNORDERED and isinstance(plain, list):
        return sorted(plain, key=canonical_json)
    return plain


def _plain(value: JSONValue) -> JSONValue:
    """Return a value with whole floats as integers: JSON does not tell 1.0 from 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    return value
