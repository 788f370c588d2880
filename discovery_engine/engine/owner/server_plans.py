"""Plans changes of the configured servers, in `discovery.yaml` or in the registry.

A plan writes nothing, and shows the difference as a diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import ndiff
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine.config.editing import edit as editing
from discovery_engine.config.editing.import_plan import (
    NOT_STORABLE,
    ImportCandidate,
    SkippedServer,
    import_entry,
    own_copy,
)
from discovery_engine.config.editing.yaml_text import block
from discovery_engine.config.files.location import FILE_NAME
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.serialization import serialize_server
from discovery_engine.config.settings import OWN_SOURCE, REGISTRY, ServerSettings, Settings
from discovery_engine.engine.registered_servers import Registrations, joined
from discovery_engine.errors import ConfigurationError, Diagnostic, Origin
from discovery_engine.secrets.stored_values import SecretText
from discovery_engine.store.server_records import RegisteredServer, ServerOrigin
from discovery_engine.trust.server_identity import switched_as
from discovery_engine.upstream.connection import has_commands

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.editing.edit import Edit
    from discovery_engine.secrets.resolver import SecretResolver

Target: TypeAlias = Literal["file", "registry"]
Verb: TypeAlias = Literal["add", "update", "remove", "enable", "disable"]

_HERE = "the registry"
_COPY_SECRETS_HINT = (
    "`discovery config import --secrets keep` copies it, with variables in place of its secrets"
)


class ServerPlan(Struct, frozen=True):
    """A change of one server; `OwnedServers.apply` makes it."""

    verb: Verb
    name: str
    """The name by which the server is addressed once it is there."""
    where: Target
    diff: str = ""
    """Empty if nothing is to be changed."""
    server: ServerSettings | None = None
    """A server that is added or updated, as it will be in force."""
    original: ServerSettings | None = None
    """A server of another client's file, whose place its copy in the file takes."""
    changes: str = ""
    """The differences of the copy, as a diff of the entries."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Secrets of its entry, by the names under which they are to be stored."""
    edit: Edit | None = None
    saved: RegisteredServer | None = None
    dropped: str = ""
    """The name of a registered server that goes."""
    switches: Mapping[str, bool | None] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Warnings for its owner before it is made, for instance of a program that is not there."""

    @property
    def is_empty(self) -> bool:
        """True if it changes nothing."""
        is_edited = bool(self.edit and self.diff)
        return not (self.saved or self.dropped or self.switches or self.secrets or is_edited)


def plan_in_file(
    settings: Settings, name: str, entry: JSONObject, source: ServerOrigin = "manual"
) -> ServerPlan:
    """Plan to append a server to the configuration file, which is created if there is none.

    Raises:
        ConfigurationError: If the entry is invalid, the name is taken, or the file does not load.
    """
    literals = _without_literals(parsed_entry(name, entry), source)
    path = Path(settings.path or FILE_NAME).absolute()
    edit = editing.add_servers(path, [literals.server])
    return ServerPlan(
        "add", name, "file", edit.diff(), literals.server, secrets=literals.values, edit=edit
    )


def plan_update_in_file(
    settings: Settings, name: str, entry: JSONObject, source: ServerOrigin = "manual"
) -> ServerPlan:
    """Plan to replace the entry of a server in the configuration file.

    Raises:
        ConfigurationError: If the entry is invalid, or the file does not load.
    """
    literals = _without_literals(parsed_entry(name, entry), source)
    edit = editing.replace_server(Path(_file(settings)), literals.server)
    return ServerPlan(
        "update", name, "file", edit.diff(), literals.server, secrets=literals.values, edit=edit
    )


def plan_copy(
    settings: Settings, server: ServerSettings, secrets: SecretResolver, changed: ServerSettings
) -> ServerPlan:
    """Plan to copy a server of another client's file to the configuration file, with changes.

    Its secrets get names that are free in `secrets`.

    Raises:
        ConfigurationError: If the entry has a secret that cannot be stored, or the file does not
            load.
    """
    candidate = own_copy(settings, server, secrets, changed=changed)
    if isinstance(candidate, SkippedServer):
        raise refusal(
            server.origin,
            f"{server.name!r} cannot be copied: {candidate.reason}",
            _COPY_SECRETS_HINT,
        )
    as_it_is = own_copy(settings, server, secrets)
    before = as_it_is.server if isinstance(as_it_is, ImportCandidate) else None
    return _plan_of_copy(settings, "update", server, before, candidate)


def _plan_of_copy(
    settings: Settings,
    verb: Verb,
    original: ServerSettings,
    before: ServerSettings | None,
    candidate: ImportCandidate,
) -> ServerPlan:
    """Plan to add a copy; `before` is the entry of an unchanged one."""
    edit = editing.add_servers(Path(_file(settings)), [candidate.server], candidate.rules)
    return ServerPlan(
        verb,
        original.name,
        "file",
        edit.diff(),
        candidate.server,
        original=original,
        changes=_changes(before, candidate.server),
        secrets=candidate.secrets,
        edit=edit,
    )


def _changes(before: ServerSettings | None, after: ServerSettings) -> str:
    """Return the diff of two entries, without their common lines."""
    old, new = (
        block({server.name: serialize_server(server)}).splitlines(keepends=True) if server else []
        for server in (before, after)
    )
    return "".join(line[0] + line[2:] for line in ndiff(old, new) if line.startswith(("- ", "+ ")))


def refuse_commands(name: str, entry: JSONObject) -> None:
    """Check that an entry runs no program for a value; only an owner may write one that does.

    Raises:
        ConfigurationError: If it does, or is invalid.
    """
    server = parsed_entry(name, entry)
    if has_commands(server):
        hint = "write such an entry into discovery.yaml yourself"
        raise refusal(name, "its entry has a ${command:…}, which runs a program", hint)


class NewServer(Struct, frozen=True):
    """A server to be registered."""

    record: RegisteredServer
    is_wanted: bool = True
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Secrets that its entry refers to and that are to be stored with it."""


