"""The answer to a search whose hits are put into the client's own list of tools."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.render.result import ANSWER, text_content
from discovery_engine.tools.model import ToolKey


class PoolReport(Struct, frozen=True):
    """The changes that a search made to its client's list of tools."""

    names: Mapping[ToolKey, str]
    """The names of the tools that were found and are now listed."""
    registered: tuple[str, ...]
    evicted: tuple[str, ...]
    left_out: int
    """How many found tools the list has no room for."""
    size: int
    """The tools that are listed now, beside the search."""
    limit: int


def with_report(result: JSONObject, report: PoolReport) -> JSONObject:
    """The rendered answer with a last line about the list of tools."""
    [content] = result["content"]
    text = f"{content['text']}\n{_line(report)}"
    fields = {
        **result["_meta"][ANSWER],
        "registered": list(report.registered),
        "evicted": list(report.evicted),
        "leftOut": report.left_out,
        "poolSize": report.size,
        "poolLimit": report.limit,
    }
    return {**result, "content": [text_content(text)], "_meta": {**result["_meta"], ANSWER: fields}}


def _line(report: PoolReport) -> str:
    size = f"{report.size} of at most {report.limit}"
    if not report.names:
        return f"Your list of tools is unchanged: {size}."
    removed = f"; removed: {', '.join(report.evicted)}" if report.evicted else ""
    missing = f"; no room for {report.left_out}" if report.left_out else ""
    return (
        f"Your list of tools now has these ({len(report.registered)} new{removed}; {size}{missing})"
        ": call them by these names."
    )
