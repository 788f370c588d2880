"""Errors, and the results of calls that need a remark, as results that a model reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import clean, one_line
from discovery_engine.agent.budget import Budget, first_fitting
from discovery_engine.agent.render.notice_text import LISTER, notice_lines
from discovery_engine.agent.render.result import ANSWER, notices_budget, text_content
from discovery_engine.agent.tool_text import cut, tag_text
from discovery_engine.engine.call_preview import CallPreview
from discovery_engine.errors import DiscoveryError, NotFoundError, RateLimitedError
from discovery_engine.view.notices import Notice

ERROR = "discovery/error"
"""The member of `_meta` with an error's fields."""

_PINNED = "(set by the owner)"
_ERROR_TOKENS = 1000
_ERROR_CUTS = (1500, 700, 300)  # characters of a message, and of a hint
_REASON = 120  # characters


def unchecked_result(result: JSONObject, reason: str) -> JSONObject:
    """A tool's own result with a note that its arguments were sent unchecked."""
    text = f"Note: the arguments were not checked: {cut(clean(reason), _REASON)}"
    return {
        **result,
        "content": [*result["content"], text_content(text)],
        "_meta": {**result.get("_meta", {}), ANSWER: {"unchecked": reason}},
    }


def result_text(result: JSONObject) -> str:
    """The texts of a result, one below the other."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def preview_result(preview: CallPreview) -> JSONObject:
    """Show what a call would send; of the values that the owner adds, only the names."""
    tool = preview.entry.tool
    pinned = dict.fromkeys(preview.pinned, _PINNED)
    # The owner's own values win, as in a call.
    arguments = json.dumps({**preview.arguments, **pinned}, ensure_ascii=False)
    hints = {name: value for name, value in tool.annotations.items() if name.endswith("Hint")}
    lines = [
        f"Dry run: {tool.key.label} is enabled and its arguments fit; nothing was sent.",
        f"To: {preview.place}",
        f"Arguments: {arguments}",
        f"Annotations: {json.dumps(hints)}" if hints else "",
        f"Tags: {tag_text(preview.entry.verdict.tags)}" if preview.entry.verdict.tags else "",
        f"Note: the arguments were not checked: {preview.unchecked}" if preview.unchecked else "",
    ]
    fields: JSONObject = {
        "dryRun": True,
        "server": tool.server,
        "tool": tool.name,
        "to": preview.place,
        "arguments": preview.arguments,
        "pinned": list(preview.pinned),
        "annotations": tool.annotations,
        "tags": list(preview.entry.verdict.tags),
        **({"unchecked": preview.unchecked} if preview.unchecked else {}),
    }
    text = "\n".join(one_line(line) for line in lines if line)
    return {"content": [text_content(text)], "isError": False, "_meta": {ANSWER: fields}}


def error_result(
    error: DiscoveryError, notices: Sequence[Notice] = (), *, lister: str = LISTER
) -> JSONObject:
    """An error as a result that the model reads: a stable code, what happened, what to do.

    `lister` is what shows the servers that the notices are about.
    """
    budget = Budget(_ERROR_TOKENS)
    notes = notice_lines(notices, notices_budget(budget), lister=lister)
    texts = (
        "\n".join(filter(None, (f"{error.code}: {message}", hint)))
        for message, hint in _variants(error)
    )
    fields: JSONObject = {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    }
    for name in ("server", "tool"):
        if value := getattr(error, name, None):
            fields[name] = value
    if isinstance(error, RateLimitedError):
        fields["retryAfter"] = error.retry_after
    if isinstance(error, NotFoundError):
        fields["nearest"] = list(error.nearest)
    text = "\n".join([first_fitting(texts, budget.less(*notes)), *notes])
    return {"content": [text_content(text)], "isError": True, "_meta": {ERROR: fields}}


def _variants(error: DiscoveryError) -> Iterator[tuple[str, str]]:
    """Message and hint, whole first, then ever shorter; parts may be text of an upstream."""
    yield error.message, error.hint
    for length in _ERROR_CUTS:
        yield cut(error.message, length), cut(error.hint, length)
