"""An agent in front of an engine with the server of `tests/servers/results_server.py`."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discovery_engine import CallbackClient, Engine
from discovery_engine.agent.cutting import result_tokens
from tests.agents import ask, fields_of
from tests.catalogs import JSONObject
from tests.engines import Folder, program

fields = fields_of
tokens_of = result_tokens

SERVER = Path(__file__).parent / "servers" / "results_server.py"


@dataclass(frozen=True)
class Agent:
    """One client of an engine with the server of results."""

    engine: Engine
    log: Path
    client: str | None = None

    async def __call__(self, meta_tool: str, **arguments: Any) -> JSONObject:
        client = CallbackClient(id=self.client) if self.client else None
        return await ask(self.engine, meta_tool, asker=client, **arguments)

    async def run(self, tool: str, given: JSONObject, **more: Any) -> JSONObject:
        return await self("execute_tool", tool=f"results:{tool}", arguments=given, **more)

    @property
    def sent(self) -> list[JSONObject]:
        """What has reached the server."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text("utf-8").splitlines()]


@asynccontextmanager
async def agent_of(
    folder: Path, *, limits: JSONObject | None = None, **sections: Any
) -> AsyncIterator[Agent]:
    """An agent, whose server has `limits`."""
    log = folder / "calls.jsonl"
    place = Folder(folder)
    place.write(program("results", sys.executable, str(SERVER), str(log)), **sections)
    if limits:
        content = json.loads(place.config.read_text("utf-8"))
        content["servers"]["results"]["limits"] = limits
        place.config.write_text(json.dumps(content), "utf-8")
    async with place.open() as engine:
        await engine.refresh()
        yield Agent(engine, log)
