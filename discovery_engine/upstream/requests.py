"""Requests that a caller waits for, as they are sent to a server.

A request that the server may have processed is never sent again; one that it provably did not
process may be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import UpstreamError
from discovery_engine.rpc.client import Continuation

T = TypeVar("T")

CALL_TOOL = "tools/call"


class UpstreamRequest(Struct, frozen=True):
    """A request that a caller waits for."""

    method: str
    params: JSONObject
    subject: str
    """The subject that errors name: a tool's name, a URI."""
    name: str | None = None
    """The value of the HTTP name header, for methods that have one."""
    pinned: frozenset[str] = frozenset()
    """The names of the arguments that the owner gives; they are not recorded."""

    @classmethod
    def call(cls, tool: str, arguments: JSONObject) -> UpstreamRequest:
        """`tools/call`, by the server's own name of the tool."""
        return cls(CALL_TOOL, {"name": tool, "arguments": arguments}, tool, tool)

    @classmethod
    def read(cls, uri: str) -> UpstreamRequest:
        return cls("resources/read", {"uri": uri}, uri, uri)

    @classmethod
    def get_prompt(cls, name: str, arguments: JSONObject) -> UpstreamRequest:
        members = {"arguments": arguments} if arguments else {}
        return cls("prompts/get", {"name": name, **members}, name, name)

    @classmethod
    def complete(cls, params: JSONObject) -> UpstreamRequest:
        return cls("completion/complete", params, "completion/complete")

    def continued(self, continuation: Continuation) -> UpstreamRequest:
        """The same request with the answers that the server asked for."""
        return replace(self, params=self.params | continuation.params)


class RequestNotProcessed(Exception):  # noqa: N818 - internal signal
    """The server provably did not process a request, so it may be sent again."""

    def __init__(self, error: UpstreamError) -> None:
        super().__init__(error)
        self.error = error


async def at_most_twice(ask: Callable[[], Awaitable[T]]) -> T:
    """The result of a request, which is sent a second time if it was not processed.

    Raises:
        UpstreamError: If it fails, or was not processed both times.
    """
    try:
        return await ask()
    except RequestNotProcessed:
        pass
    try:
        return await ask()
    except RequestNotProcessed as again:
        raise again.error from again
