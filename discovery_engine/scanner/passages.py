"""Everything a definition says, wherever it says it: each string with its place.

A definition is a stranger's: what is read of it is bounded in length, in number and in depth.
"""

from __future__ import annotations

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue

PASSAGE_LENGTH = 8192  # characters read of one string: its beginning and its end
_PASSAGES = 512
_DEPTH = 32
_SPEAKING = (str, dict, list)  # kinds of values that may have strings


class Passage(Struct, frozen=True):
    where: str
    text: str


def passages_of(definition: JSONObject) -> list[Passage]:
    """The strings of a definition, the keys of its objects among them."""
    found: list[Passage] = []
    _add_strings(found, definition, "", _DEPTH)
    return found


def capped(text: str) -> str:
    """`text` without its middle if it is too long to be read whole."""
    if len(text) <= PASSAGE_LENGTH:
        return text
    half = PASSAGE_LENGTH // 2
    return f"{text[:half]}\n{text[-half:]}"


def _add_strings(found: list[Passage], value: JSONValue, where: str, depth: int) -> None:
    if isinstance(value, str):
        if value and len(found) < _PASSAGES:
            found.append(Passage(where, capped(value) if len(value) > PASSAGE_LENGTH else value))
    elif not depth or len(found) >= _PASSAGES:
        return
    elif isinstance(value, dict):
        for key, item in value.items():
            if not (key.isascii() and key.isidentifier()):
                _add_strings(found, key, f"{where} (a key)", depth)
            if isinstance(item, _SPEAKING):
                _add_strings(found, item, f"{where}.{key}" if where else key, depth - 1)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            _add_strings(found, item, f"{where}[{at}]", depth - 1)
