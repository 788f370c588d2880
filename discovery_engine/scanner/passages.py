"""Everything a definition says, wherever it says it: each string with its place.

A definition is a stranger's: what is read of it is bounded in length, in number and in depth.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue

PASSAGE_LENGTH = 8192  # characters read of one string: its beginning and its end
_PASSAGES = 512
_DEPTH = 32


class Passage(Struct, frozen=True):
    where: str
    text: str


def passages_of(definition: JSONObject) -> Iterator[Passage]:
    """The strings of a definition, the keys of its objects among them."""
    for count, (where, text) in enumerate(_strings(definition, "", _DEPTH)):
        if count == _PASSAGES:
            return
        yield Passage(where, capped(text))


def capped(text: str) -> str:
    """`text` without its middle if it is too long to be read whole."""
    if len(text) <= PASSAGE_LENGTH:
        return text
    half = PASSAGE_LENGTH // 2
    return f"{text[:half]}\n{text[-half:]}"


def _strings(value: JSONValue, where: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if value:
            yield where, value
    elif not depth:
        return
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _strings(item, f"{where}[{at}]", depth - 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            place = f"{where}.{key}" if where else key
            if not (key.isascii() and key.isidentifier()):
                yield f"{where} (a key)", key
            yield from _strings(item, place, depth - 1)
