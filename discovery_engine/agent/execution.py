"""`execute_tool` and `read_result`: a call of a tool, and its result as an agent gets it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.text import one_line
from discovery_engine.agent.answer_rendering import (
    ANSWER,
    preview_result,
    unchecked_result,
)
from discovery_engine.agent.budget import Budget, first_fitting
from discovery_engine.agent.content import ResultContent
from discovery_engine.agent.cutting import (
    STRUCTURED,
    Cut,
    cut_result,
    document,
    exceeds,
    head_and_tail,
    is_small,
    json_text,
    prune,
    text_end,
    with_documents,
)
from discovery_engine.agent.meta_arguments import Caller, MetaArguments
from discovery_engine.agent.result_query import PathQuery, QueryError, shape
from discovery_engine.config.settings import Settings
from discovery_engine.config.settings_section import MAX_RESULT_TOKENS, MIN_RESULT_TOKENS
from discovery_engine.errors import DiscoveryError
from discovery_engine.rpc.json_codec import decode_standard, encode_finite
from discovery_engine.tools import limits
from discovery_engine.tools.model import Tool

if TYPE_CHECKING:
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.engine.result_store import ResultStore

LONGEST_START = 30.0  # seconds that a call waits for a start; hosts time out after 60


async def execute_tool(
    engine: ScopedEngine, arguments: MetaArguments, caller: Caller
) -> JSONObject:
    server, tool = arguments.called_tool()
    tool_arguments = arguments.mapping("arguments")
    expression = arguments.optional_text("select")
    query = PathQuery(expression) if expression else None  # a mistake is answered before the call
    is_dry_run = arguments.flag("dryRun")
    if server is not None or not engine.has_listings:
        await engine.wait_first_listed(server)
    if (word := arguments.written("arguments")) not in (None, "arguments"):
        tool_arguments = _as_own(engine, server, tool, word, tool_arguments)
    if is_dry_run:
        return preview_result(
            await engine.preview(server, tool, tool_arguments, max_wait=LONGEST_START)
        )
    result = await call_tool(engine, server, tool, tool_arguments, caller)
    if result.get("resultType") == "task" and expression:
        engine.tasks.select(result["taskId"], expression, caller.client)
    if result.get("resultType", "complete") != "complete":  # its questions are for the client
        return result
    if query is not None:
        result = await _selected(engine, result, query, caller)
    return await shortened_result(engine, server, tool, result, caller)


def _as_own(
    engine: ScopedEngine, server: str | None, tool: str, word: str, arguments: JSONObject
) -> JSONObject:
    """Return `arguments` as the value of the argument `word` if the tool has one, else as it is.

    `word` is what the model wrote for `arguments`.
    """
    with suppress(DiscoveryError):
        if word in {parameter.name for parameter in engine.view.find(server, tool).tool.parameters}:
            return {word: arguments}
    return arguments


async def task_state(engine: ScopedEngine, handle: str, caller: Caller) -> JSONObject:
    """The state of a call that has become a task; its result as `execute_tool` returns it.

    Raises:
        TaskNotFoundError: If it is not a task of this client.
        UpstreamError: If its server cannot be reached.
    """
    report = await engine.tasks.get(handle, caller=caller.client)
    result = report.fields.get("result")
    if result is None:
        return report.fields
    if report.select:
        result = await _selected(engine, result, PathQuery(report.select), caller)
    tool = report.tool
    excerpt = await shortened_result(engine, tool.server, tool.tool, result, caller)
    return {**report.fields, "result": excerpt}


async def call_tool(
    engine: ScopedEngine, server: str | None, tool: str, arguments: JSONObject, caller: Caller
) -> JSONObject:
    """A tool's own result, whole, with a note if its arguments were sent unchecked."""
    unchecked: list[str] = []
    if caller.on_call is not None:
        with suppress(DiscoveryError):
            caller.on_call(engine.view.find(server, tool))
    result = await engine.execute(
        server,
        tool,
        arguments,
        on_progress=caller.on_progress,
        caller=caller.client,
        continuation=caller.continuation,
        max_wait=LONGEST_START,
        on_unchecked=unchecked.append,
        by="agent",
    )
    is_complete = result.get("resultType", "complete") == "complete"
    return unchecked_result(result, unchecked[0]) if unchecked and is_complete else result


