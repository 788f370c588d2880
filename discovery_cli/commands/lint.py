"""`discovery lint`: rules that do nothing or contradict each other, and tools hard to find."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from discovery_cli.failures import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Output, counted, one_line

if TYPE_CHECKING:
    from discovery_engine.evaluation.catalog_lint import CatalogFinding, CatalogLint
    from discovery_engine.rules.lint import Finding
    from discovery_engine.tools import JSONObject
    from discovery_engine.view import View

_SHOWN = 5  # findings of one kind; many tools of one server often lack the same


@click.command("lint")
@click.option("--strict", is_flag=True, help="Leave with 2 for the catalog's findings, too.")
@click.option("--thorough", is_flag=True, help="Search for every tool, and show every finding.")
@click.option("--exit-zero", is_flag=True, help="Leave with 0 even if something was found.")
@pass_invocation
def command(invocation: Invocation, *, strict: bool, thorough: bool, exit_zero: bool) -> ExitCode:
    """Find rules without effect, and tools that are hard to find.

    The rules are tried on every known tool. With findings about them the exit code is 2.

    The catalog is looked at for tools that cannot be told apart, found or understood. What mends
    a finding is drafted as an entry for `overrides:`; `discovery eval` shows what it did.
    """
    output = invocation.output
    view = invocation.view()
    found, about = findings_of(view), _of_catalog(view, thorough=thorough)
    if output.as_json:
        rules = [finding_form(finding) for finding in found]
        tools = [finding.to_json() for finding in about.findings]
        output.answer({"findings": rules, "catalog": tools, "searched": about.searched})
    else:
        for finding in found:
            show_finding(output, finding)
        _show_catalog(output, about, most=None if thorough else _SHOWN)
        _say_sum(output, view, found, about)
    counts = found or (strict and about.findings)
    return ExitCode.USAGE if counts and not exit_zero else ExitCode.OK


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


def _of_catalog(view: View, *, thorough: bool) -> CatalogLint:
    from discovery_engine.evaluation.catalog_lint import SEARCHES, lint_catalog

    return lint_catalog(view, searches=len(view.catalog) if thorough else SEARCHES)


def _show_catalog(output: Output, about: CatalogLint, *, most: int | None) -> None:
    seen: Counter[str] = Counter()
    for finding in about.findings:
        seen[finding.kind] += 1
        if most is None or seen[finding.kind] <= most:
            _show_catalog_finding(output, finding)
    left = {kind: count - most for kind, count in seen.items() if most and count > most}
    if left:
        kinds = ", ".join(f"{count} {kind}" for kind, count in left.items())
        output.say(f"not shown: {kinds}; --thorough shows them")


def _show_catalog_finding(output: Output, finding: CatalogFinding) -> None:
    output.line(f"{finding.kind}: {one_line(finding.message)}")
    output.line(f"  hint: {finding.hint}")
    if finding.overrides:
        output.line("  overrides:")
    for override in finding.overrides:
        for line in _yaml(override):
            output.line(f"    {line}")


def _yaml(override: JSONObject) -> Iterator[str]:
    """An entry as YAML, in which JSON values may stand; no YAML library is loaded for it."""
    for index, (name, value) in enumerate(override.items()):
        lead = "  " if index else "- "
        yield f"{lead}{name}: {json.dumps(value, ensure_ascii=False)}"


def _say_sum(output: Output, view: View, found: Sequence[Finding], about: CatalogLint) -> None:
    rules, tools = counted(len(view.settings.tool_rules), "rule"), len(view.catalog)
    output.say(f"{counted(len(found), 'finding')} in {rules} over {counted(tools, 'tool')}")
    some = about.searched < about.searchable
    sample = f", {about.searched} of {about.searchable} searched for" if some else ""
    output.say(f"{counted(len(about.findings), 'finding')} about the tools themselves{sample}")
