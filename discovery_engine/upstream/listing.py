"""Reads the lists of a server page by page, and drops unusable definitions.

An invalid definition costs only itself. If a page fails, the earlier pages are used.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import quoted
from discovery_engine.catalog import DroppedTool
from discovery_engine.rpc.messages import (
    InvalidAnswerError,
    RequestTimeout,
    RequestTimeoutError,
    RpcError,
)
from discovery_engine.rpc.protocol import EXTENSIONS, METHOD_NOT_FOUND
from discovery_engine.rpc.request_headers import HeaderMap
from discovery_engine.rpc.request_timer import PausableClock
from discovery_engine.tools.apps import APP_MIME_TYPE, app_of
from discovery_engine.tools.limits import PROMPT_NAME_LENGTH, URI_LENGTH
from discovery_engine.tools.offering import OfferingKind, decision_key
from discovery_engine.tools.skills import TEXT, fault_of_skill, with_text

T = TypeVar("T")
FetchPage: TypeAlias = Callable[[JSONObject, RequestTimeout], Awaitable[JSONObject]]
"""Requests one page with the given parameters, within the time limit."""
FindFault: TypeAlias = Callable[[Any], str | None]
"""Returns why a definition cannot be used; None if it can."""

_READS = 8  # skills that are read at a time
_ROUNDS = 6  # times the limit of one request, in which all skills of a server must be read
_MAX_TEXTS = 16 << 20  # characters of all skills of a server
_OFFERINGS = 10.0  # seconds, at most, that resources and prompts delay the list of tools
_MAX_PAGES = 1000
_MAX_LISTED = 20_000  # definitions of one list
_MAX_SECONDS = 60.0
_MAX_SIZE = 64 * 1024  # characters of a definition as ASCII JSON; usual ones have under a tenth
_MAX_DEPTH = 32
_TEXTS = ("title", "description", "mimeType")
_BATCH = 100  # tools per turn of the event loop: some 3 ms
_MAX_TTL = 10**12  # milliseconds; an integer may be larger than any float
_NAME_SHOWN = 100  # characters


class Listing(Struct, frozen=True):
    tools: tuple[JSONObject, ...]
    """The usable definitions, in the order of the server."""
    dropped: tuple[DroppedTool, ...] = ()
    instructions: str = ""
    ttl: float | None = None
    """Seconds for which the list may be cached (`ttlMs`); None if the server gives none."""
    connection: str = ""
    declared: Mapping[str, JSONObject] = MappingProxyType({})
    """The capabilities of clients that it was listed for."""
    cut: str = ""
    """The reason why the list is incomplete; empty if it is complete."""
    offerings: Mapping[OfferingKind, ListedOfferings] = MappingProxyType({})
    """The server's offerings besides tools; a kind that it does not declare is missing."""
    extensions: tuple[str, ...] = ()
    """The extensions that the server declares and the gateway does not pass on."""


class ListedOfferings(Struct, frozen=True):
    """The resources, the resource templates or the prompts of a server."""

    definitions: tuple[JSONObject, ...] = ()
    """The usable definitions, in the order of the server."""
    dropped: tuple[DroppedTool, ...] = ()
    failure: str = ""
    """The reason why the list could not be read; empty if it was."""
    cut: str = ""
    """The reason why the list is incomplete; empty if it is complete."""
    ttl: float | None = None
    """Seconds for which the list may be cached; None if the server gives none."""


class Pages(Struct, frozen=True):
    definitions: tuple[JSONValue, ...] = ()
    ttl: float | None = None
    cut: str = ""


async def read_pages(
    fetch: FetchPage, *, seconds: float, method: str = "tools/list", member: str = "tools"
) -> Pages:
    """Read the pages of a list until it ends or the time is up, at most 1,000 pages.

    Args:
        fetch: Requests a page.
        seconds: The time limit for all pages; at most 60 are used.
        method: The method that errors name.
        member: The member of a page that holds the list.

    Raises:
        TimeoutError: If the first page does not arrive in time.
        ValueError: If the first page has no list.
        Exception: Any error of `fetch` for the first page.
    """
    reader = _PageReader(method, member)
    clock = PausableClock()  # paused while an answer that has arrived is read
    end = clock.time() + min(seconds, _MAX_SECONDS)
    try:
        while not reader.done:
            await reader.read(fetch, RequestTimeout(end - clock.time(), clock=clock))
    except RequestTimeoutError:
        if not reader.count:
            raise
        reader.cut = f"no further page came within {seconds:g} s"
    return Pages(tuple(reader.definitions), reader.ttl, reader.cut)


