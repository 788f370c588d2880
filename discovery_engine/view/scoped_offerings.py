"""The part of the resources, templates and prompts that some clients see.

What a scope hides is taken out of the catalog. A template leads to URIs that are in no list, so
those it would lead to are compared with what was taken out, and with the rules of the scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.catalog import Catalog, OfferingEntry, ServerPart
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.model import ServerName
from discovery_engine.tools.offering import Offering, OfferingKind
from discovery_engine.view.uri_rules import UriRules
from discovery_engine.view.uri_spellings import keys, without_query

if TYPE_CHECKING:
    from discovery_engine.rules.rule_explanation import RuleExplanation
    from discovery_engine.rules.ruleset import OfferingRules


class ScopedOfferings:
    """Judges by the rules and the tags of a scope."""

    def __init__(
        self, resource_rules: Sequence[Rule], prompt_rules: Sequence[Rule], tags: Sequence[str]
    ) -> None:
        self._resource_rules = resource_rules
        self._prompt_rules = prompt_rules
        self._tags = frozenset(tags)
        self._uri_rules = UriRules(resource_rules)

    def shown(self, part: ServerPart) -> list[bool]:
        """Which of those of a server are shown, in their order."""
        entries = part.offerings
        flags = [not self._tags or self._is_tagged(entry) for entry in entries]
        server = _judged(part.verdict)
        for is_prompt, rules in ((False, self._resource_rules), (True, self._prompt_rules)):
            places = [at for at, entry in enumerate(entries) if _is_prompt(entry) is is_prompt]
            if rules and places:
                judge = self._prompts if is_prompt else self._resources
                verdicts = judge.verdicts([entries[at].offering for at in places], server)
                for at, verdict in zip(places, verdicts, strict=True):
                    flags[at] &= verdict.enabled
        return flags

    def why_hidden(self, part: ServerPart, entry: OfferingEntry) -> str:
        """Why one is not shown, in a few words; empty if it is."""
        if self._tags and not self._is_tagged(entry):
            return f"it is for what is tagged {', '.join(map(repr, sorted(self._tags)))}"
        explained = self._explained(part, entry)
        return "" if explained is None or explained.verdict.enabled else explained.sentence

    def guard(self, whole: Catalog, shown: Catalog) -> UriGuard:
        """Return the guard of the URIs that templates lead to, with only `shown` visible."""
        return UriGuard(whole, shown, self._uri_rules)

    def _is_tagged(self, entry: OfferingEntry) -> bool:
        return not self._tags.isdisjoint(entry.verdict.tags)

    def _explained(self, part: ServerPart, entry: OfferingEntry) -> RuleExplanation | None:
        is_prompt = _is_prompt(entry)
        if not (self._prompt_rules if is_prompt else self._resource_rules):
            return None
        rules = self._prompts if is_prompt else self._resources
        return rules.explain(entry.offering, _judged(part.verdict))

    @cached_property
    def _resources(self) -> OfferingRules:
        # Compiling patterns loads a library that a remembered catalog is read without.
        from discovery_engine.rules.ruleset import OfferingRules  # noqa: PLC0415

        return OfferingRules(self._resource_rules, "resource")

    @cached_property
    def _prompts(self) -> OfferingRules:
        from discovery_engine.rules.ruleset import OfferingRules  # noqa: PLC0415

        return OfferingRules(self._prompt_rules, "prompt")


class UriGuard(Struct, frozen=True, dict=True):
    """Keeps templates from leading out of a scope."""

    whole: Catalog
    shown: Catalog
    rules: UriRules

    def admits(self, uri: str, of: Offering) -> bool:
        """Return whether a URI may be seen.

        Args:
            uri: Of a resource that is not listed.
            of: What leads to it: a template, or a resource that it is part of.
        """
        if (removed := self._removed(of.server)) and not removed.isdisjoint(
            keys(uri) | keys(without_query(uri))
        ):
            return False
        server = _judged(self.whole.part(of.server).verdict)
        return self.rules.denial(uri, of, server) is None

    def _removed(self, server: ServerName) -> frozenset[str]:
        """Every spelling of the URIs of a server's resources that are not shown."""
        spellings = self._removed_by_server.get(server)
        if spellings is None:
            spellings = self._removed_by_server[server] = frozenset(
                key for uri in self._removed_uris(server) for key in keys(uri)
            )
        return spellings

    def _removed_uris(self, server: ServerName) -> set[str]:
        whole, part = self.whole.part(server), self.shown.part(server)
        if whole.offerings is part.offerings:
            return set()
        return _uris(whole) - _uris(part)

    @cached_property
    def _removed_by_server(self) -> dict[ServerName, frozenset[str]]:
        return {}


def _uris(part: ServerPart) -> set[str]:
    return {entry.offering.identifier for entry in part.resources}


def _is_prompt(entry: OfferingEntry) -> bool:
    return entry.offering.kind is OfferingKind.PROMPT


def _judged(server: Verdict) -> Verdict:
    """The verdict on a server as the rules of a scope need it: they only read its tags."""
    return Verdict(tags=server.tags)
