"""Requests that a caller waits for, as they are sent to a server."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.client import Continuation

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
