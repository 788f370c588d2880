"""Results of tools for people: text unchanged, other content by type and size.

In JSON the result is whole, as the upstream gave it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from discovery_cli.exit_codes import ExitCode
from discovery_cli.output import Output
from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import block, clean
from discovery_engine.agent.content import texts_of

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.runtime.call_preview import CallPreview


def show_result(output: Output, entry: Entry, result: JSONObject) -> ExitCode:
    if output.as_json:
        output.answer(_form(entry, result))
    else:
        for text in texts_of(result):
            output.text(text)
    return ExitCode.OK


def show_failure(output: Output, entry: Entry, result: JSONObject) -> ExitCode:
    """A tool that ran and failed: its text goes to stderr; in JSON it is an ordinary result."""
    if output.as_json:
        output.answer(_form(entry, result))
        return ExitCode.TOOL_FAILED
    output.say(f"error: {entry.key.label} failed")
    for line in block(clean("\n".join(texts_of(result))).strip()):
        output.say(line)
    return ExitCode.TOOL_FAILED


def show_preview(output: Output, preview: CallPreview) -> ExitCode:
    """Print what a call would send, and where."""
    entry = preview.entry
    sent = {**preview.arguments, **preview.pinned}
    form: JSONObject = {
        "server": entry.tool.server,
        "tool": entry.tool.name,
        "sent": False,
        "to": preview.target,
        "as": entry.tool.upstream_name,
        "arguments": sent,
        "pinned": list(preview.pinned),
        "unchecked": preview.unchecked,
        "annotations": entry.tool.annotations,
        "enabled": entry.verdict.enabled,
        "tags": list(entry.verdict.tags),
    }
    if output.as_json:
        output.answer(form)
        return ExitCode.OK
    fits = f"not checked: {preview.unchecked}" if preview.unchecked else "fit its schema"
    lines = [
        f"{entry.key.label}: nothing was sent",
        f"  to           {preview.target}",
        f"  as           {entry.tool.upstream_name}",
        f"  arguments    {json.dumps(sent, ensure_ascii=False)} ({fits})",
        f"  pinned       {', '.join(preview.pinned) or 'none'}",
        f"  annotations  {json.dumps(entry.tool.annotations, ensure_ascii=False)}",
        f"  tags         {', '.join(entry.verdict.tags) or 'none'}",
    ]
    for line in lines:
        output.text(clean(line, newlines=False))
    return ExitCode.OK


def _form(entry: Entry, result: JSONObject) -> JSONObject:
    return {
        "server": entry.tool.server,
        "tool": entry.tool.name,
        "success": not result.get("isError"),
        "result": result,
    }
