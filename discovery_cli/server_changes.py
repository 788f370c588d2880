"""Writes planned changes of the configured servers, and their results, to the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_cli.output import Cell, Output, Style

if TYPE_CHECKING:
    from discovery_engine.engine.owner.server_plans import ServerPlan
    from discovery_engine.engine.owner.setup_sync import SyncPlan, SyncProblem
    from discovery_engine.view.status import ServerReport

_OBSTACLES = ("disabled", "untrusted", "needs_config")
_STYLES: dict[str, Style] = {"+": "good", "-": "bad", "@": "faint"}


def show_diff(output: Output, diff: str) -> None:
    """Write a diff; control characters in names and values are escaped."""
    for line in diff.splitlines():
        output.line(line, _STYLES.get(line[:1], "plain"))


def show_copy(output: Output, plan: ServerPlan) -> None:
    """Write how a server of another client's file is copied to the owner's configuration.

    No-op if the plan is no such copy.
    """
    if plan.original is None:
        return
    client, file = plan.original.origin.client or plan.original.source, plan.original.origin.file
    output.say(f"{plan.name} is copied from {file} into {place_of(plan)}, which has precedence:")
    show_diff(output, plan.diff)
    say_secrets(output, plan)
    if plan.changes:
        output.say(f"changed from what {client} has:")
    show_diff(output, plan.changes)


def say_secrets(output: Output, plan: ServerPlan) -> None:
    """Write the names of the values that are stored encrypted instead of in the entry."""
    for name in plan.secrets:
        output.say(f"secret: {name} is kept encrypted, and the entry refers to it")


def say_warnings(output: Output, plan: ServerPlan) -> None:
    """Write the warnings of a change."""
    for warning in plan.warnings:
        output.say(f"note: {warning}")


def place_of(plan: ServerPlan) -> str:
    """Return the place of a change: the path of the edited file, or `the registry`."""
    return str(plan.edit.path) if plan.edit else "the registry"


def say_kept_secrets(output: Output, names: list[str]) -> None:
    """Write which stored secrets of a removed server remain, and how to remove them."""
    if names:
        words = " ".join(names)
        output.say(f"its secrets are kept; `discovery secrets remove {words}` removes them")


def say_obstacle(output: Output, report: ServerReport) -> None:
    """Write why a server that was switched on cannot be used yet, with a hint; else no-op."""
    if report.state in _OBSTACLES:
        hint = f" ({report.hint})" if report.hint else ""
        output.say(f"note: it is {report.state} still: {report.detail or report.reason}{hint}")


def show_sync(output: Output, plan: SyncPlan) -> None:
    rows: list[list[Cell | str]] = [
        [output.mark(good=True), Cell(entry.name, "strong"), _what_it_runs(entry)]
        for entry in plan.plans
    ]
    rows += [_problem_row(output, problem, good=True) for problem in plan.report.skipped]
    rows += [_problem_row(output, problem, good=False) for problem in plan.report.errors]
    output.table(rows)
    for name in (name for entry in plan.plans for name in entry.secrets):
        output.say(f"secret: {name} is kept encrypted, and the entry refers to it")


def _problem_row(output: Output, problem: SyncProblem, *, good: bool) -> list[Cell | str]:
    return [output.mark(good=good), Cell(problem.name, "strong"), problem.reason]


def _what_it_runs(plan: ServerPlan) -> str:
    """Return the command with its arguments, or the URL, of a server, without secrets."""
    from discovery_engine.config.serialization import serialize_server_redacted
    from discovery_engine.engine.owner.candidates import shell_word

    entry = serialize_server_redacted(plan.server) if plan.server else {}
    words = [entry["command"], *entry.get("args", ())] if "command" in entry else [entry["url"]]
    return f"{' '.join(map(shell_word, words))}{' (off)' if plan.switches else ''}"
