"""Formats findings of rules, scans and reviews, for all commands that show them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import takewhile
from operator import eq
from typing import TYPE_CHECKING

from discovery_engine._util.quantities import counted
from discovery_engine._util.text import named, one_line, quoted, visible

if TYPE_CHECKING:
    from discovery_cli.output import Output
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.errors import Diagnostic
    from discovery_engine.tools.findings import Finding
    from discovery_engine.trust.definition_diff import Change
    from discovery_engine.trust.lockfile import Deviation
    from discovery_engine.trust.review import Review

# The value of `kind` in JSON output, older than the codes; scripts may still read it.
_KINDS = {
    "RULE_UNMATCHED": "matches nothing",
    "RULE_SHADOWED": "shadowed",
    "RULE_CONTRADICTED": "contradicts",
    "OVERRIDE_UNMATCHED": "matches nothing",
    "TOOL_CONFUSABLE": "confusable",
    "TOOL_NAME_CROWDED": "crowded name",
    "TOOL_UNDESCRIBED": "no description",
    "OFFERING_UNDESCRIBED": "no description",
    "PROMPT_ARGUMENTS_UNDESCRIBED": "undocumented",
    "TOOL_UNFINDABLE": "not found",
    "TOOL_ARGUMENTS_UNDESCRIBED": "undocumented",
    "TOOL_SCHEMA_LARGE": "oversized",
    "TOOL_SCHEMA_COSTLY": "costly schema",
}


def show_diagnostic(output: Output, diagnostic: Diagnostic) -> None:
    """Write the severity, message and code of a diagnostic, and its hint on a second line."""
    output.line(one_line(f"{diagnostic.severity}: {diagnostic.message} [{diagnostic.code}]"))
    output.line(f"  hint: {one_line(output.hint(diagnostic.hint))}")


def finding_form(diagnostic: Diagnostic) -> JSONObject:
    return diagnostic.to_json() | {"kind": _KINDS[diagnostic.code]}


def entry_form(diagnostic: Diagnostic) -> JSONObject:
    """Return the JSON form of a finding about a rule or an override, with its index."""
    section, _, index = diagnostic.subject.partition(".")
    return finding_form(diagnostic) | {
        "rule": int(index) if section == "toolRules" else None,
        "override": int(index) if section == "overrides" else None,
        "origin": str(diagnostic.origin),
    }


def suspicion_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield one line for each finding, safe for a terminal."""
    for finding in findings:
        place, words = named(finding.where), quoted(finding.excerpt)
        yield f"{finding.severity}  {place}: {finding.message}: {words}"


def review_lines(review: Review) -> Iterator[str]:
    """Yield the lines of a tool, or of a server's instructions, that is under review.

    After the findings come the changes, or the full definition if it is new.
    """
    is_new = review.before is None
    yield f"  {_name(review)}: {'new' if is_new else review.weight or 'changed'}"
    yield from (f"    {line}" for line in suspicion_lines(review.findings))
    yield from _value_lines("+", review.after) if is_new else change_lines(review.changes)


def deviation_lines(deviation: Deviation) -> Iterator[str]:
    """Yield the lines of one difference between a server or tool and the lock file."""
    yield f"{deviation.message}  {visible(deviation.subject)} [{deviation.code}]"
    yield from change_lines(deviation.changes)


def change_lines(changes: Iterable[Change]) -> Iterator[str]:
    for change in changes:
        yield f"    {change.weight:<10}  {visible(change.path)}"
        before, after = change.before, change.after
        if isinstance(before, str) and isinstance(after, str) and "\n" in before:
            yield from _text_lines(before.split("\n"), after.split("\n"))
        else:
            yield from _value_lines("-", before)
            yield from _value_lines("+", after)


def _text_lines(before: list[str], after: list[str]) -> Iterator[str]:
    """Yield the lines from the first difference to the last, with one line around them."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    rest = before[len(before) - tail :]
    if head > 1:
        yield f"      … ({counted(head - 1, 'line')} as before)"
    for sign, lines in (("|", before[:head][-1:]), ("-", old), ("+", new), ("|", rest[:1])):
        yield from (f"      {sign} {visible(line)}".rstrip() for line in lines)
    if tail > 1:
        yield f"      … ({counted(tail - 1, 'line')} as before)"


def _common(left: list[str], right: list[str]) -> int:
    """Return with how many equal lines both begin."""
    return sum(1 for _ in takewhile(bool, map(eq, left, right)))


def _name(review: Review) -> str:
    return visible(review.tool) if review.tool else "the server's instructions"


def _value_lines(sign: str, value: JSONValue) -> Iterator[str]:
    if value is None:
        return
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    yield from (f"      {sign} {line}".rstrip() for line in visible(text).splitlines() or [""])
