"""Requests about work that is within another gateway: passed to it through the database.

    result = await relay.ask(elsewhere, {"method": "tasks/get", ...}, client)      where it came
    await relay.run(serve)                                                         everywhere

A call that is parked and a task are within one process (`PostgresGateways.instance`). Any other
gateway leaves a request for that one, encrypted with the key that all have, and returns its answer
as its own. A request is taken at most once, and never repeated. The messages that precede the
answer are requests the other way, one at a time, so that they come in order.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from msgspec import Struct, field

from discovery_engine._util.tasks import Promise, open_task_group
from discovery_engine.errors import RegistryError
from discovery_engine.rpc.json_codec import decode_standard, encode_finite
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import INTERNAL_ERROR
from discovery_engine.store.gateway_records import LEASE, STATE_KEY, RelayedRequest, RelayTurn
from discovery_server.request_state import InvalidStateError, OtherGatewayError

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from discovery_engine._util.json import JSONObject
    from discovery_engine.store.gateway_records import RelayNews
    from discovery_engine.store.postgres_gateways import PostgresGateways
    from discovery_server.request_state import StateSealer

logger = logging.getLogger(__name__)

T = TypeVar("T")

PassMessages: TypeAlias = Callable[["list[JSONObject]"], Awaitable[None]]
"""Passes messages to a client, before the answer to its request; waits while it does not read."""
Serve: TypeAlias = Callable[["JSONObject", PassMessages], Awaitable["JSONObject"]]
"""Answers a request of another gateway, with `result` or `error`, as JSON-RPC has them.

What it raises as an RpcError is such an error, too.
"""

_LOOK_EVERY = 1.0  # seconds, where notifications do not arrive and something is waited for
_LAST_TURN = 2.0  # seconds for it when a gateway ends
_ID = 16  # random bytes
_REFUSED = b""
"""In place of an answer: the request was not sealed with the key of its receiver."""


async def _drop(_: list[JSONObject]) -> None:
    """Passes nothing on."""


class RelayLimits(Struct, frozen=True):
    """The limits of one gateway, on its requests to others and on what it does for them."""

    requests: int = 128
    """Requests of its own clients, and as many of other gateways'."""
    requests_of_client: int = 32
    request_bytes: int = (4 << 20) + (64 << 10)
    """Bytes of one request: the most that a client may send over HTTP, and its sender."""
    waiting_bytes: int = 32 << 20
    """Bytes of all its requests that wait."""
    answer_bytes: int = 8 << 20
    written_bytes: int = 16 << 20
    """Bytes of the requests, and of the answers, that one turn writes: it must end in time."""


class _Waiting(Struct, eq=False):
    """A request to another gateway."""

    elsewhere: OtherGatewayError
    client: str | None = None
    size: int = 0
    pass_messages: PassMessages | None = None
    """None for messages, which are bounded by the requests that they belong to."""
    answer: Promise[bytes] = field(default_factory=Promise[bytes])


class _Serving(Struct, eq=False):
    """A request of another gateway."""

    request: RelayedRequest
    scope: anyio.CancelScope