async def read_result(engine: ScopedEngine, arguments: MetaArguments, caller: Caller) -> JSONObject:
    """The part of a kept result that an agent asks for.

    Raises:
        ResultNotFoundError: If nothing is kept under the handle for this client.
        QueryError: If the path cannot be evaluated.
    """
    search = arguments.optional_text("search")
    limits.require_query(search or "")
    handle, path = arguments.text("handle"), arguments.optional_text("path")
    offset, limit = arguments.optional_count("offset"), arguments.optional_count("limit")
    most = engine.settings.server.max_result_tokens or MAX_RESULT_TOKENS

    def run() -> JSONObject:
        part, data = engine.results.get(handle, owner=caller.client_id)
        tokens = max(min(limit or most, most), MIN_RESULT_TOKENS)
        request = Asked(handle, part, tokens, path=path, offset=offset, search=search)
        answer = read(data, request)
        blocks = [{"type": "text", "text": text} for text in answer.texts]
        return {"content": blocks, "isError": False, "_meta": {ANSWER: answer.fields}}

    return await anyio.to_thread.run_sync(run)


# A result within its limit passes through as it is. The work on a longer one is done in a thread,
# as it may take a tenth of a second.

_MARKER = " <truncated by discovery> "
_TAIL = 50  # characters of the end that `head_tail` keeps


async def shortened_result(
    engine: ScopedEngine, server: str | None, tool: str, result: JSONObject, caller: Caller
) -> JSONObject:
    """`result`, cut if it is longer than an agent may get of this tool."""
    settings = engine.settings
    if not settings.result_limits or is_small(result, settings.result_limits[0]):
        return result
    if result.get("resultType", "complete") != "complete":
        return result
    tokens = limit_of(settings, engine.view.find(server, tool).tool)
    if not tokens or is_small(result, tokens):
        return result
    return await anyio.to_thread.run_sync(partial(cut, engine, result, tokens, caller))


def cut(engine: ScopedEngine, result: JSONObject, tokens: int, caller: Caller) -> JSONObject:
    """Cut `result` to `tokens` as `server.truncate` has it; 0 tokens mean any number."""
    truncate = engine.settings.server.truncate
    if not tokens:
        return result
    if truncate.style == "head_tail":
        return _with_heads_and_tails(result, tokens, truncate.characters)
    return shortened(result, tokens, engine.results, caller.client_id)


def limit_of(settings: Settings, tool: Tool) -> int:
    """The most tokens of a result of `tool`; 0 for any number."""
    of_entries = [settings.overrides[index].max_result_tokens for index in tool.overridden.by]
    of_tool = [tokens for tokens in of_entries if tokens is not None]
    if of_tool:
        return of_tool[-1]
    configured = settings.by_name.get(tool.server)
    of_server = configured.limits.max_result_tokens if configured else None
    return settings.server.max_result_tokens if of_server is None else of_server


def shortened(
    result: JSONObject, tokens: int, store: ResultStore, client: str | None
) -> JSONObject:
    """`result` in at most `tokens`; if it is longer, the whole is kept for `client`."""
    if not exceeds(result, tokens):
        return result
    data = encode_finite(result)[:-1]
    slot: dict[str, str | None] = {}

    def note(cuts: Sequence[Cut]) -> str:
        if cuts:
            part = _whole_part(cuts[0].path)
            slot["handle"] = store.put(data, owner=client, path=part)
        handle = slot.get("handle")
        return cut_note(cuts, size=len(data), handle=handle, tokens=tokens, budget=NOTE_TOKENS)

    excerpt = cut_result(result, tokens, note, reserve=NOTE_TOKENS)
    fields = {"handle": slot.get("handle"), "bytes": len(data), "cut": _cut_fields(excerpt.cuts)}
    return _with_fields(excerpt.result, fields)


def _with_heads_and_tails(result: JSONObject, tokens: int, characters: int) -> JSONObject:
    """The plain form: nothing is kept, and what is no text is left out."""
    if not exceeds(result, tokens):
        return result
    content, left = [], characters
    for block in result["content"]:
        match block:
            case {"type": "text", "text": str(text)}:
                ends = head_and_tail(text, max(left, 1), marker=_MARKER, tail=_TAIL)
                left -= len(text)
                content.append({**block, "text": ends})
            case _ if len(json_text(block)) <= left:
                content.append(block)
            case _:
                content.append({"type": "text", "text": _MARKER.strip()})
    excerpt = {**result, "content": content}
    if STRUCTURED in excerpt and len(json_text(excerpt[STRUCTURED])) > characters:
        del excerpt[STRUCTURED]
    return _with_fields(excerpt, {"truncated": True})


