"""Servers of another client's file as entries of `discovery.yaml`.

A secret is never copied: a variable or a header that carries one becomes a reference, and the
variable is named. Where that cannot be done the server is skipped, with the reason.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.config.redaction import redact_args, redact_url
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.secrets.references import MalformedReferenceError, is_variable, references

_SECRET = re.compile(r"token|secret|pass|pwd|key|credential|auth|cookie|session", re.IGNORECASE)
_SCHEME = re.compile(r"(Bearer|Basic|Token)\s+", re.IGNORECASE)


class ImportCandidate(Struct, frozen=True):
    server: ServerSettings
    variables: tuple[str, ...] = ()
    """The variables to set, since secrets are not copied."""


class SkippedServer(Struct, frozen=True):
    name: str
    reason: str
    is_secret: bool = False
    """Its entry cannot be copied without a secret."""


def import_entry(server: ServerSettings) -> ImportCandidate | SkippedServer:
    """The server with references in place of its secrets."""
    match server.transport:
        case StdioTransport() as stdio:
            return _import_stdio(server, stdio)
        case RemoteTransport() as remote:
            return _import_remote(server, remote)
    problem = (
        server.problem.message if server.problem else "it has neither a command nor an address"
    )
    return SkippedServer(server.name, problem)


def endpoint(server: ServerSettings) -> tuple[str, ...]:
    """What is the same for two entries of one server."""
    match server.transport:
        case StdioTransport(command=command, args=args):
            return (command, *args)
        case RemoteTransport(url=url):
            return (url,)
    return (server.name,)


def _import_stdio(server: ServerSettings, stdio: StdioTransport) -> ImportCandidate | SkippedServer:
    if redact_args(stdio.args) != stdio.args:
        return SkippedServer(server.name, "its arguments carry a secret", is_secret=True)
    variables = {name: _variable(name) for name in stdio.env}
    env = {name: _without_secret(name, value, variables[name]) for name, value in stdio.env.items()}
    replaced = [variables[name] for name, value in env.items() if value != stdio.env[name]]
    return ImportCandidate(replace(server, transport=replace(stdio, env=env)), tuple(replaced))


def _import_remote(
    server: ServerSettings, remote: RemoteTransport
) -> ImportCandidate | SkippedServer:
    if redact_url(remote.url) != remote.url:
        return SkippedServer(server.name, "its address carries a secret", is_secret=True)
    variables = {name: _variable_of_header(server.name, name) for name in remote.headers}
    headers = {
        name: _without_secret(name, value, variables[name])
        for name, value in remote.headers.items()
    }
    replaced = [variables[name] for name, value in headers.items() if value != remote.headers[name]]
    oauth, variable = remote.oauth, _variable_of_header(server.name, "client_secret")
    secret = _without_secret("client_secret", oauth.client_secret, variable)
    if secret != oauth.client_secret:
        oauth = replace(oauth, client_secret=secret)
        replaced.append(variable)
    return ImportCandidate(
        replace(server, transport=replace(remote, headers=headers, oauth=oauth)), tuple(replaced)
    )


def _without_secret(name: str, value: str, variable: str) -> str:
    """The value, or a reference to `variable` if it is a literal that looks like a secret."""
    if _has_reference(value) or not value:
        return value
    if not _SECRET.search(name) and redact_args([value]) == (value,):
        return value
    scheme = _SCHEME.match(value)
    return f"{scheme.group() if scheme else ''}${{{variable}}}"


def _has_reference(value: str) -> bool:
    try:
        return bool(references(value))
    except MalformedReferenceError:
        return False


def _variable(name: str) -> str:
    """The name itself, or one like it that a reference may have."""
    if is_variable(name):
        return name
    plain = re.sub(r"[^A-Z0-9]+", "_", name.upper())
    return plain if is_variable(plain) else f"_{plain}"


def _variable_of_header(server: str, header: str) -> str:
    words = "TOKEN" if header.casefold() == "authorization" else header
    return _variable(re.sub(r"\W+", "_", f"{server}_{words}").upper())
