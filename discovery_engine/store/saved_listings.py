"""The saved listings that one process knows of, so that most need not be read again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.tools.model import ServerName


class SaveMark(NamedTuple):
    """No other save of any server ever has the same."""

    server: int
    """The row of the server."""
    save: int
    """The number of the save that wrote its listing last."""


class SavedListings:
    def __init__(self) -> None:
        self._known: dict[tuple[str, ServerName], tuple[SaveMark, _Found]] = {}

    def note(self, scope: str, part: ServerPart, mark: SaveMark) -> None:
        """A part is saved under this mark."""
        self._known[scope, part.server] = mark, lambda: part

    def note_read(
        self, scope: str, parts: Iterable[ServerPart], marks: Mapping[ServerName, SaveMark]
    ) -> None:
        """Parts were read; they are known for as long as the reader keeps them."""
        for part in parts:
            mark, (old_mark, reference) = marks.get(part.server), self._of(scope, part.server)
            if mark and not (mark == old_mark and reference()):
                self._known[scope, part.server] = mark, weakref.ref(part)

    def mark_of(self, scope: str, part: ServerPart) -> SaveMark | None:
        """The mark under which a part is saved, whenever it was listed; None if none is known."""
        mark, reference = self._of(scope, part.server)
        old_part = reference()
        is_same = old_part is not None and replace(part, listed_at=old_part.listed_at) == old_part
        return mark if is_same else None

    def _of(self, scope: str, server: ServerName) -> tuple[SaveMark | None, _Found]:
        return self._known.get((scope, server), (None, _nothing))


_Found = Callable[[], "ServerPart | None"]


def _nothing() -> None:
    return None
