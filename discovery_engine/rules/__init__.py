"""Rules that allow, deny and tag tools and servers.

A name is loaded when it is first used: what is remembered is read without compiling a pattern.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.rules.explanation import RuleExplanation, Step, describe
    from discovery_engine.rules.lint import RuleFinding, findings
    from discovery_engine.rules.patterns import Pattern, PatternError
    from discovery_engine.rules.rule import Rule, Verdict
    from discovery_engine.rules.ruleset import ServerRules, ToolRules

_HOMES = {
    "RuleExplanation": "explanation",
    "RuleFinding": "lint",
    "Pattern": "patterns",
    "PatternError": "patterns",
    "Rule": "rule",
    "ServerRules": "ruleset",
    "Step": "explanation",
    "ToolRules": "ruleset",
    "Verdict": "rule",
    "describe": "explanation",
    "findings": "lint",
}

__all__ = [
    "Pattern",
    "PatternError",
    "Rule",
    "RuleExplanation",
    "RuleFinding",
    "ServerRules",
    "Step",
    "ToolRules",
    "Verdict",
    "describe",
    "findings",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
