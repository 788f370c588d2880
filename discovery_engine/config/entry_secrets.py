"""The secrets in a server's entry: in variables, headers, arguments and its address."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from discovery_engine.config.openapi_entry import URL_VARIABLE
from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.secrets.masking import redact_args, redact_url
from discovery_engine.secrets.references import (
    REDACTED,
    Reference,
    UnsetReference,
    redact_literals,
    references_in,
)
from discovery_engine.secrets.resolver import SecretResolver, resolve
from discovery_engine.secrets.values import Secret, secrets_in

_SHORTEST_PLACE = 6  # characters


def secrets_of(server: ServerSettings, secrets: SecretResolver) -> Iterator[Secret]:
    """Yield the secrets of an entry; reads the files that its references name.

    References that cannot be resolved are left out.
    """
    base_dir = os.path.dirname(server.origin.file) or None  # noqa: PTH120 - "" must stay ""
    for name, text in _kept_apart(server):
        for value in _resolved(text, secrets, base_dir, server.secret_owner):
            yield from secrets_in(value, name)
    for text in _shown(server):
        for reference in references_in(text):
            for value in _resolved(str(reference), secrets, base_dir, server.secret_owner):
                yield from secrets_in(value, reference.name, is_secret=reference.kind != "variable")
    if isinstance(server.transport, RemoteTransport):
        for value in _resolved(server.transport.url, secrets, base_dir, server.secret_owner):
            yield from secrets_in(value)
    for text in _masked(server):
        yield from secrets_in(text, is_secret=not text.startswith(("{", "[")))


def written_references(server: ServerSettings, secrets: SecretResolver) -> dict[str, str]:
    """Return the values of an entry's variable references, each with the reference as written.

    Values under six characters are left out: they may be parts of other words.
    """
    references = [reference for text in _shown(server) for reference in references_in(text)]
    values = {
        _value(reference, secrets).rstrip("/\\"): str(reference.redacted())
        for reference in references
    }
    return {
        value: reference for value, reference in values.items() if len(value) >= _SHORTEST_PLACE
    }


def has_changing_values(server: ServerSettings) -> bool:
    """Return whether a reference of an entry names a file or a command."""
    references = (reference for text in _shown(server) for reference in references_in(text))
    return any(reference.kind in ("file", "command") for reference in references)


def _kept_apart(server: ServerSettings) -> Iterable[tuple[str, str]]:
    """Return variables and headers, with their values as written."""
    match server.transport:
        case StdioTransport(env=env):
            return env.items()
        case RemoteTransport(headers=headers, oauth=oauth):
            return (*headers.items(), ("client_secret", oauth.client_secret))
    return ()


def _shown(server: ServerSettings) -> tuple[str, ...]:
    """Return the texts of an entry that can contain references."""
    match server.transport:
        case StdioTransport(command, args, env, cwd):
            return (command, *args, *env.values(), cwd or "")
        case RemoteTransport(url, headers, _, oauth):
            return (url, *headers.values(), oauth.client_id, oauth.client_secret)
    return ()


def _resolved(
    text: str, secrets: SecretResolver, base_dir: str | None, server: str
) -> Iterator[str]:
    try:
        yield resolve(text, secrets, base_dir=base_dir, server=server, has_commands=True)
    except ValueError:  # the server cannot get this value either
        return


def _value(reference: Reference, secrets: SecretResolver) -> str:
    """Return the value of an environment variable; empty if unset or for other references."""
    if reference.kind != "variable":
        return ""
    try:
        return secrets.value(replace(reference, default=None), base_dir=None)
    except UnsetReference:
        return ""


def _masked(server: ServerSettings) -> Iterator[str]:
    """Yield the parts of arguments and addresses that are masked when they are displayed."""
    match server.transport, server.transport and redact_transport(server.transport):
        case StdioTransport(args=args), StdioTransport(args=masked):
            pairs = zip(args, masked, strict=True)
        case RemoteTransport(url=url), RemoteTransport(url=other):
            pairs = zip([url], [other], strict=True)
        case _:
            return
    for text, masked_text in pairs:
        pieces = "(.+?)".join(map(re.escape, masked_text.split(REDACTED)))
        if masked_text != text and (hit := re.fullmatch(pieces, text, re.DOTALL)):
            yield from hit.groups()


def redact_transport(
    transport: StdioTransport | RemoteTransport,
) -> StdioTransport | RemoteTransport:
    """Return the transport with its secrets masked, for display."""
    match transport:
        case StdioTransport(args=args, env=env):
            address = {URL_VARIABLE: redact_url(env[URL_VARIABLE])} if URL_VARIABLE in env else {}
            return replace(
                transport, args=redact_args(args), env={**_redact_values(env), **address}
            )
        case RemoteTransport(url=url, headers=headers, oauth=oauth):
            return replace(
                transport,
                url=redact_url(url),
                headers=_redact_values(headers),
                oauth=replace(oauth, client_secret=redact_literals(oauth.client_secret)),
            )


def _redact_values(values: Mapping[str, str]) -> dict[str, str]:
    return {name: redact_literals(value) for name, value in values.items()}
