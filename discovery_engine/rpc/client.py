"""The client whose request is served: it can be asked, and it is notified of what its call causes.

A server may ask its user something in the middle of a call (`elicitation/create`,
`sampling/createMessage`, `roots/list`). The question goes to the `Client` that made the call:

    client = CallbackClient(ask, capabilities={"elicitation": {"form": {}}})
    await engine.execute("github", "create_issue", arguments, caller=client)

Functions below say which of its capabilities a server is declared, and which members of `_meta`
pass: to a server from a client's request, and the other way.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Protocol, TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.json_codec import encode
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import APPS_EXTENSION, METHOD_NOT_FOUND

logger = logging.getLogger(__name__)

_HOPS = ("io.modelcontextprotocol/", "discovery/")
"""Prefixes of keys that two neighbours agree on: what they say of us is not said of the client."""
_TRACE = frozenset({"traceparent", "tracestate", "baggage"})
_SIZE = 16 * 1024  # bytes of all members; a trace and the ids of a host take a few hundred

NOTHING: JSONObject = MappingProxyType({})  # type: ignore[assignment]  # never changed


ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
LIST_ROOTS = "roots/list"
QUESTIONS = frozenset((ELICIT, SAMPLE, LIST_ROOTS))
"""The methods of the questions that a server may ask a client."""

_OPTIONS = {
    "elicitation": ("form", "url"),
    "sampling": ("tools", "context"),
    "roots": ("listChanged",),
    "extensions": (APPS_EXTENSION,),
}
"""The parts of each of these capabilities that servers are declared.

Of extensions only those that need nothing but tools and resources: what another one means with its
methods would not reach its client.
"""
_IN_PARTS = ("elicitation", "extensions")
"""Capabilities that a client has only with one of these parts."""
_LIST_CHANGED = "listChanged"
CAPABILITIES = ("elicitation", "sampling", "roots")
"""The capabilities that a server needs to ask its client something."""

Ask: TypeAlias = Callable[[str, JSONObject], Awaitable[JSONObject]]
"""A function that asks a client a question; see `Client.ask`."""
Notify: TypeAlias = Callable[[str, JSONObject], None]
"""A function that passes a notification on to a client; see `Client.notify`."""


class Client(Protocol):
    """The client that made a call."""

    @property
    def id(self) -> str | None:
        """The key of its own sessions and handles; None if there is only one client."""

    @property
    def name(self) -> str:
        """The name that it gave itself, for the log: untrusted text, which may be empty."""

    @property
    def origin(self) -> object:
        """Equal for all calls that certainly come from one client, and only for those; hashable.

        A program at the other end of a pipe does not show which call caused its question. It is
        passed on if all calls in flight have the same origin.
        """

    @property
    def capabilities(self) -> Mapping[str, JSONObject]:
        """The declared ones (`elicitation`, `sampling`, `roots`); empty if it cannot be asked."""

    @property
    def log_level(self) -> str | None:
        """The least severe level of log messages that it wants; None for no messages."""

    @property
    def takes_input_required(self) -> bool:
        """True if it is given `input_required` results raw, and continues the call itself."""

    @property
    def takes_tasks(self) -> bool:
        """True if it is given the handle of a task, and requests the result itself."""

    @property
    def meta(self) -> JSONObject:
        """Members for the `_meta` of the request to the server, as the client wrote them.

        For example the keys of a trace (`traceparent`); what the protocol itself needs is added.
        """

    async def ask(self, method: str, params: JSONObject) -> JSONObject:
        """Its result for a request of a server.

        It is cancelled when the answer is not waited for any more: the call has ended, the server
        has withdrawn the question, or `server.questionTimeout` is over.

        Args:
            method: One of `QUESTIONS`.
            params: As the server sent them, with `ASKING_SERVER` and `FINDINGS` in their `_meta`.
                Their texts are the server's: show them as such, with the server's name in front.

        Raises:
            RpcError: If it cannot be asked, or answers with an error.
            RequestTimeoutError: If it does not answer in time.
        """

    def notify(self, method: str, params: JSONObject) -> None:
        """Pass on a notification that its call caused; dropped if it does not want it.

        `notifications/elicitation/complete` may come when the call has ended.
        """


class Continuation(Struct, frozen=True):
    """The answers of a client to an `input_required` result, with which its call is sent again."""

    responses: JSONObject
    """The result of each question, by its key in `inputRequests`."""
    request_state: str | None = None
    """The server's own `requestState`, unchanged; None if it gave none."""

    @property
    def params(self) -> JSONObject:
        """The members that are added to the params of the call."""
        params: JSONObject = {"inputResponses": self.responses}
        if self.request_state is None:
            return params
        return params | {"requestState": self.request_state}


