"""Results of tools as agents get them: shortened where they exceed a limit, and read on.

A result within its limit passes through as it is. The work on a longer one is done in a thread,
as it may take a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from discovery_engine._util.json import JSONObject
from discovery_engine.agent.caller import Caller
from discovery_engine.agent.render.result import ANSWER
from discovery_engine.agent.results.cutting import (
    STRUCTURED,
    cut_result,
    exceeds,
    head_and_tail,
    is_small,
)
from discovery_engine.agent.results.json_cutting import Cut, json_text
from discovery_engine.agent.results.reading import (
    NOTE_TOKENS,
    Asked,
    cut_fields,
    cut_note,
    read,
    whole_part,
)
from discovery_engine.config.settings import Settings
from discovery_engine.config.settings_section import MAX_RESULT_TOKENS, MIN_RESULT_TOKENS
from discovery_engine.rpc.json_codec import encode_finite
from discovery_engine.tools.model import Tool

if TYPE_CHECKING:
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.runtime.result_store import ResultStore

_MARKER = " <truncated by discovery> "
_TAIL = 50  # characters of the end that `head_tail` keeps


async def shortened_result(
    engine: ScopedEngine, server: str | None, tool: str, result: JSONObject, caller: Caller
) -> JSONObject:
    """`result`, cut if it is longer than an agent may get of this tool."""
    limits = engine.settings.result_limits
    if not limits or is_small(result, limits[0]):
        return result
    if result.get("resultType", "complete") != "complete":
        return result
    tokens = limit_of(engine.settings, engine.view.find(server, tool).tool)
    if not tokens or is_small(result, tokens):
        return result
    truncate = engine.settings.server.truncate
    if truncate.style == "head_tail":
        shorten = partial(_with_heads_and_tails, result, tokens, truncate.characters)
    else:
        shorten = partial(shortened, result, tokens, engine.results, caller.client_id)
    return await anyio.to_thread.run_sync(shorten)


def limit_of(settings: Settings, tool: Tool) -> int:
    """The most tokens of a result of `tool`; 0 for any number."""
    of_entries = [settings.overrides[index].max_result_tokens for index in tool.overridden.by]
    of_tool = [tokens for tokens in of_entries if tokens is not None]
    if of_tool:
        return of_tool[-1]
    configured = settings.by_name.get(tool.server)
    of_server = configured.limits.max_result_tokens if configured else None
    return settings.server.max_result_tokens if of_server is None else of_server


async def read_on(
    engine: ScopedEngine,
    handle: str,
    caller: Caller,
    *,
    path: str | None,
    offset: int | None,
    search: str | None,
    limit: int | None,
) -> JSONObject:
    """The answer of `read_result`.

    Raises:
        ResultNotFoundError: If nothing is kept under `handle` for this client.
        QueryError: If the path cannot be evaluated.
    """
    most = engine.settings.server.max_result_tokens or MAX_RESULT_TOKENS

    def run() -> JSONObject:
        part, data = engine.results.get(handle, owner=caller.client_id)
        tokens = max(min(limit or most, most), MIN_RESULT_TOKENS)
        asked = Asked(handle, part, tokens, path=path, offset=offset, search=search)
        answer = read(data, asked)
        blocks = [{"type": "text", "text": text} for text in answer.texts]
        return {"content": blocks, "isError": False, "_meta": {ANSWER: answer.fields}}

    return await anyio.to_thread.run_sync(run)


def shortened(
    result: JSONObject, tokens: int, store: ResultStore, client: str | None
) -> JSONObject:
    """`result` in at most `tokens`; if it is longer, the whole is kept for `client`."""
    if not exceeds(result, tokens):
        return result
    data = encode_finite(result)[:-1]
    kept: dict[str, str | None] = {}

    def note(cuts: Sequence[Cut]) -> str:
        if cuts:
            part = whole_part(cuts[0].path)
            kept["handle"] = store.put(data, owner=client, path=part)
        handle = kept.get("handle")
        return cut_note(cuts, size=len(data), handle=handle, tokens=tokens, budget=NOTE_TOKENS)

    made = cut_result(result, tokens, note, reserve=NOTE_TOKENS)
    fields = {"handle": kept.get("handle"), "bytes": len(data), "cut": cut_fields(made.cuts)}
    return _with_fields(made.result, fields)


def _with_heads_and_tails(result: JSONObject, tokens: int, characters: int) -> JSONObject:
    """The plain form: nothing is kept, and what is no text is left out."""
    if not exceeds(result, tokens):
        return result
    content, left = [], characters
    for block in result["content"]:
        match block:
            case {"type": "text", "text": str(text)}:
                kept = head_and_tail(text, max(left, 1), marker=_MARKER, tail=_TAIL)
                left -= len(text)
                content.append({**block, "text": kept})
            case _ if len(json_text(block)) <= left:
                content.append(block)
            case _:
                content.append({"type": "text", "text": _MARKER.strip()})
    made = {**result, "content": content}
    if STRUCTURED in made and len(json_text(made[STRUCTURED])) > characters:
        del made[STRUCTURED]
    return _with_fields(made, {"truncated": True})


def _with_fields(result: JSONObject, fields: JSONObject) -> JSONObject:
    meta = result.get("_meta", {})
    unchecked = meta.get(ANSWER, {}).get("unchecked")
    ours = {**({"unchecked": unchecked} if unchecked else {}), **fields}
    return {**result, "_meta": {**meta, ANSWER: ours}}
