"""The counters of one session."""

from __future__ import annotations

from discovery_engine.upstream.rpc_client import RpcClient
from discovery_engine.upstream.state import SessionStats
from discovery_engine.upstream.stdio.pipe_transport import PipeTransport


def session_stats(rpc: RpcClient | None, *, users: int) -> SessionStats:
    """The counters of a session, and the last stderr lines of its program; `rpc` once connected."""
    if rpc is None:
        return SessionStats(users=users)
    version, transport = rpc.info.version, rpc.transport
    if not isinstance(transport, PipeTransport):
        return SessionStats(users=users, protocol_version=version)
    garbage, pending = transport.reader.garbage, transport.peer.pending
    return SessionStats(
        users=users,
        protocol_version=version,
        pid=transport.child.pid,
        garbage=garbage.count,
        samples=tuple(garbage.samples),
        strays=pending.unsolicited,
        duplicates=pending.duplicates,
        stderr=transport.stderr,
        sandbox=transport.sandbox,
    )
