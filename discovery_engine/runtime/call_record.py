"""Publishes an event for each call: tool, outcome, duration and sizes, never its contents."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.errors import DiscoveryError, UpstreamProtocolError
from discovery_engine.events import EventBus, ToolCalled
from discovery_engine.rpc.client import Client
from discovery_engine.tools.model import ServerName, Tool, ToolName

_COUNTED = 1000  # values


class CallRecord:
    """A block that runs one call; its outcome is published at the end.

    Nothing is counted if there is no subscriber.
    """

    def __init__(
        self,
        events: EventBus,
        server: str | None,
        tool: str,
        arguments: JSONObject,
        caller: Client | None,
    ) -> None:
        self._events = events
        self._server = ServerName(server or "")
        self._tool = ToolName(tool)
        self._arguments = arguments
        self._caller = caller
        self._outcome = "cancelled"
        self._result: JSONObject | None = None
        self._started = time.monotonic()
        self.is_named = False
        """Whether the name of the tool stays as it is if there is an error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, DiscoveryError):
            self._record_error(error)
        if self._events.wants(ToolCalled):
            self._publish()

    def set_name(self, server: ServerName, name: str) -> None:
        self._server, self._tool = server, ToolName(name)

    def set_tool(self, tool: Tool) -> None:
        self._server, self._tool = tool.server, tool.name

    def record_result(self, result: JSONObject) -> None:
        self._outcome = "tool_error" if result.get("isError") else "ok"
        if result.get("resultType") == "task":
            self._outcome = "task"
        self._result = result

    def record_task(self, status: str, result: JSONObject | None, seconds: float) -> None:
        """The end of a task that was begun so many seconds ago."""
        self._started = time.monotonic() - seconds
        if result is not None:
            self.record_result(result)
        else:
            self._outcome = "cancelled" if status == "cancelled" else UpstreamProtocolError.code

    def _record_error(self, error: DiscoveryError) -> None:
        self._outcome = error.code
        self._server = ServerName(error.server or self._server)
        if not self.is_named:
            self._tool = ToolName(error.tool or self._tool)

    def _publish(self) -> None:
        called = ToolCalled(
            self._server,
            self._tool,
            self._outcome,
            time.monotonic() - self._started,
            self._caller.id if self._caller else None,
            _size(self._arguments),
            0 if self._result is None else _size(self._result),
        )
        self._events.publish(called)


def _size(value: JSONValue) -> int:
    """The characters in a value, counted in its first thousand values."""
    # Encoding it would be exact, but takes 10 ms for a result of 8 MiB.
    characters, rest = 0, [value]
    for _ in range(_COUNTED):
        if not rest:
            break
        match rest.pop():
            case str() as text:
                characters += len(text)
            case dict() as members:
                rest += members.values()
            case list() as items:
                rest += items
            case plain:
                characters += len(str(plain))
    return characters
