"""Plans of imports: the servers to copy from other clients' files to `discovery.yaml`.

A secret is never copied. It becomes a reference: to a stored secret, whose value the plan holds for
the secret store, or to an environment variable that the owner has to set. A server whose secret
cannot become a reference is skipped, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.config.loading.merging import Endpoint, endpoint, unique_name, value_of
from discovery_engine.config.settings import (
    RemoteTransport,
    ServerSettings,
    Settings,
    StdioTransport,
)
from discovery_engine.config.sources import SourceResult
from discovery_engine.config.sources.source_result import literal_pattern
from discovery_engine.errors import Diagnostic
from discovery_engine.rules.rule import Rule
from discovery_engine.secrets.masking import hide_secrets_in_args, hide_secrets_in_url
from discovery_engine.secrets.references import (
    REDACTED,
    MalformedReferenceError,
    Reference,
    UnsetReference,
    is_secret_name,
    is_variable,
    references_in,
    split,
)
from discovery_engine.secrets.resolver import SecretResolver
from discovery_engine.secrets.stored_values import SecretText, refusal_of
from discovery_engine.secrets.values import is_secret
from discovery_engine.tools.model import ServerName

NOT_STORABLE = "it has a secret that cannot be stored, for instance one of several lines"

_ASSIGNED = re.compile(r"(?P<name>\w[\w.-]*)=$")
_SCHEME = re.compile(r"(Bearer|Basic|Token)\s+", re.IGNORECASE)


class ImportCandidate(Struct, frozen=True):
    server: ServerSettings
    variables: tuple[str, ...] = ()
    """Environment variables that the owner has to set, since secrets are not copied."""
    secrets: Mapping[str, SecretText] = {}
    """Secrets to store, by the names in the references of the entry."""
    original: ServerSettings | None = None
    """The server in force that the entry replaces; None if it replaces none."""
    rules: tuple[Rule, ...] = ()
    """The rules of clients' files for `original`."""

    @property
    def is_seen(self) -> bool:
        """True if the arguments of its program, which other programs can read, contain a secret."""
        args = (
            self.server.transport.args if isinstance(self.server.transport, StdioTransport) else ()
        )
        references = (reference for arg in args for reference in references_in(arg))
        return any(reference.kind == "secret" for reference in references)


class SkippedServer(Struct, frozen=True):
    name: str
    reason: str
    is_secret: bool = False
    """True if the entry cannot be copied without a secret."""
    is_problem: bool = True
    """False if the owner has nothing to do about it."""


def import_entry(
    server: ServerSettings, *, is_stored: bool = False, secrets: SecretResolver | None = None
) -> ImportCandidate | SkippedServer:
    """Replace the secrets of an entry by references, or return why it has to be skipped.

    By default they become variables, and an entry with a secret in its arguments or its address is
    skipped. With `is_stored` they become stored secrets, also in arguments and addresses, if their
    values can be stored. A name that has another value in `secrets` is not reused.
    """
    references = _References(server.name, is_stored=is_stored, known=secrets)
    taken: StdioTransport | RemoteTransport | SkippedServer
    match server.transport:
        case StdioTransport() as stdio:
            taken = _stdio(server, stdio, references)
        case RemoteTransport() as remote:
            taken = _remote(server, remote, references)
        case None:
            problem = server.problem.sentence if server.problem else ""
            return SkippedServer(server.name, problem or "it has neither a command nor an address")
    if isinstance(taken, SkippedServer):
        return taken
    return ImportCandidate(
        replace(server, transport=taken),
        tuple(dict.fromkeys(references.variables)),
        references.secrets,
    )


