"""A result of `tools/call` from rendered text and structured fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import one_line
from discovery_engine.agent.budget import Budget, Item, Plan, Variant, plan_with_note
from discovery_engine.agent.render.notice_text import notice_lines
from discovery_engine.view.notices import Notice

ANSWER = "discovery/answer"
"""The member of `_meta` with the answer's fields."""

_NOTICES_SHARE = 3  # notices take at most a third of an answer
_MIN_NOTICES = 24  # tokens that notices may always take: enough for their counts


def make_result(text: str, budget: Budget, fields: JSONObject) -> JSONObject:
    """A successful result; the number of tokens of its text is added to `fields`."""
    return counted_result(text, budget.count(text.strip("\n")), fields)


def counted_result(text: str, tokens: int, fields: JSONObject) -> JSONObject:
    """Make a result like `make_result`, from a text whose tokens are already counted."""
    meta = {ANSWER: {**fields, "tokens": tokens}}
    return {"content": [text_content(text)], "isError": False, "_meta": meta}


def text_content(text: str) -> JSONObject:
    return {"type": "text", "text": text.strip("\n")}


def render_items(
    items: Sequence[Item], notices: Sequence[Notice], budget: Budget, note: Callable[[Plan], str]
) -> str:
    """Lines for `items`, the `note` on what was left out, and lines for `notices`.

    The notice that a better tool is hidden comes first: below the others it is read too late,
    after one of them was chosen.
    """
    allowed = notices_budget(budget) if items else budget
    hidden = [notice for notice in notices if notice.code == "TOOL_DISABLED"]
    others = [notice for notice in notices if notice.code != "TOOL_DISABLED"]
    first = notice_lines(hidden, allowed)
    last = notice_lines(others, allowed.less(*first))
    lines = plan_with_note(items, budget.less(*first, *last), note)
    return "\n".join([*first, *lines, *last])


def notices_budget(budget: Budget) -> Budget:
    tokens = max(budget.tokens // _NOTICES_SHARE, _MIN_NOTICES)
    return replace(budget, tokens=min(tokens, budget.tokens))


def left_out_note(how: str, *, beyond: int = 0) -> Callable[[Plan], str]:
    """A note such as `3 more: raise maxTokens`; `beyond` counts items that were not planned."""

    def note(made: Plan) -> str:
        left = made.left_out + beyond
        return f"{left} more: {how}" if left else ""

    return note


def line_variant(text: str, value: float) -> Variant:
    return Variant(one_line(text), value)
