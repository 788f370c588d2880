"""A resource, resource template or prompt, as its server defines it.

Like a tool, it keeps its whole definition as JSON text, and reads everything else from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, text_of
from discovery_engine._util.text import named
from discovery_engine.rpc.protocol import SKILLS_EXTENSION
from discovery_engine.tools.model import (
    Parameter,
    ServerName,
    Tool,
    canonical_json,
    fingerprint,
    parsed,
    summary_of,
)
from discovery_engine.tools.skills import TEXT, files_of


class WireNames(Struct, frozen=True):
    """The protocol's names for one kind of offering."""

    capability: str
    """The capability, or the extension, that declares it."""
    method: str
    """The method that lists them."""
    member: str
    """The member of the method's result that contains the list."""
    identifier: str
    """The member of a definition that is unique within a server."""


class OfferingKind(StrEnum):
    """The kinds of things that a server offers besides tools."""

    RESOURCE = "resource"
    TEMPLATE = "template"
    PROMPT = "prompt"
    SKILL = "skill"

    @property
    def wire(self) -> WireNames:
        return _WIRE[self]

    @property
    def label(self) -> str:
        """The name of the kind, for a sentence."""
        return "resource template" if self is OfferingKind.TEMPLATE else self.value


_WIRE: Mapping[OfferingKind, WireNames] = {
    OfferingKind.RESOURCE: WireNames("resources", "resources/list", "resources", "uri"),
    OfferingKind.TEMPLATE: WireNames(
        "resources", "resources/templates/list", "resourceTemplates", "uriTemplate"
    ),
    OfferingKind.PROMPT: WireNames("prompts", "prompts/list", "prompts", "name"),
    OfferingKind.SKILL: WireNames(SKILLS_EXTENSION, "skills/list", "skills", "uri"),
}


def decision_key(kind: OfferingKind, identifier: str) -> str:
    return f"{kind}:{identifier}"


class Offering(Struct, frozen=True, gc=False):
    """A resource, template, prompt or skill. `source` is its definition as canonical JSON text."""

    server: ServerName
    kind: OfferingKind
    identifier: str
    """The URI of a resource, the URI template of a template, the name of a prompt."""
    source: str

    @classmethod
    def from_mcp(cls, server: ServerName, kind: OfferingKind, definition: JSONObject) -> Offering:
        """Create an offering from a definition of a list that the listing has checked."""
        identifier = definition[kind.wire.identifier]
        return cls(server, kind, identifier, canonical_json(definition))

    @property
    def definition(self) -> JSONObject:
        """The server's definition, read-only."""
        return parsed(self.source)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.source)

    @property
    def subject(self) -> Literal["resource", "prompt"]:
        """The kind of rules that decide about it; those of resources cover templates and skills."""
        return "prompt" if self.kind is OfferingKind.PROMPT else "resource"

    @property
    def decision_key(self) -> str:
        """The key of the owner's decisions, unique among tools and offerings of its server."""
        return decision_key(self.kind, self.identifier)

    @property
    def label(self) -> str:
        """The server and the identifier, for a line of output."""
        return named(self.identifier, before=f"{self.server}:")

    @property
    def name(self) -> str:
        """The short name; the identifier if it has none."""
        return text_of(self._about.get("name")) or self.identifier

    @property
    def title(self) -> str:
        return text_of(self.definition.get("title"))

    @property
    def description(self) -> str:
        return text_of(self._about.get("description")) or self.title

    @property
    def summary(self) -> str:
        """The first sentence of the description on one line, cut at a word if it is long."""
        return summary_of(self.description)

    @property
    def _about(self) -> JSONObject:
        """The member of the definition, or itself, that has its name and description."""
        about: JSONObject = self.definition
        return about["frontmatter"] if self.kind is OfferingKind.SKILL else about

    @property
    def files(self) -> dict[str, str]:
        """The digests of the files of a skill, by their URIs; empty for others."""
        return files_of(self.definition) if self.kind is OfferingKind.SKILL else {}

    @property
    def text(self) -> str:
        """The text of a skill's `SKILL.md`; empty for others."""
        return text_of(self.definition[TEXT]) if self.kind is OfferingKind.SKILL else ""

    def with_text(self, text: str) -> Offering:
        """Return the skill with the text of another of its files, for the scanner."""
        return self.from_mcp(self.server, self.kind, {**self.definition, TEXT: text})

    @property
    def mime_type(self) -> str:
        return text_of(self.definition.get("mimeType"))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments of a prompt, required ones first, then by name; empty for resources."""
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
"""Anything that a server offers; all kinds are scanned, accepted and pinned in the same way."""


def _parameter(argument: JSONObject) -> Parameter:
    return Parameter(
        text_of(argument.get("name")),
        "string",
        text_of(argument.get("description")) or text_of(argument.get("title")),
        argument.get("required") is True,
        {"type": "string"},
    )