class Relay:
    """The relay of one process; `run` must run while it is used.

    Args:
        store: The database.
        sealer: Has the key that gateways share, without which nothing is passed on.
        limits: Requests beyond them are refused.
    """

    def __init__(
        self,
        store: PostgresGateways,
        sealer: StateSealer,
        *,
        limits: RelayLimits | None = None,
    ) -> None:
        self.instance = store.instance
        """This process, as others name it."""
        self._store = store
        self._sealer = sealer
        self._limits = limits or RelayLimits()
        self._waiting: dict[bytes, _Waiting] = {}
        self._unsent: dict[bytes, RelayedRequest] = {}
        """The waiting requests that no turn has left in the database yet."""
        self._over: set[bytes] = set()
        """Own requests that are to be deleted."""
        self._serving: dict[bytes, _Serving] = {}
        self._served: list[str | None] = []
        """The clients of these, each as often as it is served."""
        self._answers: dict[bytes, bytes] = {}
        """To requests of others, until they are written."""
        self._woken = anyio.Event()
        self._expected_until = 0.0
        self._turn_at = 0.0
        """When the database took the last turn."""

    def expect(self, seconds: float) -> None:
        """Others may have requests about work of this process from now on, for so long."""
        self._expected_until = max(self._expected_until, time.monotonic() + seconds)
        self._wake()

    async def ask(
        self,
        elsewhere: OtherGatewayError,
        request: JSONObject,
        client: str | None,
        pass_messages: PassMessages = _drop,
    ) -> JSONObject:
        """The result of a request at the gateway whose work it is about.

        Who is cancelled cancels it there. `pass_messages` gets the messages that precede it.

        Raises:
            OtherGatewayError: If that gateway provably did not take it.
            RpcError: If it is answered with an error, or if it is unknown what became of it.
        """
        await self._sealer.prepare()
        if not self._sealer.is_shared:
            raise elsewhere
        content = encode_finite(request)
        self._require_room(client, len(content))
        return await self._asked(_Waiting(elsewhere, client, len(content), pass_messages), content)

    async def _asked(self, waiting: _Waiting, content: bytes) -> JSONObject:
        id_ = os.urandom(_ID)
        self._waiting[id_] = waiting
        try:
            answer = await self._answered(id_, waiting, content)
        finally:
            del self._waiting[id_]
            self._unsent.pop(id_, None)
            self._over.add(id_)
            self._wake()
        if (error := answer.get("error")) is not None:
            raise RpcError(error["code"], error["message"], error.get("data"))
        result: JSONObject = answer["result"]
        return result

    @contextmanager
    def share(self, client: str | None) -> Iterator[None]:
        """One of the requests of others that are served for a client, as this gateway knows it.

        Raises:
            RpcError: If it has its share already, whichever gateways it has asked.
        """
        of_client = self._served.count(client)
        if of_client >= self._limits.requests_of_client:
            text = (
                f"too many requests of other gateways wait at this one ({of_client} of this"
                " client), and nothing was begun: send the same request again when one of them is"
                " answered"
            )
            raise _failed(text)
        self._served.append(client)
        try:
            yield
        finally:
            self._served.remove(client)

    async def run(self, serve: Serve) -> NoReturn:
        """Pass requests and answers on, and let `serve` answer those of others, until cancelled."""
        try:
            async with open_task_group() as tasks:
                tasks.start_soon(self._follow)
                while True:
                    self._woken = anyio.Event()
                    try:
                        await self._take_turn(tasks, serve)
                    except Exception:  # the next one may succeed
                        logger.exception("Nothing was passed on between gateways")
                    with anyio.move_on_after(self._pause()):
                        await self._woken.wait()
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_LAST_TURN):
                await self._end()

    # The gateway that was asked.

    def _require_room(self, client: str | None, size: int) -> None:
        limits = self._limits
        waiting = [request for request in self._waiting.values() if request.pass_messages]
        if size > limits.request_bytes:
            text = (
                f"the request has {size:,} bytes, and at most {limits.request_bytes:,} are passed"
                " to another gateway: send less, or send it to that one"
            )
            raise _failed(text)
        of_client = sum(request.client == client for request in waiting)
        if (
            of_client >= limits.requests_of_client
            or len(waiting) >= limits.requests
            or sum(request.size for request in waiting) + size > limits.waiting_bytes
        ):
            text = (
                f"too many requests wait for other gateways ({of_client} of this client): send the"
                " same request again when one of them is answered"
            )
            raise _failed(text)

    async def _answered(self, id_: bytes, waiting: _Waiting, content: bytes) -> JSONObject:
        elsewhere = waiting.elsewhere
        about = _about("request", id_, self.instance, elsewhere.process)
        sealed = self._sealer.encrypt(content, about)
        self._unsent[id_] = RelayedRequest(id_, self.instance, elsewhere.process, sealed)
        self._wake()
        sealed = await waiting.answer.wait()
        about = _about("answer", id_, self.instance, elsewhere.process)
        try:
            answer: JSONObject = decode_standard(self._sealer.decrypt(sealed, about))
        except InvalidStateError:
            text = (
                f"{elsewhere.subject} is at a gateway that has another secret than this one: ask"
                f" the owner to give all gateways of the database the same ${STATE_KEY}, or none"
            )
            raise _failed(text) from None
        return answer

    # Turns, at both.

    async def _follow(self) -> NoReturn:
        while True:
            await self._store.relayed.wait()
            self._wake()

    def _wake(self) -> None:
        self._woken.set()

    def _pause(self) -> float:
        """Seconds until it is time for a turn, should no notification arrive."""
        is_busy = self._waiting or self._over or self._serving or self._answers
        is_expecting = self._sealer.may_share and time.monotonic() < self._expected_until
        return _LOOK_EVERY if is_busy or is_expecting else math.inf

    def _next_turn(self) -> RelayTurn:
        requests = _first(
            self._unsent, lambda request: len(request.content), self._limits.written_bytes
        )
        answers = _first(self._answers, len, self._limits.written_bytes)
        return RelayTurn(
            asked=tuple(requests.values()),
            waiting=[id_ for id_ in self._waiting if id_ not in self._unsent],
            over=frozenset(self._over),
            serving=[id_ for id_ in self._serving if id_ not in answers],
            answers=answers,
            room=self._limits.requests - len(self._serving),
        )

    async def _take_turn(self, tasks: TaskGroup, serve: Serve) -> None:
        turn = self._next_turn()
        try:
            news = await anyio.to_thread.run_sync(self._store.take_turn, turn)
        except RegistryError as error:  # the outage itself is logged once, where it is noticed
            logger.debug("Nothing is passed on between gateways: %s", error)
            self._give_up(turn, error)
            return
        self._turn_at = time.monotonic()
        for request in turn.asked:
            self._unsent.pop(request.id, None)
        self._over.difference_update(turn.over)
        for id_ in turn.answers:
            self._answers.pop(id_, None)
            self._serving.pop(id_, None)
        for id_ in news.withdrawn & self._serving.keys():
            self._serving.pop(id_).scope.cancel()
        self._settle(news)
        for request in news.taken:
            serving = self._serving[request.id] = _Serving(request, anyio.CancelScope())
            tasks.start_soon(self._serve, serving, serve)
        # There may be more than fits into one turn.
        if news.taken or news.answers or self._unsent or self._answers:
            self._wake()

    def _settle(self, news: RelayNews) -> None:
        for id_, request in self._waiting.items():
            if (answer := news.answers.get(id_)) is not None:
                request.answer.set(answer)
            elif id_ in news.untaken:
                request.answer.fail(request.elsewhere.without_answer())
            elif id_ in news.lost:
                request.answer.fail(_lost(request.elsewhere))

    def _give_up(self, turn: RelayTurn, error: RegistryError) -> None:
        """Wait no longer for what the database has not been able to say for too long."""
        for request in turn.asked:
            if self._unsent.pop(request.id, None):
                own_request = self._waiting[request.id]
                own_request.answer.fail(_unasked(own_request.elsewhere, error))
        if time.monotonic() < self._turn_at + LEASE:
            return
        for id_ in self._waiting.keys() - self._unsent.keys():
            own_request = self._waiting[id_]
            own_request.answer.fail(_lost(own_request.elsewhere))
        self._over.clear()  # by then others delete them
        for served in self._serving.values():  # and nobody waits for these
            served.scope.cancel()
        self._serving.clear()
        self._answers.clear()

    async def _end(self) -> None:
        """Let nobody wait for this gateway, and nobody work for it, any more."""
        text = (
            "the gateway that served this request was stopped: whether it was done is unknown;"
            " look before you do it again"
        )
        with suppress(RegistryError, InvalidStateError):
            for id_ in self._serving.keys() - self._answers.keys():
                self._answers[id_] = self._sealed(self._serving[id_].request, _error(text))
            turn = RelayTurn(over=frozenset([*self._over, *self._waiting]), answers=self._answers)
            if turn.over or turn.answers:
                await anyio.to_thread.run_sync(self._store.take_turn, turn, abandon_on_cancel=True)

    # The gateway of the work.

    async def _serve(self, serving: _Serving, serve: Serve) -> None:
        with serving.scope:
            self._answers[serving.request.id] = await self._answer(serving.request, serve)
            self._wake()

    async def _answer(self, request: RelayedRequest, serve: Serve) -> bytes:
        """Return the answer for the gateway that sent the request, encrypted."""
        await self._sealer.prepare()
        about = _about("request", request.id, request.sender, self.instance)
        try:
            plain = self._sealer.decrypt(request.content, about)
        except InvalidStateError:
            logger.warning(
                "A request in the database was refused: a gateway with another key has left it"
                " (see %s), or no gateway has",
                STATE_KEY,
            )
            return _REFUSED
        try:
            content: JSONObject = decode_standard(plain)
            if "messages" in content:
                return self._sealed(request, await self._received(request.sender, content))
            pass_messages = partial(self._pass_messages, request)
            return self._sealed(request, await serve(content, pass_messages))
        except RpcError as error:
            return self._sealed(request, {"error": error.to_json()})
        except Exception:  # a defect of ours must not end the others
            logger.exception("A request of another gateway failed")
            return self._sealed(request, _error("Internal error"))

    async def _pass_messages(self, request: RelayedRequest, messages: list[JSONObject]) -> None:
        """Pass messages to the gateway that sent the request; see `PassMessages`.

        Messages that are not taken are lost, and the client does without them.
        """
        content = encode_finite({"messages": messages, "request": request.id.hex()})
        with suppress(RpcError):
            await self._asked(_Waiting(OtherGatewayError(request.sender)), content)

    async def _received(self, sender: str, content: JSONObject) -> JSONObject:
        """The answer to messages, once the client of the request that they belong to has them."""
        request = self._waiting.get(bytes.fromhex(content["request"]))
        if request and request.pass_messages and request.elsewhere.process == sender:
            await request.pass_messages(content["messages"])
        return {"result": {}}

    def _sealed(self, request: RelayedRequest, answer: JSONObject) -> bytes:
        content = encode_finite(answer)
        if len(content) > self._limits.answer_bytes:
            most = f"{self._limits.answer_bytes:,} bytes"
            text = (
                f"the request was done, but its answer is longer than the {most} that are passed on"
            )
            content = encode_finite(_error(f"{text} between gateways; do not send it again"))
        about = _about("answer", request.id, request.sender, self.instance)
        return self._sealer.encrypt(content, about)


