"""The progress of a tool in the middle of its call, for programs that show it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from discovery_engine.agent.caller import OnProgress


class CallProgress(Struct, frozen=True):
    call_id: str
    """The id that the model's API gave the call."""
    tool: str
    """The name by which the model called the tool."""
    progress: float
    total: float | None
    message: str | None


OnCallProgress: TypeAlias = Callable[[CallProgress], Awaitable[None]]


def progress_of(on_progress: OnCallProgress | None, call_id: str, tool: str) -> OnProgress | None:
    """Return the `on_progress` for `AgentTool.call`; None asks the tool for no progress."""
    if on_progress is None:
        return None

    async def pass_on(progress: float, total: float | None, message: str | None) -> None:
        await on_progress(CallProgress(call_id, tool, progress, total, message))

    return pass_on
