"""The owner's own servers and those of all sources, merged: no name and no endpoint twice.

What `discovery.yaml` says always wins, and an earlier source wins over a later one. Whoever
loses a name gets another; a second way to an endpoint that is known already is left out.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from itertools import count
from typing import TypeAlias

from msgspec.structs import replace

from discovery_engine.config.settings import ServerSettings, Settings, StdioTransport
from discovery_engine.config.sources import Imported
from discovery_engine.errors import Problem
from discovery_engine.secrets import MalformedReferenceError, split
from discovery_engine.tools import ServerName

_Endpoint: TypeAlias = tuple[str, ...]

_ORIGIN_OF_URL = re.compile(r"[a-z]+://[^/?#]*", re.IGNORECASE)


def merge(settings: Settings, imports: Iterable[Imported], environ: Mapping[str, str]) -> Settings:
    """The settings with the servers, rules, inputs and warnings of all sources.

    Endpoints are compared with the values that `environ` gives to their references.
    """
    known = _Known(environ)
    known.add(settings.servers)
    for imported in imports:
        fresh, doubles = known.without_doubles(imported)
        named, renamings = known.with_free_names(fresh)
        known.add(named.servers)
        settings = replace(
            settings,
            servers=(*settings.servers, *named.servers),
            tool_rules=(*settings.tool_rules, *named.tool_rules),
            inputs=(*settings.inputs, *named.inputs),
            warnings=(*settings.warnings, *named.warnings, *doubles, *renamings),
        )
    return settings


class _Known:
    """The names and endpoints that are taken."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._names: set[str] = set()
        self._endpoints: dict[_Endpoint, ServerName] = {}

    def add(self, servers: Iterable[ServerSettings]) -> None:
        for server in servers:
            self._names.add(server.name.casefold())
            if endpoint := self._endpoint(server):
                self._endpoints.setdefault(endpoint, server.name)

    def without_doubles(self, imported: Imported) -> tuple[Imported, list[Problem]]:
        """Two entries of one client are two to that client, and are both kept."""
        doubles = {
            server.name: self._endpoints[endpoint]
            for server in imported.servers
            if (endpoint := self._endpoint(server)) in self._endpoints
        }
        warnings = [
            _warning(server, f"is the same server as {doubles[server.name]!r}, and left out")
            for server in imported.servers
            if server.name in doubles
        ]
        return imported.without(frozenset(doubles)), warnings

    def with_free_names(self, imported: Imported) -> tuple[Imported, list[Problem]]:
        taken = set(self._names)
        names: dict[ServerName, ServerName] = {}
        warnings = []
        for server in imported.servers:
            name = free_name(server.name, server.source, taken)
            taken.add(name.casefold())
            if name != server.name:
                names[server.name] = name
                warnings.append(_warning(server, f"is called {name!r} here, for its name is taken"))
        return imported.renamed(names), warnings

    def _endpoint(self, server: ServerSettings) -> _Endpoint:
        """What is started or reached; empty for a server that is neither."""
        if server.transport is None:
            return ()
        if isinstance(server.transport, StdioTransport):
            return tuple(map(self._resolved, (server.transport.command, *server.transport.args)))
        url = self._resolved(server.transport.url).rstrip("/")
        return (_ORIGIN_OF_URL.sub(lambda origin: origin.group().lower(), url, count=1),)

    def _resolved(self, text: str) -> str:
        """With the values of variables as far as they are known; files are not opened."""
        try:
            parts = split(text)
        except MalformedReferenceError:
            return text
        environ = self._environ
        return "".join(
            part if isinstance(part, str) else environ.get(part.name) or part.default or str(part)
            for part in parts
        )


def free_name(name: ServerName, source: str, taken: Container[str]) -> ServerName:
    """The name itself, or one with its source's if it is taken.

    Names are compared without case, as the patterns of rules do; `taken` are case-folded.
    """
    if name.casefold() not in taken:
        return name
    candidates = (f"{name}@{source}{f'-{n}' if n > 1 else ''}" for n in count(1))
    return ServerName(next(one for one in candidates if one.casefold() not in taken))


def _warning(server: ServerSettings, message: str) -> Problem:
    hint = f"it comes from {server.source}; `discovery.yaml` can name it otherwise"
    return Problem(server.origin, f"servers.{server.name}", message, hint)
