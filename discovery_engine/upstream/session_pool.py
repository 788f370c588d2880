"""The open sessions: one for each server, or for each client of a server.

They are opened on first use, shared, and opened again when they no longer fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from anyio.abc import TaskGroup

from discovery_engine._util.json import JSONObject
from discovery_engine.config.settings import ServerSettings
from discovery_engine.rpc.client import Client
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.call import Call
from discovery_engine.upstream.handshake import Capabilities
from discovery_engine.upstream.history import ServerHistory
from discovery_engine.upstream.question import declarable, merged
from discovery_engine.upstream.session import Session
from discovery_engine.upstream.transport_opening import SessionContext

SessionKey: TypeAlias = tuple[ServerName, str | None]
"""A server and the client whose session it is; None for a shared session."""

_OWNERS_ROOTS: Capabilities = {"roots": {"listChanged": True}}
"""Declared where the owner's roots are given: a reload may change them."""
_SOLE_CLIENT = ""  # where the gateway has only one client


class SessionPool:
    """Runs its sessions in `tasks`."""

    def __init__(
        self,
        context: SessionContext,
        tasks: TaskGroup,
        history_of: Callable[[ServerSettings], ServerHistory],
    ) -> None:
        self._context = context
        self._tasks = tasks
        self._history_of = history_of
        self._sessions: dict[SessionKey, Session] = {}
        self._expected: Capabilities = {}

    def by_server(self) -> Mapping[ServerName, Session]:
        """The newest session of each server."""
        return {name: session for (name, _), session in self._sessions.items()}

    def close(self, server: ServerName) -> None:
        """Close the sessions of a server; see `Upstreams.close`."""
        for (name, _), session in self._sessions.items():
            if name == server:
                session.retire()

    def close_client(self, client: str) -> None:
        """Close the sessions of a client; see `Upstreams.close_client`."""
        for (_, owner), session in self._sessions.items():
            if owner == client:
                session.retire()

    def roots_changed(self, client: Client) -> None:
        """Notify servers of a client's changed roots; see `Upstreams.roots_changed`."""
        for session in self._sessions.values():
            session.roots_changed(client)

    def settings_changed(self) -> None:
        """Notify servers of the owner's changed roots; see `Upstreams.settings_changed`."""
        for session in self._sessions.values():
            session.settings_changed()

    def expect(self, capabilities: Mapping[str, JSONObject]) -> None:
        """Declare a client's capabilities in later sessions; see `Upstreams.expect`."""
        self._expected = merged(self._expected, declarable(capabilities))

    def for_listing(self, server: ServerSettings) -> Session:
        """Any open session: listing does not change it, and a start costs seconds."""
        for (name, _), session in self._sessions.items():
            if name == server.name and _serves(session, server):
                return session
        is_shared = server.session != "per_client"
        declared = self._expected if is_shared else {}
        return self._session((server.name, None), server, needed={}, declared=declared)

    async def ready_for(self, server: ServerSettings, call: Call) -> Session:
        """Return a session for a call during which its server may ask questions; see `for_call`.

        A session that is just being opened, to list tools for instance, may have declared too
        little, which is known once its era is.

        Raises:
            UnavailableError: If connecting fails.
        """
        session = self.for_call(server, call)
        if not session.may_lack(call.capabilities):
            return session
        async with session.lease():
            pass
        return self.for_call(server, call)

    def for_call(self, server: ServerSettings, call: Call) -> Session:
        """The shared session, or the client's own.

        A client without one takes over a session that was only used to list tools.
        """
        shared: SessionKey = (server.name, None)
        needed = call.capabilities
        if server.session != "per_client":
            if needed:
                self.expect(needed)
            return self._session(shared, server, needed=needed, declared=self._expected)
        own: SessionKey = (server.name, call.client.id or _SOLE_CLIENT)
        spare = self._sessions.get(shared)
        if own not in self._sessions and spare and spare.server.session == "per_client":
            self._sessions[own] = self._sessions.pop(shared)
        return self._session(own, server, needed=needed, declared=needed)

    def _session(
        self,
        key: SessionKey,
        server: ServerSettings,
        *,
        needed: Capabilities,
        declared: Capabilities,
    ) -> Session:
        """The current session; one that no longer fits is retired.

        Args:
            key: Of the session.
            server: Its settings now.
            needed: What a session of the older era must have declared.
            declared: What a new one declares, besides what the present one has.
        """
        session = self._sessions.get(key)
        if session is not None:
            if _serves(session, server) and session.declares(needed):
                return session
            session.replace()
            declared = merged(session.capabilities, declared)
        if self._context.questions_of(server.name).roots is not None:
            declared = merged(declared, _OWNERS_ROOTS)
        session = Session(server, self._context, self._history_of(server), declared)
        self._sessions[key] = session
        self._tasks.start_soon(self._run, session)
        return session

    async def _run(self, session: Session) -> None:
        try:
            await session.run()
        finally:  # a client that took it over has changed its key
            for key in [key for key, value in self._sessions.items() if value is session]:
                del self._sessions[key]


def _serves(session: Session, server: ServerSettings) -> bool:
    """Return whether a session takes new callers and has the same transport and limits."""
    opened_for = session.server
    if opened_for is server:
        return not session.is_retired
    is_alike = (opened_for.transport, opened_for.limits.answer_mib) == (
        server.transport,
        server.limits.answer_mib,
    )
    return is_alike and not session.is_retired
