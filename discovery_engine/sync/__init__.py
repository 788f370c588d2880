"""The engine without `async`, for scripts and notebooks.

    from discovery_engine.sync import open_engine

    with open_engine("discovery.yaml") as engine:
        answer = engine.search("create an issue")
        if answer.decision == "match":
            best = answer.hits[0].entry.tool
            result = engine.execute(best.server, best.name, {"title": "It broke"})

The verbs are those of `discovery_engine.Engine`, run on one event loop in one thread behind all
engines that are opened here. It may be used where a loop runs already, as in a notebook. Callbacks
are called in the thread that waits for the verb, and Ctrl-C there cancels the call, upstream too.
"""

from discovery_engine.sync.blocking_engine import SyncEngine, SyncToolset, open_engine
from discovery_engine.sync.mirrors import SyncTool
from discovery_engine.sync.sync_client import SyncClient

__all__ = ["SyncClient", "SyncEngine", "SyncTool", "SyncToolset", "open_engine"]
