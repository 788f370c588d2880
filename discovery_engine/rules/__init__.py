"""Rules that allow, deny and tag tools and servers.

A name is loaded when it is first used: what is remembered is read without compiling a pattern.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.rules.patterns import Pattern, PatternError
    from discovery_engine.rules.rule import Rule, RuleExplanation, Step, Verdict, describe
    from discovery_engine.rules.rule_lint import lint_rules
    from discovery_engine.rules.ruleset import OfferingRules, ServerRules, ToolRules

_MODULES = {
    "RuleExplanation": "rule",
    "OfferingRules": "ruleset",
    "Pattern": "patterns",
    "PatternError": "patterns",
    "Rule": "rule",
    "ServerRules": "ruleset",
    "Step": "rule",
    "ToolRules": "ruleset",
    "Verdict": "rule",
    "describe": "rule",
    "lint_rules": "rule_lint",
}

__all__ = [
    "OfferingRules",
    "Pattern",
    "PatternError",
    "Rule",
    "RuleExplanation",
    "ServerRules",
    "Step",
    "ToolRules",
    "Verdict",
    "describe",
    "lint_rules",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
