"""Results of tools for people: text unchanged, other content by type and size.

In JSON the result is whole, as the upstream gave it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from discovery_cli.exit_codes import ExitCode
from discovery_cli.output import Output
from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import block, clean

if TYPE_CHECKING:
    from discovery_engine.catalog import Entry
    from discovery_engine.runtime.call_preview import CallPreview

_KB = 1000
_BASE64 = 3 / 4  # bytes per character


def show_result(output: Output, entry: Entry, result: JSONObject) -> ExitCode:
    if output.as_json:
        output.answer(_form(entry, result))
    else:
        for text in _texts(result):
            output.text(text)
    return ExitCode.OK


def show_failure(output: Output, entry: Entry, result: JSONObject) -> ExitCode:
    """A tool that ran and failed: its text goes to stderr; in JSON it is an ordinary result."""
    if output.as_json:
        output.answer(_form(entry, result))
        return ExitCode.TOOL_FAILED
    output.say(f"error: {entry.key.label} failed")
    for line in block(clean("\n".join(_texts(result))).strip()):
        output.say(line)
    return ExitCode.TOOL_FAILED


def show_preview(output: Output, preview: CallPreview) -> ExitCode:
    """What a call would send, and where."""
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


def _texts(result: JSONObject) -> Iterator[str]:
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    yield from map(content_text, blocks)
    structured = result.get("structuredContent")
    if structured is not None and not blocks:
        yield json.dumps(structured, indent=2, ensure_ascii=False)


def content_text(block: JSONValue) -> str:
    """A content block as text; other content by its type and size."""
    facts = block if isinstance(block, dict) else {}
    kind = facts.get("type")
    if kind == "text":
        return str(facts.get("text", ""))
    if kind in ("image", "audio"):
        return f"[{kind} {facts.get('mimeType', '')}, {_size(facts.get('data'))}]"
    if kind == "resource":
        return _resource(facts.get("resource"))
    if kind == "resource_link":
        return f"{facts.get('name', '')} <{facts.get('uri', '')}>"
    return json.dumps(block, ensure_ascii=False)


def _resource(resource: JSONValue) -> str:
    facts = resource if isinstance(resource, dict) else {}
    if isinstance(facts.get("text"), str):
        return str(facts["text"])
    return f"[resource {facts.get('uri', '')}, {_size(facts.get('blob'))}]"


def _size(data: JSONValue) -> str:
    count = len(data) * _BASE64 if isinstance(data, str) else 0
    return f"{count / _KB:.1f} kB" if count >= _KB else f"{count:.0f} bytes"