class CallbackClient:
    """A client of which only the id is known, or one that is asked through a callback."""

    name = ""
    takes_input_required = False
    takes_tasks = False

    def __init__(
        self,
        ask: Ask | None = None,
        *,
        id: str | None = None,  # noqa: A002 - as `Client.id`
        capabilities: Mapping[str, JSONObject] = MappingProxyType({}),
        notify: Notify | None = None,
        log_level: str | None = None,
        meta: JSONObject = NOTHING,
    ) -> None:
        """A client that answers by `ask`.

        Args:
            ask: Awaited for each question; without it the client cannot be asked.
            id: As `Client.id`.
            capabilities: What `ask` can answer, for instance `{"elicitation": {"form": {}}}`.
            notify: Called with the notifications of its calls; must not block.
            log_level: As `Client.log_level`.
            meta: As `Client.meta`.
        """
        self.id = id
        self.capabilities = capabilities if ask else {}
        self.log_level = log_level
        self.meta = passed_meta(meta)
        self._ask = ask
        self._notify = notify

    @property
    def origin(self) -> object:
        return self if self.id is None else self.id

    async def ask(self, method: str, params: JSONObject) -> JSONObject:
        """Ask the client a question; see `Client.ask`."""
        if self._ask is None:
            raise RpcError(METHOD_NOT_FOUND, f"{method} is not supported")
        return await self._ask(method, params)

    def notify(self, method: str, params: JSONObject) -> None:
        """Pass a notification on to the client; see `Client.notify`."""
        if self._notify is not None:
            self._notify(method, params)


class AskedClient:
    """A client that gets the final result of a call, and is asked each question before it."""

    takes_input_required = False
    takes_tasks = False

    def __init__(self, client: Client) -> None:
        self.id = client.id
        self.name = client.name
        self.origin = client.origin
        self.capabilities = client.capabilities
        self.log_level = client.log_level
        self.meta = client.meta
        self.ask = client.ask
        self.notify = client.notify


def declarable(capabilities: Mapping[str, JSONObject]) -> dict[str, JSONObject]:
    """Return the capabilities of a client that a server can use through us."""
    usable: dict[str, JSONObject] = {}
    if not capabilities:
        return usable
    for name, options in _OPTIONS.items():
        if isinstance(declared := capabilities.get(name), dict):
            parts = {
                option: declared[option]
                for option in options
                if _is_part(option, declared.get(option))
            }
            # An empty `elicitation` means forms, which a client of other modes has not.
            if parts or name not in _IN_PARTS or (name == "elicitation" and not declared):
                usable[name] = parts
    return usable


def _is_part(name: str, value: JSONValue) -> bool:
    return value is True if name == _LIST_CHANGED else isinstance(value, dict)


def of_questions(capabilities: Mapping[str, JSONObject]) -> dict[str, JSONObject]:
    """Return the capabilities for questions, without the notifications that go with them."""
    return {
        name: {member: part for member, part in parts.items() if member != _LIST_CHANGED}
        for name, parts in capabilities.items()
    }


def merged(
    some: Mapping[str, JSONObject], others: Mapping[str, JSONObject]
) -> dict[str, JSONObject]:
    """The capabilities of both."""
    both = dict(some)
    if not others:
        return both
    for name, value in others.items():
        mine = both.setdefault(name, value)
        theirs = explicit(name, value)
        if more := theirs.keys() - explicit(name, mine).keys():
            both[name] = explicit(name, mine) | {
                member: theirs[member] for member in theirs if member in more
            }
    return both


def covers(declared: Mapping[str, JSONObject], needed: Mapping[str, JSONObject]) -> bool:
    """Return whether the declared capabilities for questions include all that are needed."""
    mine = of_questions(declared)
    return merged(mine, of_questions(needed)) == mine


def explicit(name: str, value: JSONObject) -> JSONObject:
    """A capability with its default: an elicitation without modes means forms."""
    return value or ({"form": {}} if name == "elicitation" else {})


def passed_meta(meta: JSONValue) -> JSONObject:
    """The members that pass, unchanged; beyond 16 KiB they are dropped, those of a trace last.

    The token of progress and the keys of the protocol are ours towards the server.
    """
    if not isinstance(meta, dict):
        return NOTHING
    passed = {key: value for key, value in meta.items() if _passes(key)}
    return _bounded(passed) if passed else NOTHING


def server_meta(meta: JSONValue) -> JSONObject:
    """The members that a server may say something with; the same object if that are all.

    The gateway's own fields, and what the protocol says of a connection, are ours to say.
    """
    if not isinstance(meta, dict):
        return {}
    passed = {key: value for key, value in meta.items() if _passes(key)}
    return meta if len(passed) == len(meta) else passed


def _passes(key: str) -> bool:
    return key != "progressToken" and not key.startswith(_HOPS)


def _bounded(members: JSONObject) -> JSONObject:
    if len(encode(members)) <= _SIZE:
        return members
    selection, left = {}, _SIZE
    for key in sorted(members, key=lambda key: key not in _TRACE):
        size = len(encode({key: members[key]}))
        if size <= left:
            selection[key] = members[key]
            left -= size
    logger.debug(
        "%d members of a client's _meta are too large to pass", len(members) - len(selection)
    )
    return {key: value for key, value in members.items() if key in selection}