class RegistrationPlans(Struct, frozen=True):
    plans: Mapping[str, ServerPlan]
    """The plans by the names in the registry."""
    errors: Mapping[str, ConfigurationError]
    duplicates: Mapping[str, str]
    """The servers that are configured already, each with the reason."""


def plan_registration(
    settings: Settings, registrations: Registrations, new: NewServer, environ: Mapping[str, str]
) -> ServerPlan:
    """Plan to register a server, or to replace a registered one of that name.

    `settings` are those in force, with transports.

    Raises:
        ConfigurationError: If the entry is invalid, or the server is configured already.
    """
    name, outcome = new.record.name, plan_registrations(settings, registrations, [new], environ)
    if error := outcome.errors.get(name):
        raise error
    if why := outcome.duplicates.get(name):
        raise refusal(_HERE, f"{name!r} {why}", "nothing has to be added")
    return outcome.plans[name]


def plan_registrations(
    settings: Settings,
    registrations: Registrations,
    servers: Iterable[NewServer],
    environ: Mapping[str, str],
) -> RegistrationPlans:
    """Plan to register servers; an invalid one does not affect the others."""
    checked_servers: dict[str, NewServer] = {}
    errors: dict[str, ConfigurationError] = {}
    new_servers = {new.record.name: new for new in servers}
    parsed = _parsed({name: new.record.entry for name, new in new_servers.items()})
    for name, new in new_servers.items():
        try:
            checked_servers[name] = _checked(new, parsed[name])
        except ConfigurationError as error:
            errors[name] = error
    records = {name: new.record for name, new in checked_servers.items()}
    future = replace(registrations, mark="planned", servers={**registrations.servers, **records})
    others = tuple(server for server in settings.servers if not server.is_registered)
    result = joined(replace(settings, servers=others, warnings=()), future, environ)
    in_force = {s.renamed_from or str(s.name): s for s in result.servers if s.is_registered}
    plans = {
        name: _plan(new, in_force[name], registrations, settings.path)
        for name, new in checked_servers.items()
        if name in in_force
    }
    warned = {warning.subject: warning.message for warning in result.warnings}
    duplicates = {
        name: warned[f"servers.{name}"] for name in checked_servers if name not in in_force
    }
    return RegistrationPlans(plans, errors, duplicates)


def _checked(new: NewServer, parsed: ServerSettings | ConfigurationError) -> NewServer:
    """Return the server with its entry as it is stored.

    Raises:
        ConfigurationError: If the entry is invalid.
    """
    if isinstance(parsed, ConfigurationError):
        raise parsed
    literals = _without_literals(parsed, new.record.source)
    entry = serialize_server(replace(literals.server, enabled=True))
    return NewServer(
        replace(new.record, entry=entry),
        new.is_wanted and literals.server.enabled,
        {**new.secrets, **literals.values},
    )


