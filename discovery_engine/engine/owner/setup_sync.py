"""Plans to register the servers of a setup file; an invalid one does not affect the others."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.files.inputs import read_input
from discovery_engine.config.own_entry import OWN_ENTRY, is_own_entry
from discovery_engine.config.serialization import serialize_server
from discovery_engine.config.settings import Source
from discovery_engine.config.sources import read_source
from discovery_engine.config.sources.formats import UnreadableError, parse
from discovery_engine.config.sources.source_reader import kind_of
from discovery_engine.config.sources.variables import VariableSyntax
from discovery_engine.engine.owner.server_plans import NewServer, ServerPlan, plan_registrations
from discovery_engine.errors import ConfigurationError
from discovery_engine.secrets.references import is_secret_name, references_in
from discovery_engine.secrets.stored_values import SecretText, refusal_of
from discovery_engine.store.server_records import RegisteredServer

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.registered_servers import Registrations


class SyncProblem(Struct, frozen=True):
    """A server of the file that was not registered."""

    name: str
    reason: str


class SyncReport(Struct, frozen=True):
    registered: tuple[str, ...] = ()
    """The names by which the new servers are addressed."""
    activated: tuple[str, ...] = ()
    """The names of the new servers that are switched on."""
    skipped: tuple[SyncProblem, ...] = ()
    """Servers that are there already; they stay as they are."""
    errors: tuple[SyncProblem, ...] = ()


class SyncPlan(Struct, frozen=True):
    path: Path
    plans: tuple[ServerPlan, ...]
    report: SyncReport
    """The report on what will have been done."""


def setup_path(path: str | Path | None, environ: Mapping[str, str]) -> Path:
    """Return the path of the setup file.

    Raises:
        ConfigurationError: If none is named, or no file can have that name.
    """
    if named := path or environ.get(VARIABLE):
        if not _is_possible(str(named)):
            message = "no file can have that name"
            raise ConfigurationError.of_file("CONFIG_UNREADABLE", repr(str(named)), message)
        return Path(os.path.expanduser(named)).absolute()  # noqa: PTH111 - it knows `~nobody`, too
    hint = f"name a file, or set {VARIABLE}"
    raise ConfigurationError.of_file("CONFIG_UNREADABLE", "sync", "no setup file was given", hint)


def _is_possible(path: str) -> bool:
    """Return whether the system can be asked for a path at all."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def plan_sync(
    settings: Settings,
    registrations: Registrations,
    path: Path,
    entries: Iterable[SetupEntry],
    environ: Mapping[str, str],
    *,
    at: float,
    data: Path,
) -> SyncPlan:
    """Plan to register the new servers of the file `path`; `at` is Unix time in seconds."""
    there = {name.casefold() for name in registrations.servers}
    skipped: list[SyncProblem] = []
    errors: list[SyncProblem] = []
    new: list[NewServer] = []
    for entry in entries:
        if entry.problem:
            errors.append(SyncProblem(entry.name, entry.problem))
        elif entry.name.casefold() in there:
            skipped.append(SyncProblem(entry.name, "it is registered already"))
        else:
            new.append(_new(entry, at))
    outcome = plan_registrations(settings, registrations, new, environ)
    skipped += [SyncProblem(name, why) for name, why in outcome.duplicates.items()]
    errors += [
        SyncProblem(name, "; ".join(problem.message for problem in error.problems))
        for name, error in outcome.errors.items()
    ]
    own = [plan.name for plan in outcome.plans.values() if _is_own(plan, data)]
    skipped += [SyncProblem(name, OWN_ENTRY) for name in own]
    plans = tuple(plan for plan in outcome.plans.values() if plan.name not in own)
    report = SyncReport(
        tuple(plan.name for plan in plans),
        tuple(plan.name for plan in plans if not plan.switches),
        tuple(skipped),
        tuple(errors),
    )
    return SyncPlan(path, plans, report)


def _is_own(plan: ServerPlan, data: Path) -> bool:
    return plan.server is not None and is_own_entry(plan.server.transport, data)


def _new(entry: SetupEntry, at: float) -> NewServer:
    record = RegisteredServer(entry.name, entry.entry, "setup", created_at=at, updated_at=at)
    return NewServer(record, entry.is_wanted, entry.secrets)


