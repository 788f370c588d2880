"""`discovery lint`: rules that do nothing or contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from discovery_cli.failures import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Output, counted

if TYPE_CHECKING:
    from discovery_engine.rules.lint import Finding
    from discovery_engine.tools import JSONObject
    from discovery_engine.view import View


@click.command("lint")
@click.option("--exit-zero", is_flag=True, help="Leave with 0 even if something was found.")
@pass_invocation
def command(invocation: Invocation, *, exit_zero: bool) -> ExitCode:
    """Find rules that do nothing or contradict each other.

    The rules are tried on every known tool. With findings the exit code is 2.
    """
    output = invocation.output
    view = invocation.view()
    found = findings_of(view)
    if output.as_json:
        output.answer({"findings": [finding_form(finding) for finding in found]})
    else:
        for finding in found:
            show_finding(output, finding)
        rules, tools = counted(len(view.settings.tool_rules), "rule"), len(view.catalog)
        output.say(f"{counted(len(found), 'finding')} in {rules} over {counted(tools, 'tool')}")
    return ExitCode.USAGE if found and not exit_zero else ExitCode.OK


def findings_of(view: View) -> tuple[Finding, ...]:
    from discovery_engine.rules.lint import findings

    return findings(view.settings.tool_rules, [entry.tool for entry in view.catalog])


def show_finding(output: Output, finding: Finding) -> None:
    output.line(f"{finding.kind}: {finding.message}")
    output.line(f"  hint: {finding.hint}")


def finding_form(finding: Finding) -> JSONObject:
    return {
        "kind": finding.kind,
        "rule": finding.rule,
        "origin": str(finding.origin),
        "message": finding.message,
        "hint": finding.hint,
    }
