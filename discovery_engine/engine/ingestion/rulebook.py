"""The rules and overrides of one configuration, compiled on first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.rules import OfferingRules, ServerRules, ToolRules
from discovery_engine.rules.overrides.applying import Overrides

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.diagnostics import Diagnostic


class Rulebook(Struct, frozen=True, dict=True):
    settings: Settings

    @cached_property
    def tool_rules(self) -> ToolRules:
        return ToolRules(self.settings.tool_rules)

    @cached_property
    def resource_rules(self) -> OfferingRules:
        return OfferingRules(self.settings.resource_rules, "resource")

    @cached_property
    def prompt_rules(self) -> OfferingRules:
        return OfferingRules(self.settings.prompt_rules, "prompt")

    @cached_property
    def server_rules(self) -> ServerRules:
        return ServerRules(self.settings.server_rules)

    @cached_property
    def overrides(self) -> Overrides:
        return Overrides(self.settings.overrides)

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """Patterns that were too slow and overrides that cannot be applied, each once."""
        rules = self.server_rules.problems + self.tool_rules.problems
        rules += self.resource_rules.problems + self.prompt_rules.problems
        return rules + self.overrides.problems
