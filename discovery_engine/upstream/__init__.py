"""Sessions with MCP servers: whatever a stranger's program does, it does to itself alone.

`sessions.open_upstreams` is the door. It loads the MCP SDK, which costs over a second of CPU,
so this face and the modules it draws on stay free of it: whoever only wants the values, or the
fingerprint of how a server is reached, does not pay.
"""

from __future__ import annotations

from discovery_engine.upstream.connection import EraMemory, connection_fingerprint
from discovery_engine.upstream.listing import Listing
from discovery_engine.upstream.state import Phase, SessionState

__all__ = [
    "EraMemory",
    "Listing",
    "Phase",
    "SessionState",
    "connection_fingerprint",
]
