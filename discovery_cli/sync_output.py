"""Shows what a setup file would register, before it is agreed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_cli.output import Cell, Output

if TYPE_CHECKING:
    from discovery_engine.owner.server_plans import ServerPlan
    from discovery_engine.owner.setup_sync import SyncPlan, SyncProblem


def show_sync(output: Output, plan: SyncPlan) -> None:
    rows: list[list[Cell | str]] = [
        [output.mark(good=True), Cell(entry.name, "strong"), _about(entry)] for entry in plan.plans
    ]
    rows += [_problem_row(output, problem, good=True) for problem in plan.report.skipped]
    rows += [_problem_row(output, problem, good=False) for problem in plan.report.errors]
    output.table(rows)
    for name in (name for entry in plan.plans for name in entry.secrets):
        output.say(f"secret: {name} is kept encrypted, and the entry refers to it")


def _problem_row(output: Output, one: SyncProblem, *, good: bool) -> list[Cell | str]:
    return [output.mark(good=good), Cell(one.name, "strong"), one.reason]


def _about(one: ServerPlan) -> str:
    """Say what the server runs or reaches, with every word that decides that."""
    from discovery_engine.config.serialization import serialize_server_redacted
    from discovery_engine.owner.candidates import shell_word

    entry = serialize_server_redacted(one.server) if one.server else {}
    words = [entry["command"], *entry.get("args", ())] if "command" in entry else [entry["url"]]
    return f"{' '.join(map(shell_word, words))}{' (off)' if one.switches else ''}"
