"""`select`: only a part of a tool's structured result, chosen by JMESPath."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.agent.caller import Caller
from discovery_engine.agent.json_cutting import json_text
from discovery_engine.agent.render.result import ANSWER
from discovery_engine.agent.results.cutting import STRUCTURED, document, with_documents
from discovery_engine.agent.results.query import PathQuery, QueryError
from discovery_engine.agent.results.shape import shape
from discovery_engine.rpc.json_codec import encode_finite

if TYPE_CHECKING:
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.engine.result_store import ResultStore


async def selected(
    engine: ScopedEngine, result: JSONObject, query: PathQuery, caller: Caller
) -> JSONObject:
    """The part of `result` that is asked for.

    A tool's own failure, and a result without JSON, stay whole: the call was made, and
    its outcome must be known. So is a mistake of the expression a note, and no error.
    """
    if result.get("isError") or result.get("resultType", "complete") != "complete":
        return result
    store, owner = engine.results, caller.client_id
    return await anyio.to_thread.run_sync(partial(_select, result, query, store, owner))


def structure(result: JSONObject) -> tuple[str, JSONValue]:
    """The structured content of a result, else its JSON text, and the path of it; or None."""
    if result.get(STRUCTURED) is not None:
        return STRUCTURED, result[STRUCTURED]
    for at, block in enumerate(result["content"]):
        if block["type"] == "text" and (value := document(block["text"])) is not None:
            return f"content[{at}].text", value
    return "@", None


def part_of(result: JSONObject, value: JSONValue, query: PathQuery) -> JSONValue:
    """Select a part of the structured `value`, or else of the whole result that contains it."""
    part = query.search(value)
    if part is None and query.expression.lstrip("$.").startswith((STRUCTURED, "content")):
        return query.search(with_documents(result))
    return part


def as_text(value: JSONValue) -> str:
    return value if isinstance(value, str) else json_text(value)


def _select(
    result: JSONObject, query: PathQuery, store: ResultStore, owner: str | None
) -> JSONObject:
    path, value = structure(result)
    if value is None:
        note = "Note: `select` was not applied: the result is not JSON"
        return _noted(result, note)
    try:
        part = part_of(result, value, query)
    except QueryError as error:
        why = error.message
    else:
        if part is not None:
            text = {"type": "text", "text": as_text(part)}
            return _answer(result, [text], {"select": query.expression})
        why = f"nothing is at {query.expression}"
    handle = store.put(encode_finite(result)[:-1], owner=owner, path=path)
    whole = f' The whole is kept: read_result {{"handle": "{handle}"}}.' if handle else ""
    note = f"Note: `select`: {why}. The result is {shape(value)}.{whole}"
    fields = {"select": query.expression, "matches": 0, "handle": handle}
    return _answer(result, [{"type": "text", "text": note}], fields)


def _noted(result: JSONObject, note: str) -> JSONObject:
    return {**result, "content": [*result["content"], {"type": "text", "text": note}]}


def _answer(result: JSONObject, content: list[JSONObject], fields: JSONObject) -> JSONObject:
    rest = {name: value for name, value in result.items() if name != STRUCTURED}
    return {**rest, "content": content, "_meta": {**result.get("_meta", {}), ANSWER: fields}}
