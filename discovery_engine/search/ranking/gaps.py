"""Gaps: what the first tools all lack of a request, to check before one of them is called.

unarchive the page    no word for 'unarchive'
delete my workspace   none that deletes, where tools only list and read
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.search.operations.operation import Operation, Relation, relation
from discovery_engine.search.text.lexicon import SUBJECT
from discovery_engine.search.text.tokenizer import words

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from discovery_engine.search.operations.request_reading import RequestReading
    from discovery_engine.search.operations.tool_profile import ToolProfile
    from discovery_engine.search.text.lexicon import Lexicon

_MOST_OPERATIONS = 2  # of a request that asks for one of more, too little is known
_DIFFERENT = frozenset((Relation.OTHER, Relation.CHANGES, Relation.READS, Relation.OPPOSITE))
# What hardly any word says by chance; `add`, `run` and `get` are said of many things.
_VERBS = {
    Operation.DELETE: "delete or remove",
    Operation.SEND: "send",
    Operation.STOP: "stop, close or cancel",
    Operation.DOWNLOAD: "download or export",
    Operation.UPLOAD: "upload or import",
}
_FILLERS = """
    now already last tonight still next just yet ever never always again once twice soon later
    today yesterday tomorrow morning afternoon evening night monday tuesday wednesday thursday
    friday saturday sunday zero one two three four five six seven eight nine ten eleven twelve
    first second third nothing something anything everything everybody everywhere else away back
    down afterwards according moment right whole itself long little bit got look see told asked
    asks found made called went left
"""
SAY_NOTHING = frozenset(_FILLERS.split())
"""Common words that no tool would mention, so that their absence says nothing of it."""


class Gaps(Struct, frozen=True):
    words: tuple[str, ...] = ()
    """Words of the request that none of the first tools has, arguments aside."""
    operations: tuple[str, ...] = ()
    """The operations asked for, as verbs, if the best tool's server seems to do none of them."""


def words_without(held: Container[str], text: str, lexicon: Lexicon) -> list[str]:
    """The words of an English text that have no term among those held."""
    return [
        word
        for word in dict.fromkeys(words(text))
        if word.isalpha()
        and len(word) > 1
        and word not in SAY_NOTHING
        and not lexicon.is_stop_word(word)
        and not any(t in held for t in lexicon.terms(word) if not t.startswith(SUBJECT))
    ]


def undone(reading: RequestReading, profiles: Sequence[ToolProfile]) -> tuple[str, ...]:
    """Return the operations that a request clearly asks for, as verbs, if no tool does them."""
    operations = [operation for operation in Operation if operation & reading.operations]
    if not reading.is_explicit or len(operations) > _MOST_OPERATIONS:
        return ()
    relations = {relation(reading.operations, profile.operations) for profile in profiles}
    if not relations or not relations <= _DIFFERENT or not _VERBS.keys() >= set(operations):
        return ()
    return tuple(_VERBS[operation] for operation in operations)