def _with_fields(result: JSONObject, fields: JSONObject) -> JSONObject:
    meta = result.get("_meta", {})
    unchecked = meta.get(ANSWER, {}).get("unchecked")
    ours = {**({"unchecked": unchecked} if unchecked else {}), **fields}
    return {**result, "_meta": {**meta, ANSWER: ours}}


# Reads on in a result that was cut: by offset, by path, or by a text that is searched.
#
# A path is a JMESPath expression. What it chooses is read as text: a string as it is, any other
# value as compact JSON. So reads by offset, put together, are that text to the last character.

NOTE_TOKENS = 150
"""The most that a note on a cut takes."""

_COUNTED = 10_000  # matches of a search; one letter may be in a text millions of times
_MAX_LISTED_CUTS = 3  # cuts of a note
_LISTED = 20  # cuts for programs
_PATH = 80  # characters of a path in a note
_CONTEXT = 80  # characters before and behind a match
_SIMPLE = lazy_pattern(r"[\w.\[\]]+")
_PART = lazy_pattern(r"content\[(\d+)\]|structuredContent")


class Asked(Struct, frozen=True):
    """A request for a part of a stored result."""

    handle: str
    part: str
    """The path of the part that was cut first; it is read if no path is given."""
    tokens: int
    path: str | None = None
    offset: int | None = None
    search: str | None = None


class Answer(Struct, frozen=True):
    texts: tuple[str, ...]
    """The requested part, then perhaps a note."""
    fields: JSONObject


def _whole_part(path: str) -> str:
    """The path of the part that holds what is at `path`: a text, binary data, or all the JSON."""
    part = _PART.match(path)
    if part is None:
        return "@"
    if part[1] is None or path == part[0]:
        return part[0]
    inner = path.removeprefix(part[0]).removeprefix(".")
    first, _, rest = inner.partition(".")
    if first == "resource":
        return f"{part[0]}.resource.{'blob' if rest == 'blob' else 'text'}"
    return f"{part[0]}.{'data' if first == 'data' else 'text'}"


def read(data: bytes, request: Asked) -> Answer:
    """Read the requested part of a stored result, in at most `asked.tokens`.

    Raises:
        QueryError: If the path cannot be evaluated.
    """
    result = decode_standard(data)
    path = request.path or request.part
    value = PathQuery(path).search(with_documents(result) if ".json" in path else result)
    if value is None:
        return Answer((f"Nothing is at {path}. The result is {shape(result)}",), {"matches": 0})
    if request.search is not None:
        return _found(value, request.search, request.tokens)
    if isinstance(value, str) or request.offset is not None:
        return _slice(value, path, request)
    return _pruned(value, path, request)


def cut_note(
    cuts: Sequence[Cut], *, size: int, handle: str | None, tokens: int, budget: int
) -> str:
    """Say what was cut, of how much, and which call reads on, in at most `budget` tokens."""
    if not cuts:
        return "Note: JSON was written compactly to stay within the limit; nothing is left out."
    head = f"Note: cut to {tokens:,} tokens; the whole has {size:,} bytes"
    return first_fitting(_notes(head, cuts, handle), Budget(budget))


def _notes(head: str, cuts: Sequence[Cut], handle: str | None) -> Iterator[str]:
    first = cuts[0]
    for named in (_MAX_LISTED_CUTS, 1, 0):
        places = [
            f"{_short(cut.path)} {cut.shown:,} of {cut.total:,} {cut.unit}" for cut in cuts[:named]
        ]
        more = [f"{len(cuts) - len(places)} more cut"] if len(cuts) > len(places) else []
        what = f": {'; '.join([*places, *more])}" if places else ""
        for how in (_how(handle, first), _how(handle, None)):
            yield f"{head}{what}. {how}"
    yield f"Note: cut. {_how(handle, None)}"


def _how(handle: str | None, cut: Cut | None) -> str:
    if handle is None:
        return "The rest could not be kept; ask for less, or use `select`."
    call: JSONObject = {"handle": handle}
    if cut is not None and len(cut.rest) <= _PATH:
        call["path"] = cut.rest
        if cut.unit == "characters" and cut.shown:
            call["offset"] = cut.shown
    return f"read_result {json.dumps(call, ensure_ascii=False)} reads on, within an hour."


