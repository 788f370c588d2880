"""The identity of a server: what its approval is bound to, computed for the current environment.

It covers the entry as written. Values of `env` and `headers` are excluded because they are secrets,
except those read from files, which may come with a project. Stored secrets never count. Other
values count where they may select what runs: the command, arguments, the working directory, the
address, and variables that make a program load or reach something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import to_builtins

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.config.syntax import INTERPRETER, program_name
from discovery_engine.errors import UnavailableError
from discovery_engine.secrets.masking import selecting_references, without_credentials
from discovery_engine.secrets.references import (
    REDACTED,
    MalformedReferenceError,
    Reference,
    reads_file,
    redact_literals,
    references_in,
    split,
)
from discovery_engine.secrets.resolver import SecretResolver, resolve
from discovery_engine.secrets.secret_names import NameKind
from discovery_engine.tools.model import canonical_json, fingerprint
from discovery_engine.trust.server_identity import (
    UNSET,
    ApprovalSubject,
    Identity,
    earlier_identity,
)
from discovery_engine.upstream.connection import resolved_fields, with_fields, written_fields
from discovery_engine.upstream.file_digests import digests_of, project_of
from discovery_engine.upstream.stdio.environment import child_environment
from discovery_engine.upstream.stdio.executable import on_this_machine

TransportSettings = StdioTransport | RemoteTransport
Programs: TypeAlias = dict[tuple[str, tuple[str, ...], str | None, str | None], str]
"""Paths of programs by command, what `cmd` is given, working folder and `PATH`; empty for none."""

_SELECTING = lazy_pattern(
    r"(LD|DYLD)_.*|PATH|PYTHON(PATH|HOME|STARTUP)|NODE_(OPTIONS|PATH)|(RUBY|PERL5)(OPT|LIB)"
    r"|JAVA_TOOL_OPTIONS|BASH_ENV|ENV|IFS|GIT_SSH(_COMMAND)?|NPM_CONFIG_.*|UV_.*|PIP_.*|.*_PROXY|OPENAPI_URL",
    re.IGNORECASE,
)

_NEVER_COUNT = ("secret", "command")
"""Kinds of references whose values are secrets, whatever place they stand in."""


def selects_code(variable: str) -> bool:
    """Return whether a variable makes a program load or run code that its command does not name."""
    return _SELECTING.fullmatch(variable) is not None


def identity_as_configured(
    server: ServerSettings,
    secrets: SecretResolver,
    environ: Mapping[str, str],
    programs: Programs | None = None,
) -> Identity:
    """The identity of a server if it were started now; missing values are left out.

    Programs are looked for as `environ` has it; those that were looked for already are in
    `programs`, and the others are added.
    """
    values, _ = resolved_fields(server, secrets)
    values = _without_secrets(server, values, secrets)
    return _identity(server, values, secrets, environ, {} if programs is None else programs)


def identity_of(
    server: ServerSettings,
    transport: TransportSettings,
    secrets: SecretResolver,
    environ: Mapping[str, str],
) -> Identity:
    """The identity of `server`; `transport` is its own with every reference resolved."""
    values = _without_secrets(server, written_fields(transport), secrets)
    return _identity(server, values, secrets, environ, {})


def _without_secrets(
    server: ServerSettings, values: Mapping[str, str], secrets: SecretResolver
) -> Mapping[str, str]:
    """The texts of an entry with each `${secret:…}` and `${command:…}` as it is written."""
    held = [
        place
        for place, text in written_fields(server.transport).items()
        if any(reference.kind in _NEVER_COUNT for reference in references_in(text))
    ]
    if not held:
        return values
    fields, _ = resolved_fields(server, _SecretsAsWritten(secrets))
    return {**values, **{place: fields[place] for place in held if place in fields}}


class _SecretsAsWritten:
    def __init__(self, others: SecretResolver) -> None:
        self._others = others

    def value(self, reference: Reference, *, base_dir: str | None) -> str:
        if reference.kind in _NEVER_COUNT:
            return str(reference)
        return self._others.value(reference, base_dir=base_dir)

    def run(self, reference: Reference, *, base_dir: str | None) -> None:
        """Run nothing: the output of a command never counts."""


def _identity(
    server: ServerSettings,
    values: Mapping[str, str],
    secrets: SecretResolver,
    environ: Mapping[str, str],
    programs: Programs,
) -> Identity:
    program = _program(server, values, environ, programs)
    selecting = dict(_selecting_values(server, values, secrets))
    subject = ApprovalSubject(
        {name: _digest(part) for name, part in _entry(server).items()},
        program,
        {place: UNSET if v is None else _digest([place, v]) for place, v in selecting.items()},
        _files(server, values, program),
    )
    return Identity(subject, _earlier(server, values, program))


def _entry(server: ServerSettings) -> dict[str, object]:
    """The parts of an entry, and of its file, that decide what runs and what agents read of it."""
    form: dict[str, object] = {"file": server.origin.file, "description": server.description}
    form["overrides"] = server.bound_to
    match server.transport:
        case StdioTransport(command, args, env, cwd):
            form |= {"command": command, "args": list(args), "env": dict(env), "cwd": cwd}
            # Absent without one, as in approvals of versions that had none.
            return form | ({"sandbox": to_builtins(server.sandbox)} if server.sandbox.is_on else {})
        case RemoteTransport(url, headers, kind, oauth):
            form |= {"url": url, "headers": dict(headers), "transport": kind}
            # It selects who is sent the client's secret and the person's browser.
            return form | ({"oauth": to_builtins(oauth)} if oauth.is_given else {})
    return form


def _program(
    server: ServerSettings,
    values: Mapping[str, str],
    environ: Mapping[str, str],
    programs: Programs,
) -> str:
    """The path of the program that would be started; empty if there is none, or none yet."""
    transport = server.transport
    if not isinstance(transport, StdioTransport) or "command" not in values:
        return ""
    if (transport.cwd is not None and "cwd" not in values) or (
        "PATH" in transport.env and "env.PATH" not in values
    ):
        return ""
    env = {name: values[f"env.{name}"] for name in transport.env if f"env.{name}" in values}
    command, environment = values["command"], child_environment(environ, env)
    args = tuple(values.get(f"args.{i}", "") for i in range(len(transport.args)))
    stdio = StdioTransport(
        command, args if program_name(command) == INTERPRETER else (), cwd=values.get("cwd")
    )
    key = stdio.command, stdio.args, stdio.cwd, environment.get("PATH")
    # Each look tries all folders of PATH, and most servers of a fleet have one of three commands.
    if key not in programs:
        try:
            programs[key] = on_this_machine(server.name, stdio, environment).command
        except UnavailableError:
            programs[key] = ""
    return programs[key]


def _selecting_values(
    server: ServerSettings, values: Mapping[str, str], secrets: SecretResolver
) -> Iterator[tuple[str, object]]:
    """The values that select what runs or is reached, by place; None for one that is missing."""
    args = server.transport.args if isinstance(server.transport, StdioTransport) else ()
    selecting = {f"args.{i}": references for i, references in enumerate(selecting_references(args))}
    for place, text in written_fields(server.transport).items():
        value = values.get(place)
        kind, _, name = place.partition(".")
        match kind:
            case _ if reads_file(text):
                yield place, value
            case "command" | "cwd" if references_in(text):
                yield place, value
            case "url" if references_in(text):
                yield place, None if value is None else _address(value)
            case "args" if selecting[place]:
                references = selecting[place]
                yield place, None if value is None else _values_of(references, secrets)
            case "env" if references_in(text) and _counts(name):
                yield place, None if value is None else without_credentials(value)


def _counts(variable: str) -> bool:
    """Return whether a variable's value counts; of `PATH`, the program that it finds counts."""
    is_secret = NameKind.of(variable) is NameKind.SECRET
    return selects_code(variable) and not is_secret and variable != "PATH"