def _plan(
    new: NewServer, server: ServerSettings, registrations: Registrations, path: str | None
) -> ServerPlan:
    name, before = new.record.name, registrations.servers.get(new.record.name)
    is_off = not (new.is_wanted or before)
    return ServerPlan(
        "update" if before else "add",
        server.name,
        "registry",
        _diff(name, before.entry if before else None, new.record.entry),
        server,
        secrets=new.secrets,
        saved=new.record,
        switches={switched_as(server, path): False} if is_off else {},
    )


def plan_removal(
    settings: Settings, server: ServerSettings, registrations: Registrations
) -> ServerPlan:
    """Plan to remove a server from the file or the registry, with its switch.

    Raises:
        ConfigurationError: If it stands in the file of another client.
    """
    name = server.renamed_from or server.name
    key = switched_as(server, settings.path)
    switches = {key: None} if key in registrations.switches else {}
    if server.is_registered:
        record = registrations.servers.get(name)
        diff = _diff(name, record.entry if record else {}, None)
        return ServerPlan("remove", server.name, "registry", diff, dropped=name, switches=switches)
    if server.source != OWN_SOURCE:
        place = server.origin.file or server.source
        hint = f"remove it there, or `discovery disable {server.name}`"
        raise refusal(place, f"{server.name!r} comes from this file of {server.source}", hint)
    edit = editing.remove_server(Path(_file(settings)), name)
    again = f"the entry of {server.replaces}, from which it was made, is used again if it is there"
    warnings = (again,) if server.replaces else ()
    return ServerPlan(
        "remove", name, "file", edit.diff(), edit=edit, switches=switches, warnings=warnings
    )


def plan_removal_of_duplicate(name: str, registrations: Registrations) -> ServerPlan | None:
    """Plan to remove a registered server that a file has, too; None if there is none."""
    record = registrations.servers.get(name.removesuffix(f"@{REGISTRY}"))
    if record is None:
        return None
    diff = _diff(record.name, record.entry, None)
    key = f"{REGISTRY}:{record.name}"
    switches = {key: None} if key in registrations.switches else {}
    return ServerPlan(
        "remove", record.name, "registry", diff, dropped=record.name, switches=switches
    )


def plan_switch(
    settings: Settings,
    server: ServerSettings,
    secrets: SecretResolver,
    *,
    is_wanted: bool,
    to: Target | None = None,
) -> ServerPlan:
    """Plan to switch a server on or off: in the file if it stands there, else in the registry.

    A registry that machines share switches it for all of them, except to take back an
    `enabled: false` of the file. A server of another client's file is copied; see `plan_copy`.

    Raises:
        ConfigurationError: If the file disables it, and the registry is to enable it; or the
            server stands in no file.
    """
    verb: Verb = "enable" if is_wanted else "disable"
    key = switched_as(server, settings.path)
    is_own = server.source == OWN_SOURCE
    is_shared = bool(settings.registry.url) and settings.cache.enabled
    if to is None and is_shared and (server.enabled or server.switch == "off"):
        to = "registry"
    copy = _unseen_copy(settings, server, secrets)
    if to == "file" and not (is_own or copy):
        raise refusal(server.name, f"it stands in no file of yours, but in {server.source}")
    in_file = is_own and to != "registry"
    if to != "registry" and settings.path and copy:
        if server.enabled is is_wanted:
            return ServerPlan(verb, server.name, "file")
        switched = replace(copy, server=replace(copy.server, enabled=is_wanted))
        return _plan_of_copy(settings, verb, server, copy.server, switched)
    if server.enabled is is_wanted and not (is_wanted and server.switch == "off"):
        return ServerPlan(verb, server.name, "file" if in_file else "registry")
    if server.switch == "off" and is_wanted:
        return _switched(verb, server, {key: None})
    if in_file:
        edit = editing.switch_server(Path(_file(settings)), server.name, is_on=is_wanted)
        return ServerPlan(verb, server.name, "file", edit.diff(), edit=edit)
    if is_own and is_wanted:
        hint = f"`discovery enable {server.name}` changes it there"
        raise refusal(_file(settings), f"{server.name!r} has `enabled: false` in the file", hint)
    return _switched(verb, server, {key: is_wanted})


def _unseen_copy(
    settings: Settings, server: ServerSettings, secrets: SecretResolver
) -> ImportCandidate | None:
    """Return a copy that needs no look of the owner: the original is approved already."""
    if not server.is_sourced or server.is_untrusted_origin:
        return None
    copy = own_copy(settings, server, secrets)
    return copy if isinstance(copy, ImportCandidate) else None


