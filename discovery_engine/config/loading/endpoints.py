"""Endpoints: what an entry starts or reaches, the same for two entries of one server."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TypeAlias

from discovery_engine.config.command_words import command_words
from discovery_engine.config.settings import ServerSettings, StdioTransport
from discovery_engine.secrets.references import (
    MalformedReferenceError,
    Reference,
    UnsetReference,
    split,
)
from discovery_engine.secrets.resolver import SecretResolver

Endpoint: TypeAlias = tuple[str, ...]
ValueOf: TypeAlias = Callable[[Reference], str]

_ORIGIN_OF_URL = re.compile(r"[a-z]+://[^/?#]*", re.IGNORECASE)


def endpoint(server: ServerSettings, value_of: ValueOf) -> Endpoint:
    """Its command with all arguments, or its address; empty for a server that has neither."""
    if server.transport is None:
        return ()
    if isinstance(server.transport, StdioTransport):
        words = command_words(server.transport.command, server.transport.args)
        return tuple(resolved(word, value_of) for word in words)
    url = resolved(server.transport.url, value_of).rstrip("/")
    return (_ORIGIN_OF_URL.sub(lambda origin: origin.group().lower(), url, count=1),)


def value_of(
    reference: Reference, secrets: SecretResolver, kinds: Collection[str] = ("variable",)
) -> str:
    """The value of a reference of these kinds, as far as it is known; others stay as written."""
    if reference.kind not in kinds:
        return str(reference)
    try:
        return secrets.value(reference, base_dir=None) or str(reference)
    except UnsetReference:
        return str(reference)


def resolved(text: str, value_of: ValueOf) -> str:
    """A text with values in place of its references."""
    try:
        parts = split(text)
    except MalformedReferenceError:
        return text
    return "".join(part if isinstance(part, str) else value_of(part) for part in parts)
