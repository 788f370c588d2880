"""A server's instructions for those who see a part of what it offers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from discovery_engine.catalog import ServerPart

_WORD = re.compile(r"[\w.:/{}+*%~@-]+")
_ENDS = ".:/-"


def scoped_instructions(whole: ServerPart, shown: ServerPart) -> str:
    """Those of `whole`; none if they name something that is not in `shown`.

    They are one text of a server, of which no part can be left out.
    """
    if not whole.instructions:
        return ""
    found = _WORD.findall(whole.instructions)
    words = {form for word in found for form in (word, word.strip(_ENDS))}
    hidden = set(_names(whole)) - set(_names(shown))
    return whole.instructions if words.isdisjoint(hidden) else ""


def _names(part: ServerPart) -> Iterator[str]:
    yield from (one.name for one in part.dropped)
    yield from (one.name for one in part.removed)
    for entry in part.entries:
        yield entry.tool.name
        yield entry.tool.given_name
    for one in part.offerings:
        yield one.offering.identifier
