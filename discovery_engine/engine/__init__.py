"""The engine: what a program opens, and every verb that it has.

    async with open_engine("discovery.yaml") as engine:
        await engine.refresh()
        answer = await engine.search("create an issue")
        if answer.decision == "match":
            best = answer.hits[0].entry.tool
            result = await engine.execute(best.server, best.name, {"title": "It broke"})

Opening reads files only. The remembered catalog answers until `refresh`; no server is started or
reached before `refresh` or `execute`. A name is loaded when it is first used: what is remembered is
restored, by a module beside these, without an event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discovery_engine.engine.bootstrap import open_engine
    from discovery_engine.engine.engine import Engine
    from discovery_engine.engine.scoped_engine import ScopedEngine

_MODULES = {"Engine": "engine", "ScopedEngine": "scoped_engine", "open_engine": "bootstrap"}

__all__ = ["Engine", "ScopedEngine", "open_engine"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