# A setup file: servers for the registry, in the form that provisioning tools write.
#
#     [{"name": "mail", "command": "npx", "args": ["-y", "@acme/mail@1.2.3"], "tags": ["office"],
#       "secrets": {"MAIL_TOKEN": "$MAIL_TOKEN"}, "auto_activate": true}]
#
# It is a list, or a list or a map under `servers` or `mcpServers`. A file `NAME.local.json`
# beside `NAME.json` adds servers and keys, for what stands in no repository. `$NAME` and
# `${NAME}` refer to variables of the environment.

VARIABLE = "DISCOVERY_SETUP_FILE"

_MAX_SETUP_FILE_BYTES = 16 * 1024 * 1024  # bytes, some 100,000 servers
_SYNTAXES = ("escape", "brace", "env", "bare", "file")
_CONTAINERS = ("servers", "mcpServers")
_MERGED = ("env", "headers", "secrets")
_KEYS = {"auto_activate", "autoActivate", "secrets", "name"}
_TRANSPORTS = {"streamable-http": "http", "streamable_http": "http", "streamableHttp": "http"}
_HEADERS = {"AUTHORIZATION": ("Authorization", ""), "API_KEY": ("Authorization", "Bearer ")}
"""The header of a secret with that name, and what stands before its value."""


class SetupEntry(Struct, frozen=True):
    name: str
    entry: JSONObject = field(default_factory=dict)
    """The entry, as in `servers` of `discovery.yaml`."""
    secrets: Mapping[str, SecretText] = field(default_factory=dict)
    """Secrets that the entry refers to and that are to be stored, by their names."""
    is_wanted: bool = True
    problem: str = ""
    """The reason why it cannot be used; empty if it can."""


def read_setup(path: Path) -> list[SetupEntry]:
    """The servers of a setup file and of the one beside it, in their order.

    Raises:
        ConfigurationError: If it is not there, or one of both cannot be read.
    """
    syntax = VariableSyntax("a setup file", _SYNTAXES, folder=path.parent)
    entries: dict[str, JSONValue] = {}
    repeated: list[str] = []
    for name, entry in _entries(_document(path)):
        if name in entries:
            repeated.append(name)
        entries.setdefault(name, entry)
    local = path.with_suffix(f".local{path.suffix}")
    if local.exists():
        for name, entry in _entries(_document(local)):
            entries[name] = _overridden(entries.get(name), entry)
    servers = [_setup_entry(name, entry, syntax) for name, entry in entries.items()]
    return servers + [
        SetupEntry(name, problem="a second entry with this name") for name in repeated
    ]


def read_client(client: str, path: Path, environ: Mapping[str, str]) -> list[SetupEntry]:
    """The servers of the file of a client, in their order.

    A server of which the client allows some tools alone has a problem: the registry has no rules.

    Raises:
        ConfigurationError: If the file cannot be read.
    """
    source, home = Source(client, str(path)), Path.home()
    result = read_source(source, environ=environ, home=home, cwd=path.parent, platform=sys.platform)
    for warning in result.warnings:
        if warning.severity == "error":
            raise ConfigurationError([warning])
    limited = (
        f"its tools are limited there; `discovery config import --from {client}` keeps the limits"
    )
    return [
        SetupEntry(server.name, problem=limited)
        if result.restrictions({server.name: server.name})
        else SetupEntry(server.name, serialize_server(server), is_wanted=server.enabled)
        for server in result.servers
    ] + [SetupEntry(name, problem=reason) for name, reason in result.skipped]


def _document(path: Path) -> JSONValue:
    try:
        content, _ = read_input(str(path), limit=_MAX_SETUP_FILE_BYTES)
        document = parse(content, "json")
    except FileNotFoundError as error:
        raise _unusable(path, "there is no such file") from error
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror or error}") from error
    except UnreadableError as error:
        place = f"line {error.line}: " if error.line else ""
        raise _unusable(path, f"{place}{error.reason}", "a setup file is JSON") from error
    message, hint = kind_of(document)
    if message:
        raise _unusable(path, message, hint)
    return document


