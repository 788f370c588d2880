"""The calls in flight on one session: to which of them the server's requests belong.

Over HTTP a request arrives in the stream that answers a call. Through a pipe, and in the stream of
no call, nothing shows to which call it belongs; it is answered if all calls in flight come from
one client.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar, Token
from functools import partial

import anyio
from cachetools import TTLCache

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.rpc.client import ELICIT, LIST_ROOTS, QUESTIONS, Client
from discovery_engine.rpc.messages import Notification, RpcError
from discovery_engine.rpc.protocol import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import Call, QuestionsOf, refuse_ambiguous
from discovery_engine.upstream.notifications import LOG_LEVELS
from discovery_engine.upstream.question import Question
from discovery_engine.upstream.transport import RequestAnswer

_MOST_OPEN = 16  # questions of one session that wait for their answers
_MAX_METHOD_NAME_LENGTH = 200  # characters of a method that is named
_MESSAGE = "notifications/message"
_COMPLETE = "notifications/elicitation/complete"
_TO_CLIENTS = (_MESSAGE, _COMPLETE)
_NEVER = object()

# Over HTTP each answer is read in the context of its request, in which we are called, too.
_CURRENT: ContextVar[Call | None] = ContextVar("call", default=None)


class _OpenQuestion:
    """A question that waits for its answer, until all calls that may have caused it have ended."""

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls
        self.scope = anyio.CancelScope()

    def end(self, call: Call) -> None:
        if call in self.calls:
            self.calls.remove(call)
            if not self.calls:
                self.scope.cancel()


class CallsInFlight:
    def __init__(
        self, server: ServerName, settings_of: QuestionsOf, scheduler: FairScheduler
    ) -> None:
        self._server = server
        self._scheduler = scheduler
        self._settings_of = settings_of
        self._calls: list[Call] = []
        self._clients = SessionClients()
        self._elicited = OpenedAddresses(anyio.current_time)
        self._outside: Call | None = None
        """A stand-in for a call of the client whose roots have changed, to ask it between calls."""
        self._given_roots: object = _NEVER
        """The owner's roots when the server was given any; None for a client's."""
        self._open: set[_OpenQuestion] = set()

    def begin(self, call: Call) -> Token[Call | None]:
        """Note that a call is in flight, until `end`, which takes the token."""
        self._calls.append(call)
        self._clients.add(call.client)
        return _CURRENT.set(call)

    def end(self, call: Call, token: Token[Call | None]) -> None:
        """End a call, and the questions that it caused."""
        _CURRENT.reset(token)
        self._calls.remove(call)
        for question in tuple(self._open):
            question.end(call)

    @property
    def is_empty(self) -> bool:
        return not self._calls

    def answer(self, method: str, params: JSONObject) -> RequestAnswer:
        """The answer to a request of the server, at once or as work to be done."""
        if method == "ping":
            return {}
        if method not in QUESTIONS:
            return RpcError(
                METHOD_NOT_FOUND, f"{method[:_MAX_METHOD_NAME_LENGTH]} is not supported"
            )
        if method == LIST_ROOTS:
            settings = self._settings_of(self._server)
            self._given_roots = settings.roots
            if roots := settings.root_list:
                return roots
        causes = self._possible_causes(method)
        if not causes:
            return _outside(method)
        return partial(self._ask, Question(method, params), causes)

    def expect_roots_of(self, client: Client) -> bool:
        """Ask a client for its roots outside of calls, if it is the only one of this session.

        Returns whether it has called the server, which is given the roots of clients.
        """
        is_known = self._clients.includes(client)
        if not is_known or self._settings_of(self._server).roots is not None:
            return False
        is_only_one = self._clients.are_one
        outside = Call(self._server, client, self._settings_of, self._scheduler)
        self._outside = outside if is_only_one else None
        return True

    @property
    def gave_other_roots(self) -> bool:
        """True if the owner has changed the roots since the server was given any."""
        roots = self._settings_of(self._server).roots
        return self._given_roots is not _NEVER and self._given_roots != roots

    def notify(self, notification: Notification) -> None:
        """Pass a notification on to the client whose call caused it; dropped if it is unknown."""
        params = notification.params
        if notification.method not in _TO_CLIENTS or params is None:
            return
        if notification.method == _COMPLETE:
            params = {"elicitationId": params.get("elicitationId")}
            if not isinstance(params["elicitationId"], str):
                return
            if client := self._elicited.take(params):
                client.notify(notification.method, params)
                return
        causes = self._possible_causes()
        if not causes or not _are_of_one_client(causes):
            return
        newest = causes[-1]
        if notification.method == _COMPLETE:
            newest.client.notify(notification.method, params)
        elif _is_wanted(params.get("level"), newest.client.log_level):
            newest.log(params)

    async def _ask(self, question: Question, causes: list[Call]) -> JSONObject:
        # A call that was answered just before the question came has ended by now.
        causes = [call for call in causes if call in self._calls or call is self._outside]
        causes = causes or self._outside_of_calls(question.method)
        if not causes:
            raise _outside(question.method)
        if not _are_of_one_client(causes):
            raise refuse_ambiguous(question, causes)
        if len(self._open) >= _MOST_OPEN:
            raise RpcError(INTERNAL_ERROR, f"{_MOST_OPEN} questions wait for their answers")
        # The newest call is asked; all that may have caused the question wait for its answer.
        newest = causes[-1]
        self._elicited.add(question, newest.client)
        waiting = _OpenQuestion(causes)
        self._open.add(waiting)
        try:
            with ExitStack() as pauses, waiting.scope:
                for call in causes:
                    pauses.enter_context(call.clock.paused())
                return await newest.ask(question)
        finally:
            self._open.discard(waiting)
        # Which calls were in flight was a guess where a client is also asked outside of calls.
        if outside := self._outside_of_calls(question.method):
            return await outside[0].ask(question)
        raise RpcError(INVALID_REQUEST, "the call that caused it has ended")

    def _possible_causes(self, method: str = "") -> list[Call]:
        current = _CURRENT.get()
        if current and current in self._calls:
            return [current]
        return list(self._calls) or self._outside_of_calls(method)

    def _outside_of_calls(self, method: str) -> list[Call]:
        """Return the stand-in of a client that is asked although no call of it is in flight."""
        is_asked = method == LIST_ROOTS and self._clients.are_one
        return [self._outside] if self._outside and is_asked else []


def _are_of_one_client(calls: list[Call]) -> bool:
    return all(call.client.origin == calls[0].client.origin for call in calls)


def _outside(method: str) -> RpcError:
    return RpcError(METHOD_NOT_FOUND, f"{method} is not supported outside of a call")


def is_more_verbose(level: str, *, than: str) -> bool:
    return LOG_LEVELS.index(level) < LOG_LEVELS.index(than)


def _is_wanted(level: JSONValue, least: str | None) -> bool:
    """Return whether a client that wants messages from level `least` up wants this one."""
    if least not in LOG_LEVELS:
        return False
    return level not in LOG_LEVELS or not is_more_verbose(level, than=least)


# The clients that have made calls in a session.

_MAX_CALL_ORIGINS = 64  # clients; of more, those that called last are known


class SessionClients:
    def __init__(self) -> None:
        self._origins: OrderedDict[object, None] = OrderedDict()
        self.are_one = True
        """True if at most one client has ever called."""

    def add(self, client: Client) -> None:
        origin = client.origin
        if origin in self._origins:
            self._origins.move_to_end(origin)
            return
        self.are_one = not self._origins
        self._origins[origin] = None
        if len(self._origins) > _MAX_CALL_ORIGINS:
            self._origins.popitem(last=False)

    def includes(self, client: Client) -> bool:
        return client.origin in self._origins


# The addresses that users were asked to open: who is notified when one is done with.
#
# A server reports that by `notifications/elicitation/complete`, mostly after the call that asked.

_MAX_OPENED_ADDRESSES = 64  # addresses of one session; the oldest are forgotten
_CLIENT_CACHE_TTL = 3600.0  # seconds
_MAX_ELICITATION_ID_LENGTH = 256  # characters of an id


class OpenedAddresses:
    """The opened addresses of one session, each kept for an hour or until it is reported."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clients: TTLCache[str, Client] = TTLCache(
            _MAX_OPENED_ADDRESSES, _CLIENT_CACHE_TTL, timer=clock
        )

    def add(self, question: Question, client: Client) -> None:
        """No-op if it is no question of this kind, or has no id."""
        if question.method != ELICIT or question.mode != "url":
            return
        identifier = question.params.get("elicitationId")
        if isinstance(identifier, str) and len(identifier) <= _MAX_ELICITATION_ID_LENGTH:
            self._clients[identifier] = client

    def take(self, params: JSONObject) -> Client | None:
        """The client that was asked to open an address, once; None if it is not known."""
        identifier = params.get("elicitationId")
        return self._clients.pop(identifier, None) if isinstance(identifier, str) else None
