"""Sessions with MCP servers; a faulty server affects no other.

    sessions        the door: lists a server's tools, calls them
      listing       many pages, and the tools in them that cannot be used
      failures      what a request that failed means for whoever made it
      timeout      how long a call may take
      history        how a server has behaved so far (breaker, state), and its slots
    session         one connection from its opening to its end
      attempt       which ways to reach a server are tried (connection: what is known of it)
      handshake     the opening words; rpc: the requests after them
    transport            what carries the messages, one of
      stdio/        a program's pipes
      http/         an address
    wire/           the messages themselves, and what reading them may cost
    identity        what a server's approval is bound to

The door loads the MCP SDK, which costs over a second of CPU, so this face and the modules it draws
on stay free of it: whoever only wants the values, or the fingerprint of how a server is reached,
does not pay.
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
