"""The engine: what a program opens, and every verb that it has.

    async with open_engine("discovery.yaml") as engine:
        await engine.refresh()
        answer = await engine.search("create an issue")
        if answer.decision == "match":
            best = answer.hits[0].entry.tool
            result = await engine.execute(best.server, best.name, {"title": "It broke"})

Opening reads files only. The remembered catalog answers until `refresh`; no server is started or
reached before `refresh` or `execute`.
"""

from discovery_engine.engine.bootstrap import open_engine
from discovery_engine.engine.engine import Engine
from discovery_engine.engine.scoped_engine import ScopedEngine

__all__ = ["Engine", "ScopedEngine", "open_engine"]