def _short(path: str) -> str:
    return limits.shortened(one_line(path), _PATH)


def _slice(value: JSONValue, path: str, request: Asked) -> Answer:
    text = value if isinstance(value, str) else json_text(value)
    start = min(request.offset or 0, len(text))
    space = request.tokens - NOTE_TOKENS
    end = text_end(text, space, start)
    if end == start < len(text):  # a single piece that is longer than the space
        end = start + 1
    where = f"Note: {_short(path)}, characters {start:,} to {end:,} of {len(text):,}"
    call = {"handle": request.handle, "path": path, "offset": end}
    more = f"read_result {json.dumps(call, ensure_ascii=False)} reads on"
    brief = f"Note: characters {start:,} to {end:,} of {len(text):,}; go on with offset {end}"
    rest = [f"{where}; {more}", brief] if end < len(text) else [f"{where}; this is the end"]
    note = first_fitting(rest, Budget(NOTE_TOKENS))
    fields = {"path": path, "offset": start, "end": end, "total": len(text)}
    return Answer((text[start:end], note), fields)


def _pruned(value: JSONValue, path: str, request: Asked) -> Answer:
    text = json_text(value)
    whole = text_end(text, request.tokens) == len(text)
    if whole:
        return Answer((text,), {"path": path})
    excerpt = prune(value, request.tokens - NOTE_TOKENS, "")
    cuts = [replace(cut, path=_joined(path, cut.path)) for cut in excerpt.cuts]
    note = cut_note(
        cuts,
        size=len(text.encode()),
        handle=request.handle,
        tokens=request.tokens,
        budget=NOTE_TOKENS,
    )
    return Answer((json_text(excerpt.value), note), {"path": path, "cut": _cut_fields(cuts)})


def _cut_fields(cuts: Sequence[Cut]) -> list[JSONObject]:
    return [
        {"path": cut.path, "shown": cut.shown, "total": cut.total, "unit": cut.unit}
        for cut in cuts[:_LISTED]
    ]


def _joined(base: str, inner: str) -> str:
    """The path of `inner` within the value at `base`."""
    if inner in ("", "@"):
        return base
    if not _SIMPLE.fullmatch(base):
        return f"{base} | {inner}"
    return f"{base}{inner}" if inner.startswith("[") else f"{base}.{inner}"


def _found(value: JSONValue, search: str, tokens: int) -> Answer:
    text = value if isinstance(value, str) else json_text(value)
    hits = re.finditer(re.escape(search), text, re.IGNORECASE)
    places = [hit.start() for hit in islice(hits, _COUNTED)]
    lines = [_line(text, at, len(search)) for at in places[: tokens // 8 + 1]]
    budget = Budget(tokens - 20)
    line_count = len(lines)
    while line_count and not budget.fits("\n".join(lines[:line_count])):
        line_count = line_count * 3 // 4
    count = f"{len(places):,}{'' if len(places) < _COUNTED else ' or more'}"
    head = f"{count} matches" + (f", the first {line_count:,}" if line_count < len(places) else "")
    fields = {"matches": len(places), "offsets": places[:line_count], "total": len(text)}
    return Answer(("\n".join([head, *lines[:line_count]]),), fields)


def _line(text: str, at: int, length: int) -> str:
    before = text[max(at - _CONTEXT, 0) : at]
    behind = text[at + length : at + length + _CONTEXT]
    return f"{at}: {one_line(f'{before}{text[at : at + length]}{behind}')}"


async def _selected(
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


def result_value(result: JSONObject) -> JSONValue:
    """Return the structured content of a result, else its JSON, else its parts as text."""
    _, value = structure(result)
    return ResultContent.of(result).text if value is None else value


def error_text(error: DiscoveryError) -> str:
    """Return an error as one line: code, message and hint."""
    return f"{error.code}: {error.message}" + (f" ({error.hint})" if error.hint else "")


def part_of(result: JSONObject, value: JSONValue, query: PathQuery) -> JSONValue:
    """Select a part of the structured `value`, or else of the whole result that contains it."""
    part = query.search(value)
    if part is None and query.expression.lstrip("$.").startswith((STRUCTURED, "content")):
        return query.search(with_documents(result))
    return part


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
            text = {"type": "text", "text": part if isinstance(part, str) else json_text(part)}
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
