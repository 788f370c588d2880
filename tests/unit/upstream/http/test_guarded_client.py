from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.upstream.http.guarded_client import (
    GuardedClient,
    HttpFailure,
    failure_of,
)
from tests.rows import rows

pytestmark = pytest.mark.anyio

LIMIT = 1024 * 1024

ASK = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
JSON = {"content-type": "application/json"}
ERROR = {"jsonrpc": "2.0", "id": 5, "error": {"code": -32602, "message": "no"}}


async def send(
    answer: Callable[[httpx2.Request], httpx2.Response], **request: Any
) -> tuple[httpx2.Response, HttpFailure | None]:
    transport = httpx2.MockTransport(answer)
    async with GuardedClient(
        FairScheduler(), LIMIT, expects_answers=True, transport=transport
    ) as client:
        response = await client.post("http://h/mcp", **({"json": ASK} | request))
        failure = failure_of(response)
        if failure is not None:
            error = response.json()["error"]
            assert client.find_failure(error["data"]) is failure
        assert client.find_failure("guessed") is None
        assert client.find_failure(None) is None
    return response, failure


def raising(error: type[httpx2.TransportError]) -> Callable[[httpx2.Request], httpx2.Response]:
    def answer(request: httpx2.Request) -> httpx2.Response:
        raise error("oh", request=request)

    return answer


@rows(
    ("error", "was_sent"),
    [
        (httpx2.ConnectError, False),
        (httpx2.ConnectTimeout, False),
        (httpx2.PoolTimeout, False),
        (httpx2.ReadError, True),
        (httpx2.ReadTimeout, True),
        (httpx2.RemoteProtocolError, True),
    ],
)
async def test_a_transport_error_is_the_answer_to_its_own_request(
    error: type[httpx2.TransportError], was_sent: bool
) -> None:
    response, failure = await send(raising(error))

    assert response.json()["id"] == 5
    assert failure is not None
    assert failure.was_sent == was_sent


@rows(
    ("response", "reason"),
    [
        pytest.param(httpx2.Response(502), "HTTP 502 Bad Gateway", id="status"),
        pytest.param(httpx2.Response(500, json={"error": "x"}), "HTTP 500 Internal", id="json"),
        pytest.param(httpx2.Response(200, text="<html>"), "text/plain", id="text"),
        pytest.param(httpx2.Response(200), "answers with nothing", id="nothing"),
        pytest.param(
            httpx2.Response(
                200, headers=JSON | {"content-encoding": "gzip"}, stream=httpx2.ByteStream(b"plain")
            ),
            "DecodingError",
            id="not-gzip",
        ),
    ],
)
async def test_an_answer_that_the_sdk_would_choke_on_is_replaced(
    response: httpx2.Response, reason: str
) -> None:
    _, failure = await send(lambda _: response)

    assert failure is not None
    assert reason in failure.reason


@rows(
    ("body", "reason"),
    [
        pytest.param(b'{"x": "\\ud83d"', "cannot be read: ", id="half"),
        pytest.param(b"", "cannot be read: ", id="empty"),
        pytest.param(b"[" * 100_000, "too deeply", id="deep"),
        pytest.param(b'{"id":5,"result":{"x":NaN}}', "NaN is not JSON", id="nan"),
        pytest.param(b'{"hello":"world"}', "neither `result` nor `error`", id="no-message"),
        pytest.param(b'{"id":5,"result":"text"}', "`result` is a text", id="odd-result"),
        pytest.param(b'{"id":6,"result":{}}', "to another request", id="another-id"),
        pytest.param(b"x" * (LIMIT + 1), "longer than 1 MiB", id="too-long"),
    ],
)
async def test_an_answer_that_came_and_cannot_be_used_is_an_error_of_its_request(
    body: bytes, reason: str
) -> None:
    response, failure = await send(lambda _: httpx2.Response(200, content=body, headers=JSON))

    error = response.json()
    assert (error["id"], error["error"]["code"], failure) == (5, -32700, None)
    assert reason in error["error"]["message"]


async def test_what_answers_no_question_may_be_anything() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    response, failure = await send(lambda _: httpx2.Response(202, headers=JSON), json=note)

    assert (response.status_code, response.content, failure) == (202, b"", None)


@rows(
    ("header", "seconds"),
    [
        pytest.param("7", 7.0, id="seconds"),
        pytest.param("9" * 400, 86_400.0, id="for ever"),
        pytest.param("Wed, 21 Oct 2015 07:28:00 GMT", 0.0, id="a date that is over"),
        pytest.param("-1", None, id="neither"),
    ],
)
async def test_how_long_a_server_wants_to_be_left_alone_is_kept(
    header: str, seconds: float | None
) -> None:
    busy = httpx2.Response(429, headers={"retry-after": header})

    _, failure = await send(lambda _: busy)

    assert failure is not None
    assert failure.retry_after == seconds


async def test_a_json_rpc_error_passes_whatever_its_status() -> None:
    response, failure = await send(lambda _: httpx2.Response(400, json=ERROR))

    assert (response.status_code, response.json(), failure) == (400, ERROR, None)


