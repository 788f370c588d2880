"""What every foreign client is asked to do with the gateway, in words that it shares with the test.

A program of this folder is run as `PROGRAM MODE TRANSPORT TARGET ...`: the `server.mode` of the
gateway, `stdio` with its command or `http` with its address. It prints one JSON object: what each
step gave, or the error that it ended with.
"""

from __future__ import annotations

import json
import os
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

TEXT = "test://static-text"
FILLED = "test://template/7/data"
PROMPT = "test_prompt_with_arguments"
PROMPT_ARGUMENTS = {"arg1": "one", "arg2": "two"}
ANSWER = {"username": "ann", "email": "ann@example.org"}
ROOT = "file:///project/here"
SAMPLED = "Paris"
SECONDS = 60.0
STEPS = (
    *("resources", "templates", "text", "filled", "prompts", "prompt", "completed"),
    *("form", "address", "sample", "roots", "progress", "log", "watched", "cancelled"),
)


@dataclass
class Journey:
    mode: str
    transport: str
    target: list[str]
    seen: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    progress: list[float] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)

    @classmethod
    def given(cls) -> Journey:
        _, mode, transport, *target = sys.argv
        return cls(mode, transport, target)

    @property
    def connection(self) -> dict[str, Any]:
        """The gateway as an entry of a client's configuration."""
        if self.transport == "http":
            return {"url": self.target[0]}
        command, *arguments = self.target
        return {"command": command, "args": arguments, "env": dict(os.environ)}

    def call(self, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        """Name and arguments with which a client calls a tool of the server."""
        if self.mode == "direct":
            return f"everything__{tool}", arguments
        return "execute_tool", {"tool": f"everything:{tool}", "arguments": arguments}

    async def made_by(self, client: ForeignClient) -> None:
        """Have the client make every step that it can, and print what each gave."""
        for name in STEPS:
            if step := getattr(client, name, None):
                try:
                    self.seen[name] = await step()
                except Exception as error:  # noqa: BLE001 - what the test reads then
                    self.seen[name] = f"{type(error).__name__}: {error}"
        self.seen |= {"asked": self.asked, "reported": self.progress, "logged": self.logged}
        sys.stdout.write(json.dumps(self.seen) + "\n")


class ForeignClient(ABC):
    """The steps of one client; it has the methods of `STEPS` for which it has an interface."""

    def __init__(self, journey: Journey, client: Any) -> None:
        self.journey = journey
        self.client = client

    @abstractmethod
    async def called(self, tool: str, **arguments: Any) -> str: ...

    async def form(self) -> str:
        return await self.called("test_elicitation", message="Who?")

    async def address(self) -> str:
        return await self.called("test_url_elicitation")

    async def sample(self) -> str:
        return await self.called("test_sampling", prompt="Capital?")

    async def roots(self) -> str:
        return await self.called("test_roots")

    async def progress(self) -> str:
        return await self.called("test_tool_with_progress")

    async def log(self) -> str:
        return await self.called("test_tool_with_logging")
