"""Resources, templates, prompts and completion for clients: the gateway's own, and all servers'.

The gateway's own documents come first in each list. Definitions of servers are shown as they are,
with cleaned texts, and named by their addresses; results pass unchanged.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from typing import TYPE_CHECKING, Protocol, TypeAlias

from discovery_engine._util.text import clean
from discovery_engine.agent import resources
from discovery_engine.errors import (
    DiscoveryError,
    NotFoundError,
    UpstreamError,
    UpstreamProtocolError,
)
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    RESOURCE_NOT_FOUND,
)
from discovery_engine.tools.limits import shortened
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.view.offering_addresses import is_own_uri, skill_address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.agent.meta_arguments import OnProgress
    from discovery_engine.catalog import OfferingEntry
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.tools.offering import Offering
    from discovery_engine.view.view import View

_PAGE = 250  # definitions
_PAGE_SIZE = 1 << 20  # characters of definitions
_START = 30.0  # seconds that a request waits for a start; hosts time out after 60
_MAX_ERROR_ADDRESS_LENGTH = 256  # characters of an address in an error

LISTS = {kind.wire.method: kind for kind in OfferingKind}
_OWN: dict[OfferingKind, list[JSONObject]] = {
    OfferingKind.RESOURCE: [
        {"name": title, "uri": uri, "mimeType": "text/markdown"}
        for uri, (title, _) in resources.DOCUMENTS.items()
    ],
    OfferingKind.TEMPLATE: [
        {"name": title, "uriTemplate": uri, "mimeType": "application/json"}
        for uri, title in resources.TEMPLATES.items()
    ],
    OfferingKind.PROMPT: [
        {
            "name": resources.PROMPT,
            "title": "How to use the tools behind this gateway",
            "description": "How to find, inspect and call the tools of all configured MCP servers",
        }
    ],
    OfferingKind.SKILL: [],
}
_EMPTY_COMPLETION: JSONObject = {"completion": {"values": [], "total": 0, "hasMore": False}}

_Position: TypeAlias = tuple[str, str]
"""A server and an identifier: a place in a list that stays when the list changes."""


class CheckedRequest(Protocol):
    """A request of a client, as the gateway has it."""

    @property
    def method(self) -> str: ...
    @property
    def params(self) -> JSONObject: ...
    @property
    def version(self) -> str: ...
    @property
    def client(self) -> Client | None: ...
    @property
    def continuation(self) -> Continuation | None: ...


class Offerings:
    def __init__(self, engine: ScopedEngine) -> None:
        self._engine = engine

    def answer(self, request: CheckedRequest, instructions: Callable[[], str]) -> JSONObject | None:
        """The result of a request that needs no waiting; None if `serve` gives it.

        `instructions` returns those for its client.

        Raises:
            RpcError: If it is answered with an error.
        """
        method, params = request.method, request.params
        if method in LISTS:
            return self._list(request) if self._engine.has_listings else None
        if method == "prompts/get" and params["name"] == resources.PROMPT:
            text = f"{resources.USAGE_GUIDE}\n{instructions()}"
            return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        if method == "resources/read" and is_own_uri(params["uri"]):
            return _own_document(self._engine.view, params["uri"], request.version)
        return None

    async def serve(self, request: CheckedRequest, on_progress: OnProgress | None) -> JSONObject:
        """The result of a request that has to wait.

        Raises:
            RpcError: If it is answered with an error.
        """
        await self._engine.wait_first_listed(None)
        if request.method in LISTS:
            return self._list(request)
        if request.method == "skills/get":
            return self._skill(request.params["uri"])
        try:
            result = await self._request(request, on_progress)
        except UpstreamProtocolError as error:
            if request.method == "completion/complete" and error.rpc_code == METHOD_NOT_FOUND:
                return _EMPTY_COMPLETION  # the server completes nothing
            raise _as_rpc_error(error, request) from error
        except DiscoveryError as error:
            raise _as_rpc_error(error, request) from error
        takes_questions = request.client is not None and request.client.takes_input_required
        if result.get("resultType") == "input_required" and not takes_questions:
            text = "TOOL_NEEDS_INPUT: the server requires input, and this client cannot be asked"
            raise RpcError(INTERNAL_ERROR, text)
        return result

    async def _request(self, request: CheckedRequest, on_progress: OnProgress | None) -> JSONObject:
        params = request.params
        match request.method:
            case "resources/read":
                return await self._engine.offerings.read_resource(
                    params["uri"],
                    caller=request.client,
                    continuation=request.continuation,
                    on_progress=on_progress,
                    max_wait=_START,
                    by="agent",
                )
            case "prompts/get":
                return await self._engine.offerings.get_prompt(
                    params["name"],
                    params.get("arguments"),
                    caller=request.client,
                    continuation=request.continuation,
                    on_progress=on_progress,
                    max_wait=_START,
                    by="agent",
                )
        return await self._complete(request)

    async def _complete(self, request: CheckedRequest) -> JSONObject:
        params = {key: value for key, value in request.params.items() if key != "_meta"}
        reference = params["ref"]
        address = reference["name" if reference["type"] == "ref/prompt" else "uri"]
        if address == resources.PROMPT or is_own_uri(address):
            return _EMPTY_COMPLETION
        return await self._engine.offerings.complete(params, caller=request.client)

    def _skill(self, uri: str) -> JSONObject:
        book = self._engine.view.offerings
        if entry := book.skill(None, uri):
            return {"skill": _shown(entry, book.address(entry.offering))}
        about = {"uri": shortened(uri, _MAX_ERROR_ADDRESS_LENGTH)}
        raise RpcError(
            INVALID_PARAMS, "no skill has this URI: `skills/list` has those of all", about
        )

    def _list(self, request: CheckedRequest) -> JSONObject:
        kind = LISTS[request.method]
        cursor = request.params.get("cursor")
        book = self._engine.view.offerings
        entries = book.visible(kind)
        start = 0 if cursor is None else bisect_right(entries, _position(cursor), key=_place)
        page = _first_page(entries[start : start + _PAGE])
        own = _OWN[kind] if cursor is None else []
        forms = [_shown(entry, book.address(entry.offering)) for entry in page]
        result: JSONObject = {kind.wire.member: [*own, *forms]}
        if start + len(page) < len(entries):
            result["nextCursor"] = _cursor(_place(page[-1]))
        return result


def _own_document(view: View, uri: str, version: str) -> JSONObject:
    try:
        mime_type, text = resources.read_resource(view, uri)
    except DiscoveryError as error:
        raise _error(error, {"uri": shortened(uri, _MAX_ERROR_ADDRESS_LENGTH)}, version) from error
    return {"contents": [{"uri": uri, "mimeType": mime_type, "text": text}]}


def _first_page(entries: Sequence[OfferingEntry]) -> Sequence[OfferingEntry]:
    """Return as many entries as a page may have; each is far smaller than a page."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.offering.source)
        if size > _PAGE_SIZE:
            return entries[:count]
    return entries


