"""The client that calls a meta-tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from discovery_engine.errors import DiscoveryError
from discovery_engine.tools.model import ToolKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discovery_engine.agent.render.pool import PoolReport
    from discovery_engine.rpc.client import Client, Continuation
    from discovery_engine.view.search_answers import SearchAnswer

OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None]]
OnFound: TypeAlias = Callable[["Sequence[SearchAnswer]"], "PoolReport"]


class Caller(Struct, frozen=True):
    """The client that calls a meta-tool, with what is known from its transport."""

    client: Client | None = None
    """None if nothing is known of it; it cannot be asked then."""
    on_progress: OnProgress | None = None
    continuation: Continuation | None = None
    """Its answers to an `input_required` result of the same call of `execute_tool`."""
    on_found: OnFound | None = None
    """Puts what a search has found into the client's list of tools."""

    @property
    def client_id(self) -> str | None:
        """Who may read on in a result of this call."""
        return self.client.id if self.client is not None else None

    @property
    def takes_input_required(self) -> bool:
        return self.client is not None and self.client.takes_input_required


class InputRequiredError(DiscoveryError):
    """A tool requires input during a call, which is not passed on to the client."""

    code = "TOOL_NEEDS_INPUT"

    def __init__(self, key: ToolKey) -> None:
        self.server = key.server
        self.tool = key.tool
        hint = "give everything it may need as arguments, or use another tool"
        message = f"{key.label} requires input during the call, which this gateway does not support"
        super().__init__(message, hint=hint)
