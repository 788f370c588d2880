from __future__ import annotations

from typing import Any

import anyio
import httpx2
import pytest

from discovery_server.http.graceful_shutdown import GracefulShutdown

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SRV-17")]

START = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body"}


class Slow:
    """An application that sends the messages it is given, then goes on until it is let go."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = messages
        self.entered, self.let_go = anyio.Event(), anyio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        for message in self._messages:
            await send(message)
        self.entered.set()
        await self.let_go.wait()
        if not self._messages:
            await send(START)
            await send({**BODY, "body": b"done"})


async def answer_of(app: Slow, method: str, grace: float, *, let_go: bool = False) -> Any:
    """What a client gets whose request is under way when the shutdown is said."""
    shutdown = GracefulShutdown(app, grace)
    answers: list[httpx2.Response] = []

    async def ask() -> None:
        transport = httpx2.ASGITransport(shutdown)
        async with httpx2.AsyncClient(transport=transport, base_url="http://x") as client:
            answers.append(await client.request(method, "/"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await app.entered.wait()
            shutdown.begin()
            if let_go:
                app.let_go.set()
    return answers[0].status_code, answers[0].text


async def test_a_stream_that_listens_is_ended_at_once() -> None:
    app = Slow(START, {**BODY, "body": b"first", "more_body": True})

    assert await answer_of(app, "GET", grace=3600) == (200, "first")


async def test_a_call_may_finish_within_its_grace() -> None:
    assert await answer_of(Slow(), "POST", grace=3600, let_go=True) == (200, "done")


async def test_a_call_that_does_not_finish_is_answered_all_the_same() -> None:
    assert await answer_of(Slow(), "POST", grace=0) == (503, "The server is stopping")


async def test_what_was_answered_already_is_not_answered_again() -> None:
    app = Slow(START, {**BODY, "body": b"whole"})

    assert await answer_of(app, "POST", grace=0) == (200, "whole")


async def test_a_websocket_passes() -> None:
    passed: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope["type"])

    await GracefulShutdown(app, 0)({"type": "websocket"}, None, None)  # type: ignore[arg-type]

    assert passed == ["websocket"]
