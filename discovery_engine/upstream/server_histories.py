"""The histories of all servers that were used so far."""

from __future__ import annotations

from discovery_engine.config.settings import ServerSettings
from discovery_engine.events import EventBus
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.history import Policy, ServerHistory
from discovery_engine.upstream.http.logins import Logins


class ServerHistories:
    """`logins` has the logins of remote servers, if any are used."""

    def __init__(self, events: EventBus, policy: Policy, logins: Logins | None) -> None:
        self._events = events
        self._policy = policy
        self._logins = logins
        self._login_stamp = logins.stamp() if logins else None
        self.by_server: dict[ServerName, ServerHistory] = {}

    def of(self, server: ServerSettings) -> ServerHistory:
        """The history of a server, under its present settings."""
        if (history := self.by_server.get(server.name)) is None:
            history = ServerHistory(server, self._events, self._policy)
            self.by_server[server.name] = history
        history.apply_settings(server)
        if history.awaits_login:
            self._try_new_logins()
        return history

    def _try_new_logins(self) -> None:
        """After a login, maybe in another process, servers that wait for one are tried at once."""
        if self._logins and (stamp := self._logins.stamp()) != self._login_stamp:
            self._login_stamp = stamp
            for history in self.by_server.values():
                if history.awaits_login:
                    history.reset_backoff()
