"""What can be seen of a live session from outside."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    CONNECTING = "connecting"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class SessionState:
    phase: Phase
    protocol_version: str = ""
    users: int = 0
    """Callers that are being served now."""
    pid: int | None = None
    garbage: int = 0
    """Lines on a program's output that were not messages."""
    samples: tuple[str, ...] = ()
    """The first few of those lines."""
    stderr: str = ""
    """The last lines a program wrote to its error output."""
