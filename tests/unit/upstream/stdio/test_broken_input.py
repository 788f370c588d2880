from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import anyio
import pytest

from discovery_engine.rpc.peer import ConnectionClosedError
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import QuestionSettings
from discovery_engine.upstream.calls_in_flight import CallsInFlight
from discovery_engine.upstream.stdio.pipe_transport import PipeTransport, StdioCallbacks
from discovery_engine.upstream.stdio.process import start_program, supervise
from tests.servers.programs import eventually

pytestmark = pytest.mark.anyio

ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {"text": "x" * 100_000}}
PROGRAM = 'read request; exec <&-; cat "$0"; exec sleep 60'
"""Reads one request, closes its stdin, writes an answer, and continues to run."""


class HeldScheduler(FairScheduler):
    """Parses nothing large until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = anyio.Event()
        self.released = anyio.Event()

    async def run(self, steps: Any, *, size: int) -> Any:
        self.begun.set()
        await self.released.wait()
        return await super().run(steps, size=size)


async def test_an_answer_that_is_still_parsed_is_not_lost_with_the_stdin_of_its_program(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "answer").write_text(json.dumps(ANSWER) + "\n", "utf-8")
    command = ["/bin/sh", "-c", PROGRAM, str(tmp_path / "answer")]
    loop, passed = asyncio.get_running_loop(), 0.0
    real_time = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_time() + passed)
    callbacks = StdioCallbacks(
        lambda: None,
        lambda *_: None,
        lambda _: None,
        CallsInFlight(ServerName("s"), lambda _: QuestionSettings(), FairScheduler()).answer,
        lambda _: None,
    )
    scheduler, first, second = HeldScheduler(), [], []

    async def ask(outcomes: list[Any]) -> None:
        try:
            outcomes.append(await transport.peer.request("x"))
        except ConnectionClosedError as error:
            outcomes.append(error)

    program = await start_program(command, env=dict(os.environ), cwd=None)
    async with supervise(program) as child, anyio.create_task_group() as tasks:
        transport = PipeTransport(
            ServerName("s"), child, scheduler, limit=1 << 20, callbacks=callbacks
        )
        tasks.start_soon(transport.receive)
        tasks.start_soon(ask, first)
        await scheduler.begun.wait()  # its stdin is closed by now
        tasks.start_soon(ask, second)
        await eventually(lambda: transport.is_lost)
        for _ in range(5):  # more than a program has for its last output
            passed += 2.0
            await anyio.sleep(0.001)  # a turn in which timers run
            await anyio.wait_all_tasks_blocked()
        assert first == []
        scheduler.released.set()
        await anyio.wait_all_tasks_blocked()
        assert first == [ANSWER["result"]]
        passed += 2.0
        await anyio.sleep(0.001)
        await anyio.wait_all_tasks_blocked()
        assert [(type(one), one.was_sent) for one in second] == [(ConnectionClosedError, False)]
        tasks.cancel_scope.cancel()
