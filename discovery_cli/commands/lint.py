"""`discovery tune lint`: entries without effect, suspicious texts, tools that are hard to find."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.finding_output import entry_form, finding_form, show_diagnostic
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Output
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import named, quoted
from discovery_engine._util.version import __version__
from discovery_engine.engine.doctor.entry_lint import lint_entries
from discovery_engine.errors.codes import CODES
from discovery_engine.tools.model import canonical_json, fingerprint

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.errors import Diagnostic
    from discovery_engine.evaluation.catalog_lint import CatalogFinding, CatalogLint, Suspicion
    from discovery_engine.view.view import View

T = TypeVar("T")

_MAX_SHOWN_FINDINGS = 5  # findings of one kind; many tools of one server often lack the same
_IN_FULL = {"danger"}  # kinds of which all findings are shown


@click.command("lint")
@click.option(
    "--strict", is_flag=True, help="Also exit with 2 for findings about servers and tools."
)
@click.option("--thorough", is_flag=True, help="Search for every tool, and show every finding.")
@click.option(
    "--sarif",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write rules without effect and suspicious texts in SARIF, for code scanning.",
)
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if something was found.")
@pass_invocation
def command(
    invocation: Invocation, *, strict: bool, thorough: bool, sarif: Path | None, exit_zero: bool
) -> ExitCode:
    """Find rules without effect, suspicious texts and tools that search misses.

    Rules and overrides are checked against every known tool. Exits with 2 if one has no effect.

    Texts of servers are scanned for hidden characters, instructions to a model and similar. A
    `danger` occurs in no honest tool, review a `warning`, and a `notice` is probably harmless.

    Tools that are easily confused, not found or poorly described are reported with a draft of an
    entry for `overrides`; `discovery tune eval` measures its effect.

    \b
      discovery tune lint
      discovery tune lint --strict --thorough
      discovery tune lint --sarif lint.sarif
    """
    from discovery_engine.evaluation.catalog_lint import SEARCHES, lint_catalog, lint_texts

    output, view = invocation.output, invocation.view()
    findings, suspicions = lint_entries(view), lint_texts(view)
    about = lint_catalog(view, searches=len(view.catalog) if thorough else SEARCHES)
    if sarif:
        sarif.write_text(json.dumps(_sarif(view, [*findings, *suspicions]), indent=2), "utf-8")
    if output.as_json:
        output.answer(_form(findings, suspicions, about))
    else:
        most = None if thorough else _MAX_SHOWN_FINDINGS
        for finding in findings:
            show_diagnostic(output, finding)
        for suspicion in _of_each(suspicions, lambda hit: hit.finding.severity, most, output):
            _show_suspicion(output, suspicion)
        for advice in _of_each(about.findings, lambda finding: finding.code, most, output):
            _show_catalog_finding(output, advice)
        _say_sum(output, view, findings, suspicions, about)
    counts = findings or (strict and (about.findings or _alarms(suspicions)))
    return ExitCode.USAGE if counts and not exit_zero else ExitCode.OK


def _form(
    diagnostics: Sequence[Diagnostic], suspicions: Sequence[Suspicion], about: CatalogLint
) -> JSONObject:
    return {
        "findings": list(map(entry_form, diagnostics)),
        "suspicions": [suspicion.to_json() for suspicion in suspicions],
        "catalog": list(map(finding_form, about.findings)),
        "searched": about.searched,
    }


_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def _sarif(view: View, diagnostics: Sequence[Diagnostic]) -> JSONObject:
    """Return a SARIF 2.1.0 log, in which a finding about a server is located at its entry.

    Paths below the working folder are relative, as code scanning of a repository requires.
    """
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    driver = {
        "name": "discovery",
        "semanticVersion": __version__,
        "rules": list(map(_sarif_rule, codes)),
    }
    results = [_sarif_result(view, diagnostic) for diagnostic in diagnostics]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _sarif_rule(code: str) -> JSONObject:
    """Return the description of a code, with each text that code scanning requires."""
    meaning = f"{CODES[code][1].capitalize()}."
    return {
        "id": code,
        "shortDescription": {"text": meaning},
        "fullDescription": {"text": meaning},
        "help": {"text": f"The message has the next step; `discovery why {code}` says more."},
    }


def _sarif_result(view: View, diagnostic: Diagnostic) -> JSONObject:
    from discovery_engine.evaluation.catalog_lint import Suspicion

    origins = {server.name: server.origin for server in view.settings.servers}
    origin, text = diagnostic.origin, diagnostic.sentence
    identity = [diagnostic.code, diagnostic.subject]
    if isinstance(diagnostic, Suspicion):
        origin = origins.get(diagnostic.server, origin)
        text += f" ({named(diagnostic.finding.where)}: {quoted(diagnostic.finding.excerpt)})"
        identity += [diagnostic.finding.where, diagnostic.finding.excerpt]
    path = Path(origin.file or view.settings.path or "discovery.yaml").absolute()
    folder = Path.cwd()
    uri = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_uri()
    place = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(origin.line, 1)}}
    return {
        "ruleId": diagnostic.code,
        "level": _LEVELS[diagnostic.severity],
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        # Code scanning recognizes a finding by it when lines move.
        "partialFingerprints": {"finding/v1": fingerprint(canonical_json(identity))},
    }


def _alarms(suspicions: Sequence[Suspicion]) -> list[Suspicion]:
    return [suspicion for suspicion in suspicions if suspicion.finding.is_alarm]


def _of_each(
    findings: Sequence[T], kind_of: Callable[[T], str], most: int | None, output: Output
) -> Iterator[T]:
    """Yield the first `most` of each kind (None: all), then a line that counts the others."""
    counts: Counter[str] = Counter()
    for finding in findings:
        kind = kind_of(finding)
        counts[kind] += 1
        if most is None or counts[kind] <= most or kind in _IN_FULL:
            yield finding
    left = {k: count - most for k, count in counts.items() if most and k not in _IN_FULL}
    if kinds := ", ".join(f"{count} {kind}" for kind, count in left.items() if count > 0):
        output.say(f"not shown: {kinds}; --thorough shows them")


def _show_suspicion(output: Output, suspicion: Suspicion) -> None:
    finding = suspicion.finding
    output.line(f"{finding.severity}: {suspicion.label}: {finding.message} [{suspicion.code}]")
    output.line(f"  {named(finding.where)}: {quoted(finding.excerpt)}")
    output.line(f"  hint: {suspicion.hint}")


def _show_catalog_finding(output: Output, finding: CatalogFinding) -> None:
    show_diagnostic(output, finding)
    if finding.overrides:
        output.line("  overrides:")
    for override in finding.overrides:
        for line in _yaml(override):
            output.line(f"    {line}")


def _yaml(override: JSONObject) -> Iterator[str]:
    """Yield an entry as YAML with JSON values; importing a YAML library would take longer."""
    for index, (name, value) in enumerate(override.items()):
        lead = "  " if index else "- "
        yield f"{lead}{name}: {json.dumps(value, ensure_ascii=False)}"


def _say_sum(
    output: Output,
    view: View,
    diagnostics: Sequence[Diagnostic],
    suspicions: Sequence[Suspicion],
    about: CatalogLint,
) -> None:
    settings, tools = view.settings, len(view.catalog)
    of_views = ((v.rules, v.resource_rules, v.prompt_rules) for v in settings.views)
    own = settings.tool_rules, settings.resource_rules, settings.prompt_rules
    rules = chain(own, *of_views)
    entries = counted(sum(map(len, rules)), "rule")
    if overrides := len(view.settings.overrides):
        entries += f" and {counted(overrides, 'override')}"
    output.say(f"{counted(len(diagnostics), 'finding')} in {entries} over {counted(tools, 'tool')}")
    output.say(f"{counted(len(_alarms(suspicions)), 'suspicious text')} of servers")
    some = about.searched < about.searchable
    sample = f", {about.searched} of {about.searchable} searched for" if some else ""
    output.say(f"{counted(len(about.findings), 'finding')} about the catalog itself{sample}")
