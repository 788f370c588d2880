"""Operations of software: the typed vocabulary in which requests and tools are compared.

A reading is a set of operations, since words are ambiguous: `save` creates, or downloads. Two
readings are compared by what is between them: the same operation, a kindred one, one that changes
what the other only reads, the opposite.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, IntFlag
from functools import cache


class Operation(IntFlag):
    """A set of operations; empty if they are unknown."""

    READ = 1 << 0
    LIST = 1 << 1
    SEARCH = 1 << 2
    COUNT = 1 << 3
    CREATE = 1 << 4
    UPDATE = 1 << 5
    DELETE = 1 << 6
    SEND = 1 << 7
    RUN = 1 << 8
    STOP = 1 << 9
    """Or close, cancel, disable, reject."""
    OPEN = 1 << 10
    """Or enable, accept, restore: the opposite of what `STOP` has."""
    COPY = 1 << 11
    DOWNLOAD = 1 << 12
    """Or export: out of where it is."""
    UPLOAD = 1 << 13
    """Or import: into it."""
    CONVERT = 1 << 14
    COMPUTE = 1 << 15


NOTHING = Operation(0)
ALL = ~NOTHING
READING = (
    Operation.READ
    | Operation.LIST
    | Operation.SEARCH
    | Operation.COUNT
    | Operation.DOWNLOAD
    | Operation.COMPUTE
    | Operation.CONVERT
)
"""The operations that leave things as they are."""
CHANGING = ALL & ~READING
_QUESTION = Operation.READ | Operation.LIST | Operation.SEARCH | Operation.COUNT
_OPPOSITES = (
    (Operation.CREATE, Operation.DELETE),
    (Operation.UPLOAD, Operation.DOWNLOAD),
    (Operation.UPLOAD, Operation.DELETE),
    (Operation.OPEN, Operation.STOP),
    (Operation.OPEN, Operation.DELETE),
    (Operation.SEND, Operation.DELETE),
)
_KINDRED = (
    _QUESTION,
    Operation.CREATE | Operation.UPLOAD | Operation.COPY,
    Operation.CREATE | Operation.SEND,
    Operation.UPDATE | Operation.OPEN | Operation.STOP,
    Operation.UPDATE | Operation.CREATE,
    Operation.DELETE | Operation.STOP,
    Operation.RUN | Operation.OPEN,
    Operation.READ | Operation.DOWNLOAD,
    Operation.READ | Operation.COMPUTE,
    Operation.CONVERT | Operation.DOWNLOAD,
)


class Relation(IntEnum):
    """How the operations of a request and of a tool are related, the nearest first."""

    SAME = 0
    KINDRED = 1
    """Get and list, create and upload."""
    OTHER = 2
    """Both read or both change, and do something else."""
    CHANGES = 3
    """The request only reads, the tool changes something."""
    READS = 4
    """The request changes something, the tool only reads."""
    OPPOSITE = 5
    UNKNOWN = 6
    """Nothing is known of the request's operation, or of the tool's."""


@cache
def relation(asked: int, done: int) -> Relation:
    """How the operation that a request asks for is related to those that a tool does.

    Both are sets of `Operation`; the nearest two count.
    """
    return next(
        kind for kind, holds in _RELATIONS.items() if holds(Operation(asked), Operation(done))
    )


def _are_opposite(asked: Operation, done: Operation) -> bool:
    return any(
        (operation & asked and other & done) or (other & asked and operation & done)
        for operation, other in _OPPOSITES
    )


_MAX_SPECIFIC_OPERATIONS = 6
"""Operations; of a tool that does more, it says little that one of them is asked for."""
_RELATIONS: dict[Relation, Callable[[Operation, Operation], object]] = {
    Relation.UNKNOWN: lambda wish, done: not (wish and done),
    Relation.SAME: lambda wish, done: wish & done and done.bit_count() <= _MAX_SPECIFIC_OPERATIONS,
    Relation.OPPOSITE: lambda wish, done: not wish & done and _are_opposite(wish, done),
    Relation.KINDRED: lambda wish, done: (
        wish & done or any(g & wish and g & done for g in _KINDRED)
    ),
    Relation.CHANGES: lambda wish, done: not wish & CHANGING and not done & READING,
    Relation.READS: lambda wish, done: not wish & READING and not done & CHANGING,
    Relation.OTHER: lambda *_: True,
}  # the first that holds