def own_copy(
    settings: Settings,
    server: ServerSettings,
    secrets: SecretResolver,
    *,
    changed: ServerSettings | None = None,
    is_stored: bool = True,
) -> ImportCandidate | SkippedServer:
    """Turn a server of another client's file into an entry of `discovery.yaml` that replaces it.

    Args:
        settings: The settings in force.
        server: One of their servers, from another client's file.
        secrets: See `import_entry`.
        changed: The server as the entry should have it; None for no changes.
        is_stored: See `import_entry`.
    """
    entry = replace(changed or server, name=server.name, replaces=server.source)
    entry = _without_default_sandbox(entry, server)
    taken = import_entry(entry, is_stored=is_stored, secrets=secrets)
    if isinstance(taken, SkippedServer):
        return taken
    if is_stored and taken.variables:  # the copy would wait for them; the original has its secrets
        return SkippedServer(server.name, NOT_STORABLE)
    about = (literal_pattern(server.name),)
    rules = tuple(
        rule
        for rule in settings.tool_rules
        if rule.servers == about and rule.origin.file not in ("", settings.path)
    )
    return replace(taken, original=server, rules=rules)


def _without_default_sandbox(entry: ServerSettings, server: ServerSettings) -> ServerSettings:
    """Remove a sandbox that comes from the setting `server.sandbox`, not from the entry."""
    match entry.transport, server.transport:
        case StdioTransport() as stdio, StdioTransport(sandbox=sandbox) if stdio.sandbox == sandbox:
            return replace(entry, transport=replace(stdio, sandbox=None))
    return entry


class _References:
    """Makes references for the secrets of one entry, and collects their variables and values."""

    def __init__(self, server: str, *, is_stored: bool, known: SecretResolver | None) -> None:
        self.variables: list[str] = []
        self.secrets: dict[str, SecretText] = {}
        self._server = server
        self._is_stored = is_stored
        self._known = known

    def without_secret(self, name: str, value: str, variable: str) -> str:
        """The value, or a reference if it is a literal that looks like a secret."""
        if references_in(value) or not value:
            return value
        if not is_secret(value, name) and hide_secrets_in_args([value]) == (value,):
            return value
        prefix = _SCHEME.match(value)
        scheme = prefix.group() if prefix else ""
        reference = self.stored(name, value.removeprefix(scheme))
        if reference is None:
            self.variables.append(variable)
            reference = f"${{{variable}}}"
        return scheme + reference

    def without_hidden(self, name: str, text: str, mask: str) -> str | None:
        """Replace the secrets in a text by references; None if one of them cannot be replaced.

        `mask` is the same text with `REDACTED` in place of each secret.
        """
        if text == mask:
            return text
        first, *others = mask.split(REDACTED)
        form = "(.+?)".join(map(re.escape, (first, *others)))
        match = re.fullmatch(form, text, re.DOTALL)
        if match is None or any(REDACTED in str(reference) for reference in references_in(mask)):
            return None  # the secret is the default value of a reference
        whole = first
        for secret, other in zip(match.groups(), others, strict=True):
            assigned = _ASSIGNED.search(whole)
            reference = self.stored(assigned["name"] if assigned else name, secret)
            if reference is None:
                return None
            whole += reference + other
        return whole

    def stored(self, name: str, text: str) -> str | None:
        """Return a reference to a secret to store; None if it must not or cannot be stored."""
        value = _literal(text)
        stored = self._free(f"{self._server}/{_word(name)}", value)
        if not self._is_stored or refusal_of(value) or not is_secret_name(stored):
            return None
        self.secrets[stored] = SecretText(value)
        return f"${{secret:{stored}}}"

    def _free(self, name: str, value: str) -> str:
        """Return the name, with a number appended if it stands for another value already."""
        number, free = 1, name
        while self._value(free, value) != value:
            number += 1
            free = f"{name}-{number}"
        return free

    def _value(self, name: str, value: str) -> str:
        """Return the value that a name stands for, here or in the store; `value` if for none."""
        if name not in self.secrets and self._known:
            with suppress(UnsetReference):
                return self._known.value(Reference("secret", name), base_dir=None)
        return self.secrets.get(name, value)


def _stdio(
    server: ServerSettings, stdio: StdioTransport, refs: _References
) -> StdioTransport | SkippedServer:
    args = []
    before = ""
    for arg, masked_arg in zip(stdio.args, hide_secrets_in_args(stdio.args), strict=True):
        taken = refs.without_hidden(before.lstrip("-") or "argument", arg, masked_arg)
        if taken is None:
            return SkippedServer(server.name, "its arguments carry a secret", is_secret=True)
        args.append(taken)
        before = arg if arg.startswith("-") else ""
    env = {
        name: refs.without_secret(name, value, _variable(name)) for name, value in stdio.env.items()
    }
    return replace(stdio, args=tuple(args), env=env)


