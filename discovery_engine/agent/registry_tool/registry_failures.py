"""Errors of `registry` as results: in its own words, with the names that may be meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from discovery_engine.agent.registry_tool.registry_answers import call_as
from discovery_engine.agent.render.calls import ERROR, error_result
from discovery_engine.errors import (
    DiscoveryError,
    NotFoundError,
    ServerNotFoundError,
    ToolAmbiguousError,
    ToolNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.view.notices import Notice

_MOST_MEANT = 3
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
_NEXT_STEPS = {
    ServerNotFoundError: "the action list names all servers",
    ToolNotFoundError: "the action find_tool finds tools by what they do",
}
"""In place of meta-tools, which are not there where tools have their own names."""


async def failure_result(
    engine: ScopedEngine, error: DiscoveryError, arguments: JSONObject, notices: Sequence[Notice]
) -> JSONObject:
    """An error as the result of `registry`; what it says is in `structuredContent`, too."""
    result = error_result(_with_own_hint(error), notices, lister="the action list")
    answer: JSONObject = {"error": result["_meta"][ERROR]}
    if arguments.get("action") == "proxy_call" and isinstance(error, NotFoundError):
        name = arguments.get("call_as") or arguments.get("tool")
        answer["did_you_mean"] = await meant_names(engine, error, str(name or ""))
    return {**result, "structuredContent": answer}


async def meant_names(engine: ScopedEngine, error: NotFoundError, name: str) -> list[str]:
    """The tools that are nearest to a name, as `call_as`; of the server itself if it is known."""
    match error:
        case ToolAmbiguousError():
            near = list(error.nearest)
        case ToolNotFoundError(server=str() as server):
            return [f"mcp__{server}__{tool}" for tool in error.nearest[:_MOST_MEANT]]
        case _:
            near = list(error.nearest) if isinstance(error, ToolNotFoundError) else []
    if near:
        return [f"mcp__{one.replace(':', '__', 1)}" for one in near[:_MOST_MEANT]]
    words = _SEPARATORS.sub(" ", name.removeprefix("mcp__")).strip()
    if not words:
        return []
    answer = await engine.search(words, limit=_MOST_MEANT)
    return [call_as(hit.entry) for hit in (answer.hits or answer.nearest)[:_MOST_MEANT]]


def _with_own_hint(error: DiscoveryError) -> DiscoveryError:
    next_step = _NEXT_STEPS.get(type(error))
    if next_step is None or not isinstance(error, NotFoundError):
        return error
    meant = f"did you mean {' or '.join(map(repr, error.nearest))}?" if error.nearest else ""
    return error.with_own_hint("; ".join(filter(None, (meant, next_step))))