def _values_of(references: Iterable[Reference], secrets: SecretResolver) -> list[str]:
    return [without_credentials(resolve(str(reference), secrets)) for reference in references]


def _address(url: str) -> list[str]:
    """Return the parts of an address that select its server; user and query may be secrets."""
    try:
        parts = urlsplit(url)
        return [parts.scheme, parts.hostname or "", str(parts.port or ""), parts.path]
    except ValueError:
        return [url]


def _files(
    server: ServerSettings, values: Mapping[str, str], program: str
) -> Mapping[str, Mapping[str, str]]:
    fields = written_fields(server.transport)
    args = server.transport.args if isinstance(server.transport, StdioTransport) else ()
    selecting = {
        f"args.{i}" for i, references in enumerate(selecting_references(args)) if references
    }
    texts = {
        place: text
        for place, text in values.items()
        # Of variables and secrets those that the entry itself gives a value.
        if place == "command"
        or place in selecting
        or (place.startswith(("args.", "env.")) and not references_in(fields[place]))
    }
    file = server.origin.file
    return digests_of(project_of(file) if file else None, program, texts, values.get("cwd"))


def _earlier(server: ServerSettings, values: Mapping[str, str], program: str) -> str | None:
    """The digest that earlier versions computed; None if values are missing."""
    needed = {p: t for p, t in written_fields(server.transport).items() if _was_resolved(p, t)}
    if server.transport is None or not needed.keys() <= values.keys():
        return None
    texts = written_fields(server.transport) | {place: values[place] for place in needed}
    return earlier_identity(server, with_fields(server.transport, texts), program)


def _was_resolved(place: str, text: str) -> bool:
    return not place.startswith(("env.", "headers.", "oauth.")) or reads_file(text)


def _digest(value: object) -> str:
    return fingerprint(canonical_json(value))


def shown_value(name: str, text: str, *, is_secret: bool) -> str:
    """A value as it stands in an entry, which is shown whole if it decides what runs.

    Args:
        name: Of the variable or header.
        text: Its value, with references.
        is_secret: Whether its literal text may be a secret; only its references are shown then.
    """
    if selects_code(name):
        return text
    if is_secret:
        return redact_literals(text)
    try:
        parts = split(text)
    except MalformedReferenceError:
        return REDACTED
    return "".join(
        part.replace("${", "$${") if isinstance(part, str) else part.redacted() for part in parts
    )
