"""A diff of a configuration for those who read no file: without the secrets that stand in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from discovery_engine.config.serialization import serialize, serialize_redacted
from discovery_engine.secrets.redactor import Redactor
from discovery_engine.secrets.references import MalformedReferenceError, split
from discovery_engine.secrets.values import secrets_in
from discovery_engine.store.call_log.contents import GUESSING

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONValue
    from discovery_engine.config.settings import Settings

_LONG = 500  # characters; a file in one line holds entries that could not be read


def shown_diff(diff: str, settings: Settings) -> str:
    """A diff without what is secret in the configuration of before, also around the change."""
    redactor = Redactor(_written_secrets(settings))
    return "".join(_shown(line, redactor) for line in diff.splitlines(keepends=True))


def _shown(line: str, redactor: Redactor) -> str:
    text = redactor.redact(line)
    # What was there may be of an entry that cannot be read, whose secrets are not known.
    was_there = line.startswith(("-", " ", "@")) or len(line) > _LONG
    return GUESSING.redact(text) if was_there else text


def _written_secrets(settings: Settings) -> Iterator[str]:
    """Yield what looks like a secret in texts that are redacted where settings are shown."""
    for name, text in _hidden(serialize(settings), serialize_redacted(settings), ""):
        try:
            literals = [part for part in split(text) if isinstance(part, str)]
        except MalformedReferenceError:
            literals = [text]
        for literal in literals:
            yield from (secret.text for secret in secrets_in(literal, name))


def _hidden(value: JSONValue, shown: JSONValue, name: str) -> Iterator[tuple[str, str]]:
    """Texts that differ from what is shown of them, with the names that they stand under."""
    match value, shown:
        case dict(), dict():
            for key, part in value.items():
                yield from _hidden(part, shown.get(key), key)
        case list(), list():
            for part, other in zip(value, shown, strict=False):
                yield from _hidden(part, other, name)
        case str(), _ if value != shown:
            yield name, value