async def test_headers_and_body_of_a_good_answer_stay() -> None:
    answer = {"jsonrpc": "2.0", "id": 5, "result": {"vendor": True}}
    body = gzip.compress(json.dumps(answer).encode())
    headers = JSON | {"content-encoding": "gzip", "mcp-session-id": "s"}

    response, failure = await send(lambda _: httpx2.Response(200, content=body, headers=headers))

    assert (response.json(), response.headers["mcp-session-id"], failure) == (answer, "s", None)


@rows(
    ("status", "message", "is_lost"),
    [
        (404, "whatever", True),
        (400, "No valid Session", True),
        (400, "Invalid", False),
        (500, "x", False),
    ],
)
async def test_a_forgotten_session_is_recognised(status: int, message: str, is_lost: bool) -> None:
    error = {"id": 5, "error": {"code": -32600, "message": message}}

    _, failure = await send(
        lambda _: httpx2.Response(status, json=error), headers={"mcp-session-id": "s"}
    )

    assert bool(failure and failure.lost_session) == is_lost


async def test_what_is_no_question_needs_no_answer() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    for request in ({"json": note}, {"json": None, "content": b"{"}):
        response, failure = await send(lambda _: httpx2.Response(200), **request)
        assert (response.status_code, failure) == (200, None)


async def test_only_the_last_hundred_failures_are_remembered() -> None:
    transport = httpx2.MockTransport(lambda _: httpx2.Response(500))
    async with GuardedClient(
        FairScheduler(), LIMIT, expects_answers=True, transport=transport
    ) as client:
        for _ in range(150):
            await client.post("http://h/mcp", json=ASK)

        assert len(client._failures) == 100


ITEMS = [{"n": n} for n in range(9000)]
MANY = {"jsonrpc": "2.0", "id": 5, "result": {"content": [], "items": ITEMS}}
EVENTS = {"content-type": "text/event-stream"}


def event(data: bytes) -> bytes:
    return b"event: message\ndata: " + data + b"\n\n"


async def streamed(
    body: bytes, headers: dict[str, str], ask: JSONObject = ASK
) -> tuple[bytes, GuardedClient]:
    """What is left of a body that comes as from a server: the data of its event."""

    async def content() -> AsyncIterator[bytes]:
        yield body

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=content(), headers=headers)

    transport = httpx2.MockTransport(answer)
    async with GuardedClient(
        FairScheduler(), LIMIT, expects_answers=True, transport=transport
    ) as client:
        async with client.stream("POST", "http://h/mcp", json=ask) as response:
            told = await response.aread()
        return told.rpartition(b"data: ")[2].strip(), client


@pytest.mark.requirement("UPS-34")
@rows("headers", [JSON, EVENTS])
async def test_a_large_result_is_led_past_the_sdk(headers: dict[str, str]) -> None:
    body = json.dumps(MANY).encode()

    told, client = await streamed(body if headers is JSON else event(body), headers)

    short = json.loads(told)
    assert short["id"] == 5
    assert len(told) < 200
    assert client.large_results.restore(short["result"]) == MANY["result"]


@rows("headers", [JSON, EVENTS])
@rows(
    "ask",
    [
        pytest.param(ASK | {"method": "initialize"}, id="a-handshake"),
        pytest.param({"jsonrpc": "2.0", "method": "tools/call"}, id="no-question"),
    ],
)
async def test_what_the_sdk_itself_looks_into_stays(
    ask: JSONObject, headers: dict[str, str]
) -> None:
    body = json.dumps(MANY).encode()

    told, _ = await streamed(body if headers is JSON else event(body), headers, ask)

    assert told == body


@rows(
    ("data", "text"),
    [
        pytest.param(b'{"jsonrpc":"2.0","method":"n"}', None, id="a-notification"),
        pytest.param(b"{oops", "", id="garbage"),
        pytest.param(b"[4]", "", id="a-list"),
        pytest.param(b'{"id":5,"result":{"x":"\\ud83d"},"jsonrpc":"2.0"}', "\ufffd", id="unclean"),
        pytest.param(b'{"id":6,"result":{"x":"\\ud83d"},"jsonrpc":"2.0"}', "\ufffd", id="another"),
    ],
)
async def test_events_are_cleaned_and_otherwise_left_alone(data: bytes, text: str | None) -> None:
    told, _ = await streamed(event(data), EVENTS)

    if text:
        assert json.loads(told) == {"jsonrpc": "2.0", "id": 5, "result": {"x": text}}
    else:
        assert told == (data if text is None else b"")


async def test_compressed_events_are_read_like_others() -> None:
    packed = gzip.compress(event(b'{"id":5,"result":{"x":"\\ud83d"},"jsonrpc":"2.0"}'))

    told, _ = await streamed(packed, EVENTS | {"content-encoding": "gzip"})

    assert json.loads(told)["result"] == {"x": "\ufffd"}
