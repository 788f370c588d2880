"""A client of the SDK in front of our own connection, in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client
from mcp.shared.message import SessionMessage

from discovery_server.client_connection import ClientConnection
from discovery_server.client_messages import ClientLines
from discovery_server.gateway import Gateway

_MOST = 1000  # messages that wait to be read; more is a defect of the test


@asynccontextmanager
async def connected(gateway: Gateway, mode: str = "auto") -> AsyncIterator[Client]:
    with anyio.fail_after(60):
        async with Client(_transport(gateway), mode=mode) as client:  # type: ignore[arg-type]
            yield client


class _Sink:
    """A `LineSink` whose lines the client reads."""

    is_congested = False

    def __init__(self, to_client: MemoryObjectSendStream[Any]) -> None:
        self._to_client = to_client

    def write(self, line: bytes) -> None:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        self._to_client.send_nowait(SessionMessage(message))

    async def drain(self) -> None:
        """Never congested."""


@asynccontextmanager
async def _transport(gateway: Gateway) -> AsyncIterator[tuple[Any, Any]]:
    to_client, read = anyio.create_memory_object_stream[Any](_MOST)
    write, from_client = anyio.create_memory_object_stream[SessionMessage](_MOST)
    connection, stream = ClientConnection(gateway), ClientLines(_Sink(to_client))
    async with anyio.create_task_group() as tasks, to_client, from_client:
        tasks.start_soon(_receive, from_client, connection, stream)
        yield read, write
        await connection.close()
        tasks.cancel_scope.cancel()


async def _receive(
    messages: MemoryObjectReceiveStream[SessionMessage],
    connection: ClientConnection,
    stream: ClientLines,
) -> None:
    async for message in messages:
        line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        connection.receive(line.encode(), stream)
