"""The answer of `get_tool_details`."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from sys import getsizeof
from threading import Lock

from cachetools import LRUCache, cached

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import block, named
from discovery_engine.agent.budget import Budget, Item, Plan, Variant, plan_with_note
from discovery_engine.agent.render.result import line_variant, make_result
from discovery_engine.agent.structured import details_fields
from discovery_engine.agent.tool_text import argument_line, cut, tag_text
from discovery_engine.catalog import Entry
from discovery_engine.tools.model import Parameter, Tool
from discovery_engine.tools.signature import choice_text, parameter_line, typed

_ABOUT = 120  # characters of a shortened description of an argument
_DESCRIPTION = ((120, 0.6), (500, 0.8))  # characters of a description, and the value of so many
_OPTIONAL = 0.3  # weight of an optional argument; a required one has 1
_UNDESCRIBED = "It may take arguments; its server does not describe them."


_CACHED = 4_000_000  # bytes of items of the tools that were looked at last
_OVERHEAD = 400  # bytes of a variant beside its text


def details_result(entry: Entry, budget: Budget) -> JSONObject:
    items, _ = _items(entry)
    lines = plan_with_note(items, budget, partial(_cut_to_fit, budget))
    return make_result("\n".join(lines), budget, details_fields(entry))


@cached(LRUCache(_CACHED, getsizeof=itemgetter(1)), lock=Lock())
def _items(entry: Entry) -> tuple[tuple[Item, ...], int]:
    """The items of a tool, and about how many bytes are kept for them."""
    tool = entry.tool
    marks = dict.fromkeys([*_effects(tool), *entry.verdict.tags])
    key = tool.key.label
    heads = (f"{key} {tag_text(list(marks))}", key) if marks else (key,)
    arguments = [_argument_item(parameter, tool) for parameter in tool.parameters]
    if not arguments:
        arguments = [_line_item(_UNDESCRIBED if tool.takes_unnamed else "It takes no arguments.")]
    items = (
        Item(len(arguments) + 2, tuple(line_variant(head, 1.0) for head in reversed(heads))),
        *_description_items(tool.description.strip()),
        *(_line_item(f"Needed: {choice_text(choice)}") for choice in tool.choices),
        *arguments,
    )
    texts = [variant.text for item in items for variant in item.variants]
    return items, getsizeof(tool.source) + sum(_OVERHEAD + getsizeof(text) for text in texts)


def _line_item(text: str) -> Item:
    return Item(1.0, (line_variant(text, 1.0),))


def _description_items(description: str) -> list[Item]:
    if not description:
        return []
    cuts = [(cut(description, length), value) for length, value in _DESCRIPTION]
    texts = [("\n".join(block(text)), value) for text, value in (*cuts, (description, 1.0))]
    return [Item(1.0, tuple(Variant(text, value) for text, value in texts))]


def _argument_item(parameter: Parameter, tool: Tool) -> Item:
    mark = "" if parameter.required else "?"
    variants = (
        line_variant(f"{named(parameter.name)}{mark}", 0.4),
        line_variant(typed(parameter, tool), 0.7),
        Variant(argument_line(parameter, tool, _ABOUT), 0.9),
        line_variant(parameter_line(parameter, tool), 1.0),
    )
    return Item(1.0 if parameter.required else _OPTIONAL, variants)


def _effects(tool: Tool) -> list[str]:
    """The effects that the tool's own annotations claim."""
    claims = (("readOnlyHint", "read-only"), ("destructiveHint", "destructive"))
    return [word for hint, word in claims if tool.annotations.get(hint) is True]


def _cut_to_fit(budget: Budget, made: Plan) -> str:
    left = f" ({made.left_out} left out)" if made.left_out else ""
    return "" if made.is_whole else f"Cut to fit{left}: {budget.more()}"