class _PageReader:
    def __init__(self, method: str, member: str) -> None:
        self._method = method
        self._member = member
        self.definitions: list[JSONValue] = []
        self.ttl: float | None = None
        self.cut = ""
        self.count = 0
        self.done = False
        self._cursor: str | None = None
        self._seen: set[str] = set()

    async def read(self, fetch: FetchPage, limit: RequestTimeout) -> None:
        params = {} if self._cursor is None else {"cursor": self._cursor}
        try:
            self._add(await fetch(params, limit))
        except Exception as error:  # a later page that fails must not lose the earlier ones
            if not self.count or isinstance(error, RequestTimeoutError):
                raise
            self._stop(f"page {self.count + 1} failed: {error}")

    def _add(self, page: JSONObject) -> None:
        listed = page.get(self._member)
        if not isinstance(listed, list):
            text = f"its answer to {self._method} holds no list of {self._member}"
            raise ValueError(text)  # noqa: TRY004 - external data, not a caller's mistake
        if not self.count:
            self.ttl = _seconds(page.get("ttlMs"))
        self.count += 1
        self.definitions += listed
        self._advance(page.get("nextCursor"))

    def _advance(self, cursor: JSONValue) -> None:
        self._cursor = cursor if isinstance(cursor, str) else None
        if self._cursor is None:
            self.done = True
        elif self._cursor in self._seen:
            self._stop(f"its cursor {self._cursor[:_NAME_SHOWN]!r} repeats")
        elif self.count >= _MAX_PAGES:
            self._stop(f"it has more than {_MAX_PAGES} pages")
        elif len(self.definitions) >= _MAX_LISTED:
            self._stop(f"it has more than {_MAX_LISTED} {self._member}")
        else:
            self._seen.add(self._cursor)

    def _stop(self, why: str) -> None:
        self.cut = why
        self.done = True


async def split_usable(
    definitions: Iterable[JSONValue], *, find_fault: FindFault
) -> tuple[tuple[JSONObject, ...], tuple[DroppedTool, ...]]:
    """Split tool definitions into the usable ones and the dropped ones, with a reason for each.

    Of two tools with the same name the first is used. A tool without a valid name is reported by
    its position, such as `#3`. Other tasks run after every 100 definitions.
    """
    return await split(
        definitions,
        lambda definition: fault_of(definition) or find_fault(definition),
        identifier="name",
        noun="tool",
    )


async def split(
    definitions: Iterable[JSONValue], find_fault: FindFault, *, identifier: str, noun: str
) -> tuple[tuple[JSONObject, ...], tuple[DroppedTool, ...]]:
    """Split definitions whose member `identifier` must be unique; see `split_usable`."""
    good: dict[str, JSONObject] = {}
    dropped: list[DroppedTool] = []
    position = 0
    async for definition in in_batches(definitions):
        position += 1
        reason = find_fault(definition)
        if reason is None and definition[identifier] in good:
            reason = f"an earlier {noun} has the same {identifier}"
        if reason is None:
            good[definition[identifier]] = _with_texts(definition)
        else:
            dropped.append(DroppedTool(_shown_name(definition, identifier, position), reason))
    return tuple(good.values()), tuple(dropped)


async def header_maps(
    tools: Iterable[JSONObject], read: Callable[[JSONObject], HeaderMap | None]
) -> dict[str, HeaderMap]:
    """Return the arguments that are sent as headers, by tool name; other tools are left out."""
    return {
        tool["name"]: header_map async for tool in in_batches(tools) if (header_map := read(tool))
    }


async def in_batches(definitions: Iterable[T]) -> AsyncIterator[T]:
    """Yield definitions; other tasks run after every 100."""
    for position, definition in enumerate(definitions, start=1):
        yield definition
        if position % _BATCH == 0:
            await checkpoint()


def fault_of(definition: JSONValue) -> str | None:
    """Return why a tool's definition cannot be shown or called; None if it can."""
    if not isinstance(definition, dict):
        return "it is not an object"
    if not isinstance(definition.get("name"), str) or not definition["name"].strip():
        return "its name is not a non-empty string"
    return fault_of_size(definition)


def _with_texts(definition: JSONObject) -> JSONObject:
    """Return the definition without optional text members that are no strings."""
    odd = [name for name in _TEXTS if not isinstance(definition.get(name), str | None)]
    return {k: v for k, v in definition.items() if k not in odd} if odd else definition


def depth_of(value: JSONValue, *, limit: int) -> int:
    """Return how deep objects and arrays nest, counted up to `limit` + 1; 0 for a scalar."""
    depth = 0
    level = [value]
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        if depth > limit:
            break
        level = [
            child for node in level for child in (node.values() if isinstance(node, dict) else node)
        ]
    return depth


def fault_of_size(definition: JSONObject) -> str | None:
    """Return why a definition is too large or nests too deep; None if it is within the limits."""
    if depth_of(definition, limit=_MAX_DEPTH) > _MAX_DEPTH:
        return f"it nests more than {_MAX_DEPTH} levels deep"
    if not _is_small(definition) and len(json.dumps(definition)) > _MAX_SIZE:
        return f"it is larger than {_MAX_SIZE // 1024} KiB"
    return None


