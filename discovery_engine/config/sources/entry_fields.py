"""The fields of an entry, each checked for its type when it is read."""

from __future__ import annotations

from collections.abc import Sequence

from discovery_engine._util.json import JSONObject, JSONValue


class EntryError(Exception):
    """A mistake in an entry; `path` leads to it from the entry."""

    def __init__(self, path: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.hint = hint


class EntryFields:
    def __init__(self, entry: JSONObject) -> None:
        self._entry = entry
        self._read: set[str] = set()

    @property
    def unread(self) -> list[str]:
        """The keys that have a value, and were not read until now."""
        return [
            str(key)
            for key, value in self._entry.items()
            if key not in self._read and value not in (None, "", [], {})
        ]

    def get(self, key: str) -> JSONValue:
        """The value of a key, whose dots go a level down; null is the same as no such key."""
        self._read.add(key.partition(".")[0])
        value: JSONValue = self._entry
        for step in key.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value

    def first(self, keys: Sequence[str]) -> tuple[str, JSONValue] | None:
        """The first of these keys that has a value, and its value."""
        pairs = ((key, self.get(key)) for key in keys)
        return next(((key, value) for key, value in pairs if value is not None), None)

    def text(self, keys: Sequence[str]) -> str | None:
        pair = self.first(keys)
        return None if pair is None else as_text(pair[1], pair[0])

    def texts(self, keys: Sequence[str]) -> list[str] | None:
        pair = self.first(keys)
        return None if pair is None else as_texts(pair[1], pair[0])

    def map(self, keys: Sequence[str]) -> dict[str, str]:
        pair = self.first(keys)
        return {} if pair is None else as_map(pair[1], pair[0])

    def flag(self, key: str) -> bool:
        return self.get(key) in (True, "true", "True")


def as_text(value: JSONValue, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        text = str(value)
        if "\0" not in text and text.encode(errors="replace").decode() == text:
            return text
        raise EntryError(path, "holds characters that no program can be given")
    raise EntryError(path, "must be text")


def as_texts(value: JSONValue, path: str) -> list[str]:
    if not isinstance(value, list):
        raise EntryError(path, "must be a list of texts")
    return [as_text(item, f"{path}.{number}") for number, item in enumerate(value)]


def as_map(value: JSONValue, path: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise EntryError(path, "must be a map of texts")
    return {
        as_text(key, path): as_text(member, f"{path}.{key}")
        for key, member in value.items()
        if key is not None and member is not None
    }
