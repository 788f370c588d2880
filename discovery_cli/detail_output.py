"""Servers and tools with all details, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_cli.output import Cell, Output
from discovery_cli.rendering import server_row, tool_row
from discovery_cli.scan_findings import suspicion_lines
from discovery_engine._util.quantities import ago, date_of
from discovery_engine._util.text import block, named, one_line, quoted, visible
from discovery_engine.catalog import REMOVED_FOR
from discovery_engine.json_forms.example_call import command_line
from discovery_engine.json_forms.tool_form import examples_of
from discovery_engine.tools.signature import type_text
from discovery_engine.tools.validation.cost import too_costly_tool

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_engine.catalog import Entry
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import ServerReport
    from discovery_engine.view.view import View

_INDENT = 2


class DetailPrinter(Struct, frozen=True):
    """Writes to `output`; `now` is Unix time in seconds."""

    output: Output
    now: float
    compact: bool = False
    args: bool = False
    examples: bool = False

    def servers(self, view: View, entries: Mapping[ServerName, Sequence[Entry]]) -> None:
        """All servers, each with the given tools."""
        if not any(entries.values()):
            rows = [server_row(self.output, s, with_status=True) for s in view.servers()]
            self.output.table(rows)
            return
        for summary in view.servers():
            self.output.table([server_row(self.output, summary, with_status=True)])
            self._tools(entries[summary.name], view)

    def server(self, summary: ServerReport, view: View, entries: Sequence[Entry]) -> None:
        self.output.table([server_row(self.output, summary, with_status=True)])
        if not self.compact:
            self.output.table(_facts(summary, view, self.now), indent=_INDENT)
        self._tools(entries, view)

    def tool(self, entry: Entry, view: View) -> None:
        if self.compact:
            self._tools([entry], view)
            return
        verdict = entry.verdict
        state = "enabled" if verdict.enabled else f"disabled: {view.reason(entry)}"
        mark = self.output.mark(good=verdict.enabled)
        self.output.table([[mark, Cell(entry.key.label, "strong"), state]])
        for line in block(entry.tool.description) if entry.tool.description.strip() else ():
            self.output.line(line)
        for line in suspicion_lines(view.findings(entry)):
            self.output.line(f"  {line}", "bad")
        self.output.table(_tool_facts(entry, view), indent=_INDENT)
        self._arguments(entry, _INDENT)
        self.output.line(f"  example: {command_line(entry)}")
        if examples := examples_of(entry, view):
            self.output.line(f"  typical requests ({examples}):")
            for text in examples.texts:
                self.output.line(f"    {one_line(text)}", "faint")

    def _tools(self, entries: Sequence[Entry], view: View) -> None:
        if not (self.args or self.examples):
            rows = [tool_row(self.output, entry, view) for entry in entries]
            self.output.table([row[:2] for row in rows] if self.compact else rows, indent=_INDENT)
            return
        for entry in entries:
            row = tool_row(self.output, entry, view)
            self.output.table([row[:2] if self.compact else row], indent=_INDENT)
            if self.args:
                self._arguments(entry, 3 * _INDENT)
            if self.examples:
                self.output.line(" " * 3 * _INDENT + command_line(entry))

    def _arguments(self, entry: Entry, indent: int) -> None:
        rows: list[list[Cell | str]] = [
            [
                Cell(named(parameter.name), "strong"),
                type_text(parameter.schema, entry.tool.input_schema),
                "required" if parameter.required else "optional",
                Cell(parameter.description, "faint"),
            ]
            for parameter in entry.tool.parameters
        ]
        none = "arguments not described" if entry.tool.takes_unnamed else "no arguments"
        self.output.table(rows or [[none]], indent=indent)


def _facts(summary: ServerReport, view: View, now: float) -> list[list[Cell | str]]:
    settings = view.server_settings(summary.name)
    part = view.catalog.parts.get(summary.name)
    facts = {
        "about": summary.description if summary.reason else "",
        "from": " ".join(filter(None, (settings.source, str(settings.origin)))),
        "tags": ", ".join(map(named, summary.tags)),
        "sandbox": visible(summary.sandbox),
        "listed": f"{ago(now - summary.listed_at)} ago" if summary.listed_at else "never",
        "unusable": "; ".join(f"{named(d.name)} ({d.reason})" for d in part.dropped)
        if part
        else "",
        "removed": "; ".join(
            f"{named(tool.name)} (on {date_of(tool.at)})"
            for tool in (part.removed if part else ())
            if now - tool.at < REMOVED_FOR
        ),
    }
    return [[Cell(name, "faint"), text] for name, text in facts.items() if text]


def _tool_facts(entry: Entry, view: View) -> list[list[Cell | str]]:
    annotations = entry.tool.annotations
    claims = [f"{named(k)}: {_claim(v)}" for k, v in annotations.items() if k != "title"]
    costly = too_costly_tool(entry.tool)
    facts = {
        "tags": ", ".join(map(named, entry.verdict.tags)),
        "claims": ", ".join(claims),
        "overridden": "; ".join(_overrides(entry, view)),
        "schema": f"too costly to check: {costly}" if costly else "",
    }
    return [[Cell(name, "faint"), text] for name, text in facts.items() if text]


def _claim(value: JSONValue) -> str:
    return str(value).lower() if isinstance(value, bool) else quoted(str(value))


def _overrides(entry: Entry, view: View) -> Iterator[str]:
    """The overrides of a tool and their positions; the tool itself shows their effect."""
    for index in entry.tool.overridden.by:
        override = view.settings.overrides[index]
        yield f"{override.gives()} ({override.origin})"
    yield from entry.tool.overridden.problems