def _is_small(definition: JSONObject) -> bool:
    """Return whether a definition is certainly small enough, in an eighth of the exact time."""
    try:
        size = len(msgspec.json.encode(definition))
    except (ValueError, OverflowError):  # a lone surrogate, a number of more than 64 bits
        return False
    # `json.dumps` is at most three times as long: it escapes characters and adds spaces.
    return size * 3 <= _MAX_SIZE


def _shown_name(definition: JSONValue, identifier: str, position: int) -> str:
    name = definition.get(identifier) if isinstance(definition, dict) else None
    return name[:_NAME_SHOWN] if isinstance(name, str) and name.strip() else f"#{position}"


def _seconds(ttl_ms: JSONValue) -> float | None:
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int | float):
        return None
    return min(max(0, ttl_ms), _MAX_TTL) / 1000


# Resources, resource templates and prompts.
#
# Only kinds that the server declares are requested. A kind that fails affects neither the others
# nor the tools.

FetchList: TypeAlias = Callable[[str, JSONObject, RequestTimeout], Awaitable[JSONObject]]
"""Requests one page by method and parameters, within the time limit."""

_MESSAGE_LENGTH = 200  # characters of a server's message
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

logger = logging.getLogger(__name__)


def declared_kinds(capabilities: JSONObject) -> tuple[OfferingKind, ...]:
    """Return the kinds of offerings that these capabilities of a server declare."""
    extensions = capabilities.get("extensions")
    known = capabilities | extensions if isinstance(extensions, dict) else capabilities
    declared = (known.get(kind.wire.capability) for kind in OfferingKind)
    return tuple(
        kind
        for kind, capability in zip(OfferingKind, declared, strict=True)
        if isinstance(capability, dict)
    )


async def list_offerings(
    fetch: FetchList, capabilities: JSONObject, *, tools: Collection[str], seconds: float
) -> Mapping[OfferingKind, ListedOfferings]:
    """List all declared kinds concurrently, within `seconds` each.

    A kind that cannot be listed has its reason in `failure`. `tools` are the names of the server's
    tools: an offering whose decision key equals one of them is dropped.
    """
    offerings: dict[OfferingKind, ListedOfferings] = {}

    async def list_one(kind: OfferingKind) -> None:
        find_fault = partial(fault_of_offering, kind, tools=tools)
        offerings[kind] = await _list_kind(kind, fetch, seconds, find_fault)

    async with anyio.create_task_group() as tasks:
        for kind in declared_kinds(capabilities):
            tasks.start_soon(list_one, kind)
    return offerings


async def _list_kind(
    kind: OfferingKind, fetch: FetchList, seconds: float, find_fault: FindFault
) -> ListedOfferings:
    wire = kind.wire
    try:
        pages = await read_pages(
            partial(fetch, wire.method), seconds=seconds, method=wire.method, member=wire.member
        )
    except RpcError as error:
        if error.code == METHOD_NOT_FOUND:  # many servers declare resources and have no templates
            return ListedOfferings()
        if isinstance(error, InvalidAnswerError):
            return _failed(kind, f"it sent an unusable answer: {error.message}")
        message = quoted(error.message[:_MESSAGE_LENGTH])
        return _failed(kind, f"it answered error {error.code}: {message}")
    except TimeoutError:
        return _failed(kind, f"it did not answer within {seconds:g} s")
    except ValueError as error:
        return _failed(kind, str(error))
    definitions = [_with_name(definition, kind) for definition in pages.definitions]
    good, dropped = await split(
        definitions, find_fault, identifier=wire.identifier, noun=kind.label
    )
    if kind is OfferingKind.SKILL:
        good, unread = await _with_texts_of_skills(good, fetch, seconds)
        dropped += unread
    return ListedOfferings(good, dropped, cut=pages.cut, ttl=pages.ttl)


def _with_name(definition: JSONValue, kind: OfferingKind) -> JSONValue:
    """Return a definition of a resource with a name, which some lack: its title, or its URI."""
    if not isinstance(definition, dict) or kind not in (
        OfferingKind.RESOURCE,
        OfferingKind.TEMPLATE,
    ):
        return definition
    texts = (definition.get(member) for member in ("name", "title", kind.wire.identifier))
    name = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    return definition if name == definition.get("name") else {**definition, "name": name}