def _remote(
    server: ServerSettings, remote: RemoteTransport, refs: _References
) -> RemoteTransport | SkippedServer:
    url = refs.without_hidden("address", remote.url, hide_secrets_in_url(remote.url))
    if url is None:
        return SkippedServer(server.name, "its address carries a secret", is_secret=True)
    headers = {
        name: refs.without_secret(name, value, _variable_of_header(server.name, name))
        for name, value in remote.headers.items()
    }
    variable = _variable_of_header(server.name, "client_secret")
    secret = refs.without_secret("clientSecret", remote.oauth.client_secret, variable)
    oauth = replace(remote.oauth, client_secret=secret)
    return replace(remote, url=url, headers=headers, oauth=oauth)


def _literal(text: str) -> str:
    """Unescape a text without references: `$${` becomes `${`."""
    try:
        return "".join(map(str, split(text)))
    except MalformedReferenceError:
        return text


def _word(name: str) -> str:
    """Replace the characters of a name that the name of a secret may not have."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip(".-")[:100] or "value"


def _variable(name: str) -> str:
    """Return the name, changed as far as a reference to a variable requires."""
    if is_variable(name):
        return name
    plain = re.sub(r"[^A-Z0-9]+", "_", name.upper())
    return plain if is_variable(plain) else f"_{plain}"


def _variable_of_header(server: str, header: str) -> str:
    words = "TOKEN" if header.casefold() == "authorization" else header
    return _variable(re.sub(r"\W+", "_", f"{server}_{words}").upper())


Stores: TypeAlias = Literal["all", "live", "none"]
"""The servers whose secrets are stored: all of them, those in force, or none."""


class ImportPlan(Struct):
    servers: list[ImportCandidate] = field(default_factory=list)
    skipped: list[SkippedServer] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def add(self, candidate: ImportCandidate | SkippedServer, name: str) -> bool:
        """Add a server under the name that its client's file has; return whether it is imported."""
        if isinstance(candidate, SkippedServer):
            self.skipped.append(replace(candidate, name=name))
            return False
        self.servers.append(candidate)
        self.rules += candidate.rules
        return True

    @property
    def names(self) -> set[ServerName]:
        return {candidate.server.name for candidate in self.servers}

    @property
    def has_failed(self) -> bool:
        """True if the import achieves nothing: no server is added, and none is there already."""
        is_there = any(warning.code == "SOURCE_ITSELF" for warning in self.warnings)
        return not (self.servers or is_there) and all(server.is_problem for server in self.skipped)

    @property
    def variables(self) -> list[str]:
        return sorted({name for candidate in self.servers for name in candidate.variables})

    @property
    def secrets(self) -> dict[str, SecretText]:
        """All secrets to store, by name."""
        return {
            name: text for candidate in self.servers for name, text in candidate.secrets.items()
        }

    @property
    def has_literals(self) -> bool:
        """True if the files hold secrets that could be stored."""
        return bool(self.variables) or any(server.is_secret for server in self.skipped)


def plan_import(
    results: Sequence[tuple[str, SourceResult]],
    settings: Settings,
    only: Sequence[str],
    secrets: SecretResolver,
    *,
    stores: Stores = "live",
) -> ImportPlan:
    """Plan the import of servers from clients' files.

    A server that is in force from its client's file is copied with the settings in force, and the
    copy replaces it.

    Args:
        results: The content of each file, with the id of its client.
        settings: The settings in force.
        only: The names of the servers to import; empty for all.
        secrets: Resolves references, so that entries can be compared by their values; its names are
            not reused for other values.
        stores: The servers whose secrets are stored, see `import_entry`. Servers in force keep
            working without further steps only if theirs are.
    """
    plan = ImportPlan()
    known_servers = KnownServers(settings.servers, secrets)
    known_servers.claim([server for _, imported in results for server in imported.servers])
    for client, imported in results:
        _add_client(plan, client, imported, known_servers, only, settings, secrets, stores=stores)
    return plan


