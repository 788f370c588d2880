"""How often the scanner cries wolf on real catalogs, and what reading a tool costs.

    python benchmarks/scanner.py CATALOG.jsonl... [--show 20]

Each line of a catalog is a tool: `server`, `name`, `description`, `inputSchema` (or
`input_schema`). Nobody has labelled them: a finding is an alarm to be looked at.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from discovery_engine.tools.model import ServerName, Tool, ToolKey
from discovery_engine.trust.scanner import Finding, Severity, scan_catalog


def read_catalog(path: Path) -> Iterator[Tool]:
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        schema = row.pop("input_schema", None) or row.get("inputSchema") or {"type": "object"}
        server = ServerName(row.pop("server", "unknown"))
        yield Tool.from_mcp(server, {**row, "inputSchema": schema})


def alarms_of(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is not Severity.NOTICE]


def report(path: Path, *, show: int) -> None:
    tools = list(read_catalog(path))
    began = time.process_time()
    found = scan_catalog(tools)
    spent = time.process_time() - began
    alarms = {key: alarms for key, all_ in found.items() if (alarms := alarms_of(all_))}
    kinds = Counter(
        finding.kind.value for finding_list in alarms.values() for finding in finding_list
    )
    rate = len(alarms) / len(tools)
    print(
        f"{path.parent.name or path.name}: {len(tools)} tools, {len(alarms)} with an alarm "
        f"({rate:.2%}), {spent / len(tools) * 1e6:.0f} us a tool; {dict(kinds)}"
    )
    for key, findings in list(alarms.items())[:show]:
        show_tool(key, findings)


def show_tool(key: ToolKey | ServerName, findings: Sequence[Finding]) -> None:
    for finding in findings:
        print(f"  {key} {finding.severity} {finding.kind} {finding.where}: {finding.message}")
        print(f"      {finding.excerpt}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("catalogs", nargs="+", type=Path)
    parser.add_argument("--show", type=int, default=0, help="tools with alarms to print")
    options = parser.parse_args()
    for path in options.catalogs:
        report(path, show=options.show)


if __name__ == "__main__":
    main()