def parsed_entry(name: str, entry: JSONObject) -> ServerSettings:
    """Parse an entry of `servers`.

    Raises:
        ConfigurationError: If it is invalid; lists every problem.
    """
    parsed = _parsed({name: entry})[name]
    if isinstance(parsed, ConfigurationError):
        raise parsed
    return parsed


def _parsed(
    entries: Mapping[str, JSONObject],
) -> dict[str, ServerSettings | ConfigurationError]:
    """Parse entries; an invalid one gives the error with all its problems."""
    if not entries:
        return {}
    try:
        parsed = parse_settings(json.dumps({"servers": entries}).encode(), file="")
    except ConfigurationError as error:  # for instance too much at once
        if len(entries) == 1:
            return dict.fromkeys(entries, error)
        names = list(entries)
        halves = names[: len(names) // 2], names[len(names) // 2 :]
        first, second = (_parsed({name: entries[name] for name in half}) for half in halves)
        return first | second
    servers: dict[str, ServerSettings | ConfigurationError] = {}
    for server in parsed.servers:
        servers[server.name] = replace(server, origin=Origin(""))
        if server.problem:
            subject = f"servers.{server.name}"
            warnings = [warning for warning in parsed.warnings if _is_about(warning, subject)] or [
                server.problem
            ]
            problems = [replace(warning, excerpt="", origin=Origin("")) for warning in warnings]
            servers[server.name] = ConfigurationError(problems)
    return servers


def _is_about(problem: Diagnostic, subject: str) -> bool:
    return problem.subject == subject or problem.subject.startswith(f"{subject}.")


def refusal(place: object, message: str, hint: str = "") -> ConfigurationError:
    return ConfigurationError.of_file("CONFIG_NOT_EDITED", place, message, hint)


def _without_literals(server: ServerSettings, source: ServerOrigin) -> StoredLiterals:
    """Replace the secrets in an entry by references to stored ones.

    Entries of the marketplace have none; what looks like a secret is the hash of the package.

    Raises:
        ConfigurationError: If a secret stands where no reference is possible.
    """
    if source == "marketplace":
        return StoredLiterals(server)
    literals = _store_literals(server)
    _require_no_problem(server.name, literals.problem)
    return literals


def _require_no_problem(name: str, problem: str) -> None:
    if problem:
        hint = "pass it in a variable or a header, or write ${secret:NAME} for a stored one"
        raise refusal(name, problem, hint)


def _switched(
    verb: Verb, server: ServerSettings, switches: Mapping[str, bool | None]
) -> ServerPlan:
    words = ("off", "on") if verb == "enable" else ("on", "off")
    diff = "".join(f"{sign}{server.name}: {word}\n" for sign, word in zip("-+", words, strict=True))
    return ServerPlan(verb, server.name, "registry", diff, switches=switches)


def _diff(name: str, before: JSONObject | None, after: JSONObject | None) -> str:
    """Return the diff of registered entries, in the form of `discovery.yaml`."""
    return "".join(_signed("-", name, before)) + "".join(_signed("+", name, after))


def _signed(sign: str, name: str, entry: JSONObject | None) -> Iterator[str]:
    if entry is not None:
        yield from (f"{sign}{line}" for line in block({name: entry}).splitlines(keepends=True))


def _file(settings: Settings) -> str:
    """Return the configuration file in use.

    Raises:
        ConfigurationError: If no file is in use.
    """
    if settings.path is None:
        raise refusal("discovery.yaml", "no file is in use", "`discovery init` writes one")
    return settings.path


class StoredLiterals(Struct, frozen=True):
    """An entry with `${secret:SERVER/NAME}` in place of each secret that stood in it."""

    server: ServerSettings
    values: Mapping[str, SecretText] = {}
    """The secrets by the names under which they are to be stored."""
    problem: str = ""
    """The reason that the entry cannot be used: a secret where no reference is possible."""


def _store_literals(server: ServerSettings) -> StoredLiterals:
    """Return a new server with references to secrets, which are not stored yet."""
    as_it_is = import_entry(server)
    if isinstance(as_it_is, SkippedServer):
        return StoredLiterals(server, problem=as_it_is.reason if as_it_is.is_secret else "")
    candidate = import_entry(server, is_stored=True)
    if isinstance(candidate, SkippedServer) or candidate.variables:
        return StoredLiterals(server, problem=NOT_STORABLE)
    return StoredLiterals(candidate.server, candidate.secrets)