def _shown(entry: OfferingEntry, address: str) -> JSONObject:
    offering = entry.offering
    if offering.kind is OfferingKind.SKILL:
        return _shown_skill(offering, address)
    form = {key: _cleaned(key, value) for key, value in offering.definition.items()}
    return form | {offering.kind.wire.identifier: address}


def _shown_skill(skill: Offering, address: str) -> JSONObject:
    """Return a skill with the addresses of its files; the frontmatter is as `SKILL.md` has it."""
    files = [
        {
            "uri": skill_address(skill.server, file["uri"]),
            "digest": file["digest"],
            "size": file["size"],
        }
        for file in skill.definition["resources"]
    ]
    return {"uri": address, "frontmatter": skill.definition["frontmatter"], "resources": files}


def _cleaned(key: str, value: JSONValue) -> JSONValue:
    """Return a member of a definition with the texts that a reader sees cleaned."""
    if isinstance(value, str) and key in ("name", "title", "description"):
        return clean(value)
    if key == "arguments" and isinstance(value, list):
        return [_cleaned_argument(argument) for argument in value]
    return value


def _cleaned_argument(argument: JSONValue) -> JSONValue:
    if not isinstance(argument, dict):
        return argument  # not valid: the form that is sent leaves it out
    return {
        key: clean(value) if key in ("title", "description") and isinstance(value, str) else value
        for key, value in argument.items()
    }


def _place(entry: OfferingEntry) -> _Position:
    return entry.offering.server, entry.offering.identifier


def _cursor(position: _Position) -> str:
    return urlsafe_b64encode(json.dumps(position).encode()).decode()


def _position(cursor: str) -> _Position:
    try:
        match json.loads(urlsafe_b64decode(cursor.encode("ascii"))):
            case [str() as server, str() as identifier]:
                return server, identifier
    except (ValueError, RecursionError):
        pass
    raise RpcError(INVALID_PARAMS, "Invalid cursor: give the `nextCursor` of the page before")


def _as_rpc_error(error: DiscoveryError, request: CheckedRequest) -> RpcError:
    about = {"uri": request.params["uri"]} if "uri" in request.params else {}
    data = {key: shortened(value, _MAX_ERROR_ADDRESS_LENGTH) for key, value in about.items()}
    return _error(error, data, request.version)


def _error(error: DiscoveryError, data: JSONObject, version: str) -> RpcError:
    message = f"{error.code}: {error.message}"
    text = f"{message}; {error.hint}" if error.hint else message
    if isinstance(error, UpstreamProtocolError):
        code = error.rpc_code
    elif isinstance(error, UpstreamError):
        code = INTERNAL_ERROR
    else:
        is_missing = isinstance(error, NotFoundError) and "uri" in data
        code = RESOURCE_NOT_FOUND if is_missing else INVALID_PARAMS
    if code == RESOURCE_NOT_FOUND and version in MODERN_VERSIONS:
        code = INVALID_PARAMS
    return RpcError(code, text, data or None)
