"""Notices as lines of text for a model, within a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from discovery_engine._util.text import one_line
from discovery_engine.agent.budget import Budget, first_fitting
from discovery_engine.agent.tool_text import cut
from discovery_engine.view.notices import Notice

# Notices of one kind with a line of their own, and characters of each; the rest share a line.
_DETAIL = ((2, 200), (2, 100), (1, 60))
LISTER = "list_mcp_servers"
"""The meta-tool that lists the servers that notices are about."""


def notice_lines(notices: Sequence[Notice], budget: Budget, *, lister: str = LISTER) -> list[str]:
    """A line for each notice; many of one kind share a line: ten outages have one next step.

    If these do not fit, one line counts them; if that does not fit, there is none.
    """
    if not notices:
        return []
    texts = ("\n".join(_lines(notices, *detail, lister)) for detail in _DETAIL)
    text = first_fitting((*texts, _counts(notices, lister)), budget)
    return text.split("\n") if budget.fits(text) else []


def _lines(notices: Iterable[Notice], apart: int, length: int, lister: str) -> Iterator[str]:
    by_kind: dict[str, list[Notice]] = {}
    for notice in notices:
        by_kind.setdefault(notice.kind, []).append(notice)
    for kind, alike in by_kind.items():
        for notice in alike[:apart]:
            yield _note(cut(notice.message, length))
        if left := alike[apart:]:
            names = cut(", ".join(n.server or "" for n in left), length)
            yield _note(f"{len(left)} more {kind}: {names}; {lister} shows why")


def _counts(notices: Iterable[Notice], lister: str) -> str:
    counts = Counter(notice.kind for notice in notices)
    counted_kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return _note(f"{counted_kinds}; {lister} shows why")


def _note(text: str) -> str:
    return one_line(f"Note: {text}")
