"""The marketplace for people: what a search found, the sources, and what was copied of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from discovery_cli.entry_output import kinds, say_problems, show_heading, status, version
from discovery_cli.output import Cell, Output
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import named, one_line

if TYPE_CHECKING:
    from discovery_engine.diagnostics import Diagnostic
    from discovery_engine.marketplace.entry import MarketplaceEntry
    from discovery_engine.marketplace.entry_search import FoundEntry
    from discovery_engine.marketplace.marketplace import MarketplacePage
    from discovery_engine.marketplace.source_copies import SourceState
    from discovery_engine.marketplace.synchronizer import SourceReport

_INDENT = 4
_OLD = 86_400.0  # seconds; a younger copy needs no words
_SHARE = 1 / 3  # of the best relevance; below it an entry has one word of several
_NO_SOURCES = "there is no source: `marketplace.sources` is empty, or all of it is disabled"
_LIVE = {
    "npm": "your npm is asked at a search",
    "pypi": "it has no search: well-known servers and exact names",
}


def show_page(
    output: Output, page: MarketplacePage, query: str, *, now: float, with_all: bool
) -> None:
    """The answer of a search, what is wrong with its sources, and the next step."""
    hits = page.entries if with_all else _fitting(page.entries)
    show_entries(output, [hit.entry for hit in hits])
    say_problems(output, page.problems)
    if page.synced_at is not None and now - page.synced_at > _OLD:
        since = ago(now - page.synced_at)
        output.say(f"note: as copied {since} ago; `discovery marketplace sync` asks again")
    if not hits and not page.sources:
        return
    if not hits:
        about = f" for {one_line(query)!r}" if query else ""
        output.say(f"no server was found{about}; other words, or an exact name, may find one")
        return
    output.say(_summary(page, len(hits)))
    output.say(f"next: discovery marketplace show {named(hits[0].entry.name)}")


def show_entries(output: Output, entries: Iterable[MarketplaceEntry]) -> None:
    """Two lines for each on a terminal; one line for each where a program reads them."""
    if not output.is_terminal:
        output.table(
            [
                [named(entry.name), version(entry) or "-", kinds(entry), status(entry), about]
                for entry in entries
                for about in (entry.description or entry.title,)
            ]
        )
        return
    for entry in entries:
        show_heading(output, entry)
        if about := entry.description or entry.title:
            output.table([[Cell(about, is_summary=True)]], indent=_INDENT)


def show_sync_reports(output: Output, reports: Iterable[SourceReport]) -> None:
    """Print what was copied from each source."""
    rows: list[list[Cell | str]] = []
    syncs = list(reports)
    for sync in syncs:
        done = f"{sync.added:,} new, {sync.updated:,} changed, {sync.removed:,} removed"
        if not sync.was_due:
            done = "was asked lately; `--force` asks again"
        text = _problem_text(sync.problems) if sync.is_failed else done
        rows.append([output.mark(good=not sync.is_failed), Cell(sync.source, "strong"), text])
    output.table(rows)
    say_problems(output, (note for sync in syncs for note in sync.problems if not sync.is_failed))
    if not syncs:
        output.say(_NO_SOURCES)


def show_sources(output: Output, states: Iterable[SourceState], *, now: float) -> None:
    """Each source with its trust, the number of its entries, and the age of its copy."""
    copies = list(states)
    rows: list[list[Cell | str]] = [
        [
            _state_mark(output, copy),
            Cell(copy.name, "strong"),
            copy.trust,
            Cell(f"{copy.entries:,}", to_the_right=True),
            _problem_text(copy.problems) if copy.is_failing else _age_of(copy, now),
        ]
        for copy in copies
    ]
    output.table(rows)
    say_problems(output, (note for copy in copies for note in copy.problems if not copy.is_failing))
    if not copies:
        output.say(_NO_SOURCES)
    output.say("`marketplace.sources` of discovery.yaml sets them; `marketplace sync` copies them")


def _state_mark(output: Output, state: SourceState) -> Cell:
    """Return the mark of a source; open if it was never copied, which says nothing about it yet."""
    is_unknown = state.synced_at is None and not state.is_failing
    return output.open_mark() if is_unknown else output.mark(good=not state.is_failing)


def _fitting(found: Sequence[FoundEntry]) -> Sequence[FoundEntry]:
    """Return entries that fit about as well as the best; others only have a word of the query."""
    least = _SHARE * found[0].relevance if found else 0.0
    return [hit for hit in found if hit.relevance >= least]


def _summary(page: MarketplacePage, shown: int) -> str:
    rest = len(page.entries) - shown
    if rest:
        more = "at least " if page.next_cursor else ""
        return f"{counted(shown, 'server')}; {more}{rest} more fit less, `--all` shows them"
    return counted(shown, "server") + ("; `--limit` shows more" if page.next_cursor else "")


def _age_of(state: SourceState, now: float) -> str:
    words = f"; {_LIVE[state.type]}" if state.type in _LIVE else ""
    if state.synced_at is None:
        return f"not copied yet{words}"
    begun = "" if state.is_complete else ", not whole"
    return f"copied {ago(now - state.synced_at)} ago{begun}{words}"


def _problem_text(problems: Iterable[Diagnostic]) -> str:
    return "; ".join(one_line(problem.message) for problem in problems)