def _unusable(path: Path, message: str, hint: str = "") -> ConfigurationError:
    return ConfigurationError.of_file("CONFIG_UNREADABLE", path, message, hint)


def _entries(document: JSONValue) -> Iterator[tuple[str, JSONValue]]:
    """Each entry with its name; of those without one, a name that no server can have."""
    if isinstance(document, dict):
        document = next((document[key] for key in _CONTAINERS if key in document), document)
    if isinstance(document, dict):
        yield from document.items()
        return
    for number, entry in enumerate(document if isinstance(document, list) else [document], 1):
        name = entry.get("name") if isinstance(entry, dict) else None
        yield (name if isinstance(name, str) and name else f"entry {number}"), entry


def _overridden(entry: JSONValue, local: JSONValue) -> JSONValue:
    if not (isinstance(entry, dict) and isinstance(local, dict)):
        return local
    merged = {**entry, **local}
    for key in _MERGED:
        both = entry.get(key), local.get(key)
        if all(isinstance(side, dict) for side in both):
            merged[key] = {**entry[key], **local[key]}
    return merged


def _setup_entry(name: str, body: JSONValue, syntax: VariableSyntax) -> SetupEntry:
    if not isinstance(body, dict):
        return SetupEntry(name, problem="must be an object that describes a server")
    secrets = body.get("secrets") or {}
    if not isinstance(secrets, dict) or not all(
        isinstance(secret, str) for secret in secrets.values()
    ):
        return SetupEntry(name, problem="secrets: must be an object of texts")
    activation = body.get("auto_activate", body.get("autoActivate", True))
    if not isinstance(activation, bool):
        return SetupEntry(name, problem="auto_activate: must be true or false")
    entry = {key: value for key, value in body.items() if key not in _KEYS and value is not None}
    transport = entry.get("transport")
    if isinstance(transport, str):
        entry["transport"] = _TRANSPORTS.get(transport, transport)
    values, stored = _stored(name, secrets, syntax)
    if problem := next((f"secrets.{key}: {why}" for key, why in _refusals(stored)), ""):
        return SetupEntry(name, problem=problem)
    entry = _with_secrets(_translated(entry, syntax), values)
    return SetupEntry(name, entry, stored, activation)


def _stored(
    name: str, secrets: Mapping[str, str], syntax: VariableSyntax
) -> tuple[dict[str, str], dict[str, SecretText]]:
    """Return what to write for each secret, and the values that are to be stored."""
    values: dict[str, str] = {}
    stored: dict[str, SecretText] = {}
    for key, text in secrets.items():
        translated = syntax.translate(text)
        if references_in(translated):
            values[key] = translated
            continue
        _, before = _HEADERS.get(key, ("", ""))
        stored[f"{name}/{key}"] = SecretText(text.removeprefix(before))
        values[key] = f"${{secret:{name}/{key}}}"
    return values, stored


def _refusals(secrets: Mapping[str, SecretText]) -> Iterator[tuple[str, str]]:
    """The secrets that cannot be stored, and why."""
    for name, value in secrets.items():
        key = name.rpartition("/")[2]
        if not is_secret_name(name):
            yield key, "cannot be the name of a secret"
        elif why := refusal_of(value):
            yield key, why


def _translated(value: JSONValue, syntax: VariableSyntax) -> JSONValue:
    match value:
        case str():
            return syntax.translate(value)
        case list():
            return [_translated(element, syntax) for element in value]
        case dict():
            return {key: _translated(member, syntax) for key, member in value.items()}
    return value


def _with_secrets(entry: JSONObject, secrets: Mapping[str, str]) -> JSONObject:
    """Secrets as variables of a program, or as headers of an address."""
    if not secrets:
        return entry
    if "url" not in entry:
        return {**entry, "env": {**_map(entry.get("env")), **secrets}}
    headers = _map(entry.get("headers"))
    for name, value in secrets.items():
        header, before = _HEADERS.get(name, (name, ""))
        headers[header] = value if value.startswith(before) else f"{before}{value}"
    return {**entry, "headers": headers}


def _map(value: JSONValue) -> JSONObject:
    return dict(value) if isinstance(value, dict) else {}
