"""Merges the owner's servers with those of all sources; no name and no server occurs twice.

`discovery.yaml` always wins, and an earlier source wins over a later one. A server whose name is
taken is renamed, and a second entry for the same server is skipped. An entry of the owner with
`replaces` takes the place of a source's entry, even if their contents differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable
from functools import partial
from itertools import count
from typing import TypeAlias

from msgspec.structs import replace

from discovery_engine.config.settings import (
    OWN_SOURCE,
    RemoteTransport,
    ServerSettings,
    Settings,
    StdioTransport,
    with_default_sandbox,
)
from discovery_engine.config.sources import SourceResult
from discovery_engine.config.syntax import command_words
from discovery_engine.errors import Diagnostic
from discovery_engine.rules.rule import Rule
from discovery_engine.secrets.references import (
    MalformedReferenceError,
    Reference,
    UnsetReference,
    split,
)
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.tools.model import ServerName

Endpoint: TypeAlias = tuple[str, ...]
ValueOf: TypeAlias = Callable[[Reference], str]

_ORIGIN_OF_URL = re.compile(r"[a-z]+://[^/?#]*", re.IGNORECASE)


def endpoint(server: ServerSettings, value_of: ValueOf) -> Endpoint:
    """Return the words of a server's command, or its URL; empty if it has neither.

    `value_of` resolves references. Schemes and hosts of URLs are lower-cased, and a final `/` is
    removed.
    """
    if server.transport is None:
        return ()
    if isinstance(server.transport, StdioTransport):
        words = command_words(server.transport.command, server.transport.args)
        return tuple(_resolved(word, value_of) for word in words)
    url = _resolved(server.transport.url, value_of).rstrip("/")
    return (_ORIGIN_OF_URL.sub(lambda origin: origin.group().lower(), url, count=1),)


def value_of(
    reference: Reference, secrets: SecretResolver, kinds: Collection[str] = ("variable",)
) -> str:
    """Return the value of a reference, or its text if it is of another kind or has no value."""
    if reference.kind not in kinds:
        return str(reference)
    try:
        return secrets.value(reference, base_dir=None) or str(reference)
    except UnsetReference:
        return str(reference)


def _resolved(text: str, value_of: ValueOf) -> str:
    """Replace the references in a text by their values; return a malformed text unchanged."""
    try:
        parts = split(text)
    except MalformedReferenceError:
        return text
    return "".join(part if isinstance(part, str) else value_of(part) for part in parts)


_Values: TypeAlias = frozenset[tuple[str, str]]


def merge(settings: Settings, results: Iterable[SourceResult], secrets: SecretResolver) -> Settings:
    """Add the servers, rules, inputs and warnings of all sources to the settings.

    `secrets` resolves references, so that entries are compared by their values.
    """
    index = _ServerIndex(secrets)
    index.add_own([server for server in settings.servers if server.source == OWN_SOURCE])
    index.add([server for server in settings.servers if server.source != OWN_SOURCE])
    for source_result in results:
        result = index.without_replaced(source_result)
        fresh, duplicates, restrictions = index.without_duplicates(result)
        named, renamings = index.with_unique_names(fresh)
        index.add(named.servers)
        settings = replace(
            settings,
            servers=(*settings.servers, *named.servers),
            tool_rules=(*settings.tool_rules, *named.tool_rules, *restrictions),
            inputs=(*settings.inputs, *named.inputs),
            warnings=(*settings.warnings, *named.warnings, *duplicates, *renamings),
        )
    return with_default_sandbox(settings)


class _ServerIndex:
    """The servers merged so far, by name and by endpoint."""

    def __init__(self, secrets: SecretResolver) -> None:
        self._value_of = partial(value_of, secrets=secrets)
        self._names: set[str] = set()
        self._own: set[ServerName] = set()
        self._copies: dict[tuple[str, str], ServerSettings] = {}
        """Own servers whose replaced entry has not been found yet, by source and folded name."""
        self._switched_off: dict[Endpoint, ServerName] = {}
        """Endpoints that the owner has switched off, for entries with any values."""
        self._servers: dict[tuple[Endpoint, _Values, bool], ServerName] = {}
        """Names of servers by endpoint, values, and whether they are enabled."""

    def add_own(self, servers: Iterable[ServerSettings]) -> None:
        for server in servers:
            self._own.add(server.name)
            if server.replaces:
                self._copies[server.replaces, server.name.casefold()] = server
                self._add_twin(server, server.name)
            elif not server.enabled and (endpoint := self._endpoint(server)):
                self._switched_off.setdefault(endpoint, server.name)
        self.add(servers)

    def add(self, servers: Iterable[ServerSettings]) -> None:
        for server in servers:
            self._names.add(server.name.casefold())
            if endpoint := self._endpoint(server):
                key = (endpoint, self._values(server), server.enabled)
                self._servers.setdefault(key, server.name)

    def _add_twin(self, server: ServerSettings, name: ServerName) -> None:
        """Register a server so that entries with its endpoint and values are duplicates of it.

        This holds for enabled and for disabled entries.
        """
        if endpoint := self._endpoint(server):
            for enabled in (True, False):
                self._servers.setdefault((endpoint, self._values(server), enabled), name)

    def without_replaced(self, result: SourceResult) -> SourceResult:
        """Return the servers of a source without those that an own entry replaces.

        A replaced entry is recognized by the name that it would have without its copy, or by the
        name `NAME@SOURCE` and the same endpoint, if its name was taken when the copy was made.
        """
        gone = set()
        for server in result.servers:
            own = {name for source, name in self._copies if source == server.source}
            name = unique_name(server.name, server.source, self._names - own)
            key = (server.source, name.casefold())
            if copy := self._copies.pop(key, None) or self._renamed_copy(server):
                self._add_twin(server, copy.name)
                gone.add(server.name)
        return result.without(frozenset(gone))

    def _renamed_copy(self, server: ServerSettings) -> ServerSettings | None:
        name = unique_name(server.name, server.source, {server.name.casefold()})
        key = (server.source, name.casefold())
        copy = self._copies.get(key)
        if copy is None or self._endpoint(copy) != self._endpoint(server):
            return None
        return self._copies.pop(key)

    def without_duplicates(
        self, result: SourceResult
    ) -> tuple[SourceResult, list[Diagnostic], tuple[Rule, ...]]:
        """Split off the servers that are configured already.

        Two entries of one client are different servers to that client, and both stay. Tools that a
        client denies are also denied in another client's entry of the same server, but not in the
        owner's own entry.

        Returns:
            The new servers, warnings of the duplicates, and the rules by which duplicates restrict
            the servers that stay.
        """
        duplicates = {
            server.name: twin
            for server in result.servers
            if (twin := self._known_as(server)) is not None
        }
        warnings = [
            _warning(
                "SOURCE_DUPLICATE",
                server,
                f"is the same server as {duplicates[server.name]!r}, and left out",
            )
            for server in result.servers
            if server.name in duplicates
        ]
        twins = {name: twin for name, twin in duplicates.items() if twin not in self._own}
        return result.without(frozenset(duplicates)), warnings, result.restrictions(twins)

    def _known_as(self, server: ServerSettings) -> ServerName | None:
        if not (endpoint := self._endpoint(server)):
            return None
        values = self._values(server)
        name = self._servers.get((endpoint, values, True))
        if not server.enabled:
            name = name or self._servers.get((endpoint, values, False))
        return name or self._switched_off.get(endpoint)

    def with_unique_names(self, result: SourceResult) -> tuple[SourceResult, list[Diagnostic]]:
        taken = set(self._names)
        names: dict[ServerName, ServerName] = {}
        warnings = []
        for server in result.servers:
            name = unique_name(server.name, server.source, taken)
            taken.add(name.casefold())
            if name != server.name:
                names[server.name] = name
                message = f"is called {name!r} here, for its name is taken"
                warnings.append(_warning("SOURCE_RENAMED", server, message))
        return result.renamed(names), warnings

    def _endpoint(self, server: ServerSettings) -> Endpoint:
        return endpoint(server, self._value_of)

    def _values(self, server: ServerSettings) -> _Values:
        """Return the values that distinguish accounts at one endpoint.

        They are environment variables and the folder, or headers and the OAuth client.
        """
        match server.transport:
            case StdioTransport(env=env, cwd=cwd):
                named = [*env.items(), ("", cwd or "")]
            case RemoteTransport(headers=headers, oauth=oauth):
                named = [(name.lower(), value) for name, value in headers.items()]
                named += [("oauth", oauth.client_id)] if oauth.client_id else []
            case None:
                named = []
        return frozenset((name, _resolved(value, self._value_of)) for name, value in named)


def unique_name(name: ServerName, source: str, taken: Container[str]) -> ServerName:
    """Return the name itself, or `NAME@SOURCE`, `NAME@SOURCE-2` … if it is taken.

    Case is ignored, as in the patterns of rules; the names in `taken` are case-folded.
    """
    if name.casefold() not in taken:
        return name
    candidates = (f"{name}@{source}{f'-{n}' if n > 1 else ''}" for n in count(1))
    return ServerName(
        next(candidate for candidate in candidates if candidate.casefold() not in taken)
    )


def _warning(code: str, server: ServerSettings, message: str) -> Diagnostic:
    hint = f"it comes from {server.source}; `discovery.yaml` can name it otherwise"
    return Diagnostic(code, message, hint, f"servers.{server.name}", server.origin)
