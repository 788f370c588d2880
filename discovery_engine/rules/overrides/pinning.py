"""The values that an owner pins to arguments, resolved when a tool is called.

They are sent to the server only: no schema, answer or error contains one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.errors import ConfigurationError, Diagnostic
from discovery_engine.rules.overrides.override import Override
from discovery_engine.secrets.references import (
    MalformedReferenceError,
    Reference,
    UnsetReference,
    redact_literals,
    references_in,
)
from discovery_engine.secrets.resolver import SecretResolver, resolve
from discovery_engine.tools.model import Tool


def pinned_secrets(override: Override) -> tuple[str, ...]:
    """Return the names of the stored secrets that an override refers to, each once."""
    texts = (text for value in override.arguments.values() for text in _texts(value))
    references = (reference for text in texts for reference in references_in(text))
    return tuple(
        dict.fromkeys(reference.name for reference in references if reference.kind == "secret")
    )


def pinned_values(tool: Tool, overrides: Sequence[Override], secrets: SecretResolver) -> JSONObject:
    """Return the values that the owner pins to a tool's arguments, with references resolved.

    A relative path of `${file:…}` starts at the folder of the file that contains the entry.

    Args:
        tool: The tool with its overrides applied.
        overrides: The entries that `tool.overridden` refers to by index.
        secrets: The resolver of stored secrets.

    Raises:
        ConfigurationError: If a reference has no value; with a diagnostic for each such argument.
    """
    values: JSONObject = {}
    problems: list[Diagnostic] = []
    for name, index in tool.overridden.pinned.items():
        override = overrides[index]
        try:
            argument = override.arguments[name]
            values[name] = _resolved(argument, override, secrets, tool.server)
        except (UnsetReference, MalformedReferenceError) as error:
            path = f"overrides.{index}.arguments.{name}"
            problems.append(
                Diagnostic("OVERRIDE_VALUE_UNSET", str(error), subject=path, origin=override.origin)
            )
    if problems:
        raise ConfigurationError(problems)
    return values


def referred_values(
    tool: Tool, overrides: Sequence[Override], secrets: SecretResolver
) -> Iterator[tuple[Reference, str]]:
    """Yield the references in a tool's pinned arguments, each with its value.

    References without a value are left out.
    """
    for name, index in tool.overridden.pinned.items():
        override = overrides[index]
        for text in _texts(override.arguments[name]):
            for reference in references_in(text):
                with suppress(UnsetReference):
                    yield reference, _text(str(reference), override, secrets, tool.server)


def _texts(value: JSONValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            yield from chain.from_iterable(map(_texts, value))
        case dict():
            yield from chain.from_iterable(map(_texts, value.values()))


def pinned_references(tool: Tool, overrides: Sequence[Override]) -> JSONObject:
    """Return the pinned arguments unresolved, for display: of a text, only its references."""
    return {
        name: _as_references(overrides[index].arguments[name])
        for name, index in tool.overridden.pinned.items()
    }


def _as_references(value: JSONValue) -> JSONValue:
    match value:
        case str():
            return redact_literals(value) if references_in(value) else value
        case list():
            return list(map(_as_references, value))
        case dict():
            return {name: _as_references(member) for name, member in value.items()}
    return value


def _resolved(
    value: JSONValue, override: Override, secrets: SecretResolver, server: str
) -> JSONValue:
    within = partial(_resolved, override=override, secrets=secrets, server=server)
    match value:
        case str():
            return _text(value, override, secrets, server)
        case list():
            return list(map(within, value))
        case dict():
            return {name: within(member) for name, member in value.items()}
    return value


def _text(text: str, override: Override, secrets: SecretResolver, server: str) -> str:
    folder = os.path.dirname(override.origin.file)  # noqa: PTH120 - "" must stay ""
    return resolve(text, secrets, base_dir=folder or None, server=server)