async def _with_texts_of_skills(
    skills: Iterable[JSONObject], fetch: FetchList, seconds: float
) -> tuple[tuple[JSONObject, ...], tuple[DroppedTool, ...]]:
    """Read the `SKILL.md` of each skill; one that cannot be read, or not in time, is dropped."""
    limiter = anyio.Semaphore(_READS)
    deadline = anyio.current_time() + _ROUNDS * seconds
    length = 0
    read: dict[str, JSONObject] = {}
    dropped: list[DroppedTool] = []

    def require_room() -> None:
        if anyio.current_time() >= deadline:
            raise TimeoutError(f"the skills before it took {_ROUNDS * seconds:g} s")
        if length > _MAX_TEXTS:
            raise ValueError(f"the skills before it have {_MAX_TEXTS >> 20} MiB of text")

    async def read_one(skill: JSONObject) -> None:
        nonlocal length
        uri = skill["uri"]
        try:
            async with limiter:
                require_room()
                result = await fetch("resources/read", {"uri": uri}, RequestTimeout(seconds))
            read[uri] = with_text(skill, result)
            length += len(read[uri][TEXT])
        except (RpcError, TimeoutError, ValueError) as error:
            dropped.append(DroppedTool(uri[:_NAME_SHOWN], str(error)[:_MESSAGE_LENGTH]))

    async with anyio.create_task_group() as tasks:
        for skill in skills:
            tasks.start_soon(read_one, skill)
    return tuple(read[skill["uri"]] for skill in skills if skill["uri"] in read), tuple(dropped)


def _failed(kind: OfferingKind, reason: str) -> ListedOfferings:
    logger.debug("%s failed: %s", kind.wire.method, reason)
    return ListedOfferings(failure=reason)


def fault_of_offering(
    kind: OfferingKind, definition: JSONValue, *, tools: Collection[str] = ()
) -> str | None:
    """Return why the definition of an offering cannot be used; None if it can."""
    if not isinstance(definition, dict):
        return "it is not an object"
    member = kind.wire.identifier
    if not isinstance(definition.get(member), str) or not definition[member].strip():
        return f"its {member} is not a non-empty string"
    if (key := decision_key(kind, definition[member])) in tools:
        return f"a tool is called {key!r}"
    fault = _fault_of_identifier(kind, definition) or fault_of_size(definition)
    return fault or (fault_of_skill(definition) if kind is OfferingKind.SKILL else None)


def _fault_of_identifier(kind: OfferingKind, definition: JSONObject) -> str | None:
    member = kind.wire.identifier
    identifier, is_prompt = definition[member], kind is OfferingKind.PROMPT
    limit = PROMPT_NAME_LENGTH if is_prompt else URI_LENGTH
    if len(identifier) > limit:
        return f"its {member} is longer than {limit} characters"
    if not (is_prompt or identifier.startswith("{") or _SCHEME.match(identifier)):
        return f"its {member} has no scheme"
    return None


async def read_listing(
    pages: Pages,
    capabilities: JSONObject,
    fetch: FetchList,
    *,
    seconds: float,
    find_fault: FindFault,
) -> Listing:
    """Return the usable tools of `pages`, with the server's other offerings.

    Args:
        pages: The pages of `tools/list`.
        capabilities: The capabilities of the server.
        fetch: Requests a page of resources, templates or prompts.
        seconds: The time limit for each of these kinds; at most 10 are used.
        find_fault: Returns why this connection cannot use a tool; None if it can.
    """
    tools, dropped = await split_usable(pages.definitions, find_fault=find_fault)
    offerings = await list_offerings(
        fetch,
        capabilities,
        tools={tool["name"] for tool in tools},
        seconds=min(seconds, _OFFERINGS),
    )
    return Listing(
        tools,
        dropped,
        ttl=pages.ttl,
        cut=pages.cut,
        offerings=_with_apps(offerings, tools),
        extensions=unserved_extensions(capabilities),
    )


def _with_apps(
    offerings: Mapping[OfferingKind, ListedOfferings], tools: Iterable[JSONObject]
) -> Mapping[OfferingKind, ListedOfferings]:
    """Add the pages of apps that tools name and the list of resources lacks."""
    resources = offerings.get(OfferingKind.RESOURCE)
    if resources is None:
        return offerings
    listed = {resource["uri"] for resource in resources.definitions}
    apps = dict.fromkeys(filter(None, map(app_of, tools)))
    pages: list[JSONObject] = [
        {"uri": uri, "name": uri, "mimeType": APP_MIME_TYPE}
        for uri in apps
        if uri not in listed and len(uri) <= URI_LENGTH
    ]
    if not pages:
        return offerings
    more = replace(resources, definitions=(*resources.definitions, *pages))
    return {**offerings, OfferingKind.RESOURCE: more}


def unserved_extensions(capabilities: JSONObject) -> tuple[str, ...]:
    """Return the extensions that a server declares and the gateway does not pass on."""
    declared = capabilities.get("extensions")
    names = declared if isinstance(declared, dict) else {}
    return tuple(sorted(name[:_NAME_SHOWN] for name in names if name not in EXTENSIONS))