def _first(items: dict[bytes, T], size_of: Callable[[T], int], most: int) -> dict[bytes, T]:
    """At least one, if there is one, and not many more bytes than one may write in time."""
    chosen: dict[bytes, T] = {}
    size = 0
    for id_, value in items.items():
        size += size_of(value)
        if chosen and size > most:
            break
        chosen[id_] = value
    return chosen


def _about(what: str, id_: bytes, sender: str, receiver: str) -> bytes:
    """Return the identity that a text is bound to.

    The text cannot be decrypted as anything else, or between other gateways.
    """
    return f"{what} {id_.hex()} {sender} {receiver}".encode()


def _lost(elsewhere: OtherGatewayError) -> RpcError:
    text = (
        f"{elsewhere.subject} is at another gateway, which took this request and does not answer"
        " any more: whether it was done is unknown; look before you do it again"
    )
    return _failed(text)


def _unasked(elsewhere: OtherGatewayError, error: RegistryError) -> RpcError:
    text = (
        f"{elsewhere.subject} is at another gateway, which is asked through the database; that does"
        f" not answer ({error.message}): send the same request again in a moment"
    )
    return _failed(text)


def _failed(text: str) -> RpcError:
    return RpcError(INTERNAL_ERROR, text, {"reason": "other_gateway"})


def _error(text: str) -> JSONObject:
    return {"error": {"code": INTERNAL_ERROR, "message": text}}