def _add_client(
    plan: ImportPlan,
    client: str,
    imported: SourceResult,
    servers: KnownServers,
    only: Sequence[str],
    settings: Settings,
    secrets: SecretResolver,
    *,
    stores: Stores,
) -> None:
    names: dict[ServerName, ServerName] = {}
    twins: dict[ServerName, ServerName] = {}
    for server in imported.servers:
        if only and server.name not in only:
            continue
        live = servers.live(client, server)
        if live and live.name not in plan.names:
            plan.add(own_copy(settings, live, secrets, is_stored=stores != "none"), live.name)
            continue
        if (same := servers.same_as(server)) is not None:
            reason = f"from {client}: it is there already, as {same!r}"
            plan.skipped.append(SkippedServer(server.name, reason, is_problem=False))
            twins |= {server.name: same} if same in plan.names else {}
            continue
        name = unique_name(server.name, client, servers.names)
        renamed = replace(server, name=name, source=client)  # secrets are stored under that name
        candidate = import_entry(renamed, is_stored=stores == "all", secrets=secrets)
        if plan.add(candidate, server.name):
            servers.add(server, name)
            names[server.name] = name
    others = frozenset(server.name for server in imported.servers) - names.keys()
    plan.rules += imported.without(others).renamed(names).tool_rules
    plan.rules += imported.restrictions(twins)
    plan.warnings += imported.warnings
    plan.skipped += [SkippedServer(name, reason) for name, reason in imported.skipped]


# Servers that the configuration already has, so that no import adds one twice.


class KnownServers:
    def __init__(self, servers: Iterable[ServerSettings], secrets: SecretResolver) -> None:
        self._value_of = partial(value_of, secrets=secrets, kinds=("variable", "secret"))
        self._by_name = {server.name: server for server in servers}
        self._by_endpoint: dict[Endpoint, ServerName] = {}
        for server in self._by_name.values():
            self._by_endpoint.setdefault(self._endpoint(server), server.name)
        self._sourced = [server for server in self._by_name.values() if server.is_sourced]
        self.names = {name.casefold() for name in self._by_name}

    def claim(self, servers: Iterable[ServerSettings]) -> None:
        """Exclude entries with the endpoint of one of these servers from being copies of others."""
        endpoints = map(self._endpoint, servers)
        claimed = {self._by_endpoint.get(endpoint) for endpoint in endpoints}
        self._by_name = {
            name: server for name, server in self._by_name.items() if name not in claimed
        }

    def same_as(self, server: ServerSettings) -> ServerName | None:
        """Return the name of the entry for the same server; None if there is none.

        It has the same endpoint, or else an earlier import made it from an entry of this name: its
        secret may have changed since, in the store or in the client's file.
        """
        if (same := self._by_endpoint.get(self._endpoint(server))) is not None:
            return same
        return next(
            (entry.name for entry in self._by_name.values() if _is_copy(entry, server)), None
        )

    def live(self, client: str, server: ServerSettings) -> ServerSettings | None:
        """Return the server in force that comes from this entry of a client's file, if any."""
        same = self.same_as(server)
        exact = (
            entry
            for entry in self._sourced
            if (entry.source, entry.origin.file) == (client, server.origin.file)
            and (entry.renamed_from or entry.name) == server.name
        )
        return next(exact, None) or next(
            (entry for entry in self._sourced if entry.name == same), None
        )

    def add(self, server: ServerSettings, name: ServerName) -> None:
        self._by_endpoint[self._endpoint(server)] = name
        self.names.add(name.casefold())

    def _endpoint(self, server: ServerSettings) -> Endpoint:
        return endpoint(server, self._value_of) or ("", server.name)


def _is_copy(entry: ServerSettings, server: ServerSettings) -> bool:
    """Return whether an import of `server`, from another file, writes the endpoint of `entry`."""
    if entry.name != server.name and not entry.name.startswith(f"{server.name}@"):
        return False
    copy = import_entry(replace(server, name=entry.name), is_stored=True)
    return isinstance(copy, ImportCandidate) and endpoint(copy.server, str) == endpoint(entry, str)
