"""One resource, resource template or prompt, as the upstream defines it.

Like a tool, it keeps its whole definition as raw JSON; everything else here is read from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import named
from discovery_engine.tools.model import (
    Parameter,
    ServerName,
    Tool,
    canonical_json,
    fingerprint,
    parsed,
    summary_of,
)


class WireNames(NamedTuple):
    """How the protocol names what concerns one kind."""

    capability: str
    method: str
    """Which lists them."""
    member: str
    """The member of the result of `method` that has the list."""
    identifier: str
    """The member of a definition that no two of a server share."""


class OfferingKind(StrEnum):
    """The kinds of things that a server offers besides tools."""

    RESOURCE = "resource"
    TEMPLATE = "template"
    PROMPT = "prompt"

    @property
    def wire(self) -> WireNames:
        return _WIRE[self]

    @property
    def label(self) -> str:
        """The kind in a sentence."""
        return "resource template" if self is OfferingKind.TEMPLATE else self.value


_WIRE: Mapping[OfferingKind, WireNames] = {
    OfferingKind.RESOURCE: WireNames("resources", "resources/list", "resources", "uri"),
    OfferingKind.TEMPLATE: WireNames(
        "resources", "resources/templates/list", "resourceTemplates", "uriTemplate"
    ),
    OfferingKind.PROMPT: WireNames("prompts", "prompts/list", "prompts", "name"),
}


def decision_key(kind: OfferingKind, identifier: str) -> str:
    return f"{kind}:{identifier}"


class Offering(Struct, frozen=True, gc=False):
    """A thing that a server offers besides tools. `source` is its definition as canonical JSON."""

    server: ServerName
    kind: OfferingKind
    identifier: str
    """The URI of a resource, the URI template of a template, the name of a prompt."""
    source: str

    @classmethod
    def from_mcp(cls, server: ServerName, kind: OfferingKind, definition: JSONObject) -> Offering:
        """Read a definition from a list; it must have passed the listing's checks."""
        identifier = definition[kind.wire.identifier]
        return cls(server, kind, identifier, canonical_json(definition))

    @property
    def definition(self) -> JSONObject:
        """The definition as the upstream gave it; treat it as read-only."""
        return parsed(self.source)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.source)

    @property
    def subject(self) -> Literal["resource", "prompt"]:
        """Which rules judge it: those of resources are those of templates, too."""
        return "prompt" if self.kind is OfferingKind.PROMPT else "resource"

    @property
    def decision_key(self) -> str:
        """The key of its acceptance, beside those of its server's tools."""
        return decision_key(self.kind, self.identifier)

    @property
    def label(self) -> str:
        """The server and the identifier, as a line of ours has them."""
        return named(self.identifier, before=f"{self.server}:")

    @property
    def name(self) -> str:
        """Its short name; a prompt's is also its identifier."""
        return _text(self.definition.get("name")) or self.identifier

    @property
    def title(self) -> str:
        return _text(self.definition.get("title"))

    @property
    def description(self) -> str:
        return _text(self.definition.get("description")) or self.title

    @property
    def summary(self) -> str:
        """The first sentence of the description on one line, cut at a word if it is long."""
        return summary_of(self.description)

    @property
    def mime_type(self) -> str:
        return _text(self.definition.get("mimeType"))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments of a prompt: required ones first, then by name; none of a resource."""
        arguments = self.definition.get("arguments")
        if self.kind is not OfferingKind.PROMPT or not isinstance(arguments, list):
            return ()
        parameters = [
            _parameter(argument)
            for argument in arguments
            if isinstance(argument, dict) and argument.get("name")
        ]
        return tuple(sorted(parameters, key=lambda p: (not p.required, p.name)))


Definition: TypeAlias = Tool | Offering
"""Whatever a server offers: it is scanned, accepted and pinned in the same way."""


def _parameter(argument: JSONObject) -> Parameter:
    return Parameter(
        _text(argument.get("name")),
        "string",
        _text(argument.get("description")) or _text(argument.get("title")),
        argument.get("required") is True,
        {"type": "string"},
    )


def _text(value: JSONValue) -> str:
    return value if isinstance(value, str) else ""
