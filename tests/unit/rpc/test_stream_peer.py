from __future__ import annotations

import asyncio
import json
from typing import Any

import anyio
import pytest

from discovery_engine.rpc.messages import (
    ErrorResponse,
    Notification,
    Request,
    Response,
)
from discovery_engine.rpc.peer import RequestTimeout, RequestTimeoutError, RpcError
from discovery_engine.rpc.protocol import CONNECTION_CLOSED
from discovery_engine.rpc.stream_peer import StreamPeer
from tests.servers.programs import eventually

pytestmark = pytest.mark.anyio


class Sink:
    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.is_congested = False
        self.drained = anyio.Event()

    def write(self, line: bytes) -> None:
        self.lines.append(json.loads(line))

    async def drain(self) -> None:
        await self.drained.wait()


@pytest.fixture
def sink() -> Sink:
    return Sink()


@pytest.fixture
def peer(sink: Sink) -> StreamPeer:
    return StreamPeer(sink, on_request=lambda _: None)


async def answers(peer: StreamPeer, sink: Sink, *messages: Any, **options: Any) -> Any:
    """The outcome of a request during which the other side sends `messages`."""
    outcome: list[Any] = []

    async def ask() -> None:
        try:
            outcome.append(await peer.request("tools/call", {"name": "x"}, **options))
        except (RpcError, TimeoutError) as error:
            outcome.append(error)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            for message in messages:
                peer.deliver(message)
    return outcome[0]


async def test_a_request_gets_the_result_with_its_id(peer: StreamPeer, sink: Sink) -> None:
    assert await answers(peer, sink, Response(7, {"no": 1}), Response("1", {"ok": 1})) == {"ok": 1}
    assert sink.lines == [
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}
    ]
    assert (peer.pending.unsolicited, peer.pending.duplicates) == (1, 0)


async def test_an_error_answer_is_raised(peer: StreamPeer, sink: Sink) -> None:
    error = await answers(peer, sink, ErrorResponse(1, RpcError(-5, "no", {"why": 1})))
    assert (error.code, error.message, error.data) == (-5, "no", {"why": 1})


async def test_progress_is_delivered_in_order_and_before_the_result(
    peer: StreamPeer, sink: Sink
) -> None:
    seen: list[Any] = []

    async def on_progress(*report: Any) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(report)

    def progress(**params: Any) -> Notification:
        return Notification("notifications/progress", {"progressToken": 1, **params})

    result = await answers(
        peer,
        sink,
        progress(progress=1, total=2, message="half"),
        progress(progress="much"),
        progress(progress=10**400),
        progress(progress=2),
        Response(1, {}),
        on_progress=on_progress,
    )
    assert result == {}
    assert seen == [(1, 2, "half"), (2, None, None)]
    assert sink.lines[0]["params"] == {"name": "x", "_meta": {"progressToken": 1}}


async def test_a_request_that_times_out_is_cancelled(peer: StreamPeer, sink: Sink) -> None:
    error = await answers(peer, sink, timeout=RequestTimeout(0.01))
    assert isinstance(error, RequestTimeoutError)
    assert error.seconds == 0.01
    assert sink.lines[1]["method"] == "notifications/cancelled"
    assert sink.lines[1]["params"]["requestId"] == 1
    peer.deliver(Response(1, {}))
    assert (peer.pending.unsolicited, peer.pending.duplicates) == (0, 0), "it was on its way"


async def test_progress_extends_the_time_limit_up_to_the_longest(
    peer: StreamPeer, sink: Sink
) -> None:
    reports = 0

    async def on_progress(*_: Any) -> None:
        nonlocal reports
        reports += 1
        note = {"progressToken": 1, "progress": reports}
        await anyio.lowlevel.checkpoint()
        peer.deliver(Notification("notifications/progress", note))

    first = Notification("notifications/progress", {"progressToken": 1, "progress": 0})
    options = {"timeout": RequestTimeout(0.02, 0.1), "on_progress": on_progress}
    error = await answers(peer, sink, first, **options)
    assert isinstance(error, RequestTimeoutError)
    assert error.seconds == 0.1


async def test_a_caller_that_is_cancelled_cancels_its_request(peer: StreamPeer, sink: Sink) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(peer.request, "slow")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert [line["method"] for line in sink.lines] == ["slow", "notifications/cancelled"]


async def test_an_answer_that_arrives_as_its_caller_is_cancelled_leaves_nothing_to_cancel(
    peer: StreamPeer, sink: Sink
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(peer.request, "slow")
        await anyio.wait_all_tasks_blocked()
        peer.deliver(Response(1, {}))  # in the same turn of the event loop
        tasks.cancel_scope.cancel()
    assert [line["method"] for line in sink.lines] == ["slow"]
    assert (len(peer.pending), peer.pending.unsolicited, peer.pending.duplicates) == (0, 0, 0)


async def test_the_end_of_the_connection_fails_all_requests(peer: StreamPeer, sink: Sink) -> None:
    outcome: list[Any] = []

    async def ask() -> None:
        try:
            await peer.request("slow")
        except RpcError as error:
            outcome.append(error.code)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        peer.close()
    await ask()
    assert outcome == [CONNECTION_CLOSED] * 2
    assert peer.is_closed


async def test_a_caller_that_gives_up_before_its_request_was_written_sends_nothing(
    peer: StreamPeer, sink: Sink
) -> None:
    sink.is_congested = True
    error = await answers(peer, sink, timeout=RequestTimeout(0.01))
    assert isinstance(error, RequestTimeoutError)
    assert sink.lines == []


async def test_what_json_cannot_express_is_refused_before_it_is_sent(
    peer: StreamPeer, sink: Sink
) -> None:
    with pytest.raises(ValueError, match="JSON"):
        await peer.request("x", {"a": float("nan")})
    assert sink.lines == []
    assert len(peer.pending) == 0


async def test_requests_and_notifications_of_the_other_side_are_passed_on(sink: Sink) -> None:
    seen: list[Any] = []
    peer = StreamPeer(sink, on_request=seen.append, on_notification=seen.append)
    peer.deliver(Request("a", "ping"))
    peer.deliver(Notification("notifications/x", {"y": 1}))
    await peer.notify("notifications/z")
    assert seen == [Request("a", "ping"), Notification("notifications/x", {"y": 1})]
    assert sink.lines == [{"jsonrpc": "2.0", "method": "notifications/z"}]


@pytest.mark.requirement("UPS-84")
async def test_a_request_that_waits_for_a_congested_stream_fails_when_the_connection_ends(
    peer: StreamPeer, sink: Sink
) -> None:
    sink.is_congested = True
    outcome: list[Any] = []

    async def ask() -> None:
        try:
            await peer.request("slow")
        except RpcError as error:
            outcome.append(error.code)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            peer.close()
        await ask()
    assert outcome == [CONNECTION_CLOSED] * 2
    assert sink.lines == []


@pytest.mark.requirement("UPS-84")
async def test_the_timeout_covers_the_wait_for_a_congested_stream_as_well(
    peer: StreamPeer, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, passed, late = asyncio.get_running_loop(), 0.0, []
    real_time = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_time() + passed)
    sink.is_congested = True

    async def ask() -> None:
        try:
            await peer.request("slow", timeout=RequestTimeout(100))
        except RequestTimeoutError as error:
            late.append(error.seconds)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        passed = 60.0
        sink.drained.set()
        await anyio.wait_all_tasks_blocked()
        assert [line["method"] for line in sink.lines] == ["slow"]
        passed = 110.0
        await eventually(lambda: late == [100])  # what has arrived is read first
    assert late == [100]
