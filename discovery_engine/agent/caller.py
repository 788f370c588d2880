"""The client that calls a meta-tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

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
    is_direct: bool = False
    """True if the client called a tool of a server by that tool's own name."""
    on_found: OnFound | None = None
    """Puts what a search has found into the client's list of tools."""
    label: str = ""
    """Names the client for the owner, as far as it is known, and distinguishes it from others."""

    @property
    def client_id(self) -> str | None:
        """Who may read on in a result of this call."""
        return self.client.id if self.client is not None else None
