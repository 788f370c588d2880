"""How the plan of an import is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_cli.output import Cell, Output
from discovery_engine.config.serialization import serialize_server_redacted
from discovery_engine.json_forms.error_form import problem_form
from discovery_engine.secrets.stored_values import length_class

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.editing.import_entries import ImportCandidate
    from discovery_engine.config.editing.import_plan import ImportPlan

_ADVICE = "`sources: [{type: …}]` in discovery.yaml uses the file as it is"


def plan_form(plan: ImportPlan) -> JSONObject:
    return {
        "servers": [
            {
                "name": candidate.server.name,
                "from": candidate.server.source,
                "entry": serialize_server_redacted(candidate.server),
                "variables": list(candidate.variables),
            }
            for candidate in plan.servers
        ],
        "skipped": [{"name": server.name, "reason": server.reason} for server in plan.skipped],
        "variables": plan.variables,
        "secrets": [
            {"name": name, "length": length_class(text)} for name, text in plan.secrets.items()
        ],
        "rule_count": len(plan.rules),
        "warnings": [problem_form(problem) for problem in plan.warnings],
    }


def show_plan(output: Output, plan: ImportPlan) -> None:
    rows: list[list[Cell | str]] = [
        [output.mark(good=True), Cell(candidate.server.name, "strong"), _about(candidate)]
        for candidate in plan.servers
    ]
    rows += [[output.mark(good=False), Cell(o.name, "strong"), o.reason] for o in plan.skipped]
    output.table(rows)
    for name, text in plan.secrets.items():
        output.say(f"stores {name}: ••••  {length_class(text)} characters")
    for candidate in plan.servers:
        if candidate.is_seen:
            output.say(
                f"note: {candidate.server.name} gets a secret in its arguments, where other"
                " programs of this machine can see it"
            )
    for problem in plan.warnings:
        output.say(f"note: {problem}")
    if any(server.is_secret for server in plan.skipped):
        output.say(f"hint: {_ADVICE}")


def say_variables(output: Output, plan: ImportPlan) -> None:
    if names := plan.variables:
        output.say(
            f"set {', '.join(names)}: secrets are referred to, and were not copied;"
            " `discovery secrets set` asks for them"
        )


def _about(candidate: ImportCandidate) -> str:
    entry = serialize_server_redacted(candidate.server)
    reached = [entry["command"], *entry.get("args", ())] if "command" in entry else [entry["url"]]
    off = "" if candidate.server.enabled else " (disabled)"
    origin = candidate.original.origin.file if candidate.original else ""
    whose = f"{origin}, in place of that entry" if origin else candidate.server.source
    return f"{' '.join(reached)}{off}, from {whose}"
