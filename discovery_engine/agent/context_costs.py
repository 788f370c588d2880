"""The context that each way to give tools to an agent takes, in estimated tokens.

The tokens of a request are counted until the schema of the best tool that fits has been read.
Whether that is the right tool is another question: `evaluation` answers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.agent.budget import Budget, estimated_tokens
from discovery_engine.agent.cutting import json_text
from discovery_engine.agent.list_rendering import details_result
from discovery_engine.agent.meta_arguments import helpers_beside_tools, meta_tools
from discovery_engine.agent.portable_schema import PortableSchema
from discovery_engine.agent.search_rendering import search_result
from discovery_engine.agent.tool_text import Detail
from discovery_engine.tools.meta_tools import POOL_SEARCH

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import Entry
    from discovery_engine.tools.meta_tools import MetaTool
    from discovery_engine.view.search_answers import SearchAnswer
    from discovery_engine.view.view import View


class ContextCost(Struct, frozen=True):
    """The cost of one way."""

    way: str
    """`all`, `meta` or `select`, as the modes of a toolset are called."""
    tools: float
    """Definitions that the model is given, the mean of the requests."""
    definitions: int
    """Their tokens, which the model is given at every turn."""
    answers: int
    """The tokens of the calls that find a tool and explain it, once a request."""
    calls: float
    """The number of these calls."""

    def to_json(self) -> JSONObject:
        return {
            "way": self.way,
            "tools": self.tools,
            "definition_tokens": self.definitions,
            "answer_tokens": self.answers,
            "calls": self.calls,
        }


def context_costs(view: View, requests: Sequence[str]) -> tuple[ContextCost, ...]:
    """Return the costs of all tools up front, of the meta-tools, and of binding the tools that fit.

    Args:
        view: The view that has the tools.
        requests: What an agent would search for, at least one; the costs are their mean.
    """
    samples = [_Request.of(view, request) for request in requests]
    visible = list(view.catalog.visible)
    metas = meta_tools(view.settings).values()
    beside = [POOL_SEARCH, *helpers_beside_tools(view.settings).values()]
    return (
        ContextCost("all", len(visible), sum(_prices(view, visible)), 0, 0),
        ContextCost(
            "meta",
            len(metas),
            sum(map(_meta_price, metas)),
            round(fmean(sample.answers for sample in samples)),
            fmean(sample.calls for sample in samples),
        ),
        ContextCost(
            "select",
            len(beside) + fmean(sample.bound for sample in samples),
            round(sum(map(_meta_price, beside)) + fmean(sample.definitions for sample in samples)),
            0,
            0,
        ),
    )


def definition_tokens(entry: Entry) -> int:
    """Estimate the tokens of a tool's definition in its server's own words."""
    tool = entry.tool
    fields = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    return estimated_tokens(json_text(fields))


def answer_tokens(answer: SearchAnswer, max_tokens: int) -> int:
    """Estimate the tokens of a search's answer as an agent gets it.

    Args:
        answer: The answer to one query.
        max_tokens: The most that it may take.
    """
    budget = Budget(max_tokens)
    result = search_result(answer, budget, Detail.SIGNATURE)
    return budget.count(result["content"][0]["text"])


class _Request(Struct, frozen=True):
    answers: int
    calls: int
    bound: int
    definitions: int

    @classmethod
    def of(cls, view: View, request: str) -> _Request:
        server = view.settings.server
        answer = view.search(request)
        searched = search_result(answer, Budget(view.settings.search.max_tokens), Detail.SIGNATURE)
        results = [searched]
        best = next((hit.entry for hit in (*answer.hits, *answer.nearest)), None)
        if best:
            results.append(details_result(best, view, Budget(server.details_tokens)))
        entries = [hit.entry for hit in answer.hits[: server.pool_limit]]
        return cls(
            sum(map(_text_price, results)), len(results), len(entries), sum(_prices(view, entries))
        )


def _text_price(result: JSONObject) -> int:
    return sum(estimated_tokens(block["text"]) for block in result["content"])


def _prices(view: View, entries: Iterable[Entry]) -> list[int]:
    """Price the definitions of tools as a framework shows them to its model."""
    prices = []
    for entry in entries:
        if name := view.addresses.client_name(entry.key):
            schema = PortableSchema.of(entry.tool.input_schema).schema
            prices.append(_price(name, entry.tool.description, schema))
    return prices


def _meta_price(tool: MetaTool) -> int:
    return _price(tool.name, tool.description, tool.input_schema)


def _price(name: str, description: str, parameters: JSONObject) -> int:
    fields = {"name": name, "description": description, "parameters": parameters}
    return estimated_tokens(json_text(fields))
