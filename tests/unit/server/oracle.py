"""The same messages to our connection and to the server of the SDK, and what each answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp.shared.message import SessionMessage

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_server.client_connection import ClientConnection
from discovery_server.client_messages import ClientLines
from discovery_server.gateway import Gateway
from tests.unit.server.fakes import make_engine
from tests.unit.server.sdk_oracle import make_server

_TURNS = 80  # of the event loop until everything is answered; nothing here waits for anything else

Answers = list[JSONObject]


class ListSink:
    """A `LineSink` that keeps its lines."""

    is_congested = False

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.lines.append(line)

    async def drain(self) -> None:
        """Never congested."""

    def take(self) -> Answers:
        taken, self.lines = self.lines, []
        return [json.loads(line) for line in taken]


async def ours(messages: Sequence[JSONValue | bytes]) -> list[Answers]:
    """What our connection answers to each message, or line."""
    sink = ListSink()
    connection, stream = ClientConnection(Gateway(make_engine())), ClientLines(sink)
    answers = []
    for message in messages:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        connection.receive(line, stream)
        await _settle()
        answers.append(sink.take())
    await connection.close()
    return answers


async def sdks(messages: Sequence[JSONValue]) -> list[Answers]:
    """What the SDK's server answers to each message; its transports skip what it cannot parse."""
    to_server, read = anyio.create_memory_object_stream[SessionMessage | Exception](100)
    write, from_server = anyio.create_memory_object_stream[SessionMessage](100)
    server = make_server(Gateway(make_engine()))
    answers = []
    async with anyio.create_task_group() as tasks, from_server:
        tasks.start_soon(server.run, read, write, server.create_initialization_options())
        for message in messages:
            try:
                parsed = types.jsonrpc_message_adapter.validate_python(message, by_name=False)
                await to_server.send(SessionMessage(parsed))
            except ValueError as error:
                await to_server.send(error)
            await _settle()
            answers.append(_received(from_server))
        tasks.cancel_scope.cancel()
    to_server.close()
    return answers


def outcome(answers: Answers) -> list[tuple[Any, Any]]:
    """The class of each answer: its id, and `result`, a notification's method, or an error code."""
    return [
        (
            answer.get("id"),
            answer["error"]["code"] if "error" in answer else answer.get("method", "result"),
        )
        for answer in answers
    ]


async def _settle() -> None:
    for _ in range(_TURNS):
        await anyio.lowlevel.checkpoint()


def _received(stream: Any) -> Answers:
    answers = []
    while True:
        try:
            message = stream.receive_nowait().message
        except anyio.WouldBlock:
            return answers
        answers.append(json.loads(message.model_dump_json(by_alias=True, exclude_unset=True)))
