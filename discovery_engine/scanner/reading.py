"""One tool, or a whole catalog, read with every detector.

    scan(tool, Neighbours.of(tools))

Findings come in the order of the definition, and the same tool always gives the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from msgspec.structs import replace

from discovery_engine.scanner.credentials import credential_in
from discovery_engine.scanner.findings import Finding, FindingKind, Severity, alarms, excerpt
from discovery_engine.scanner.invisible import hidden_in
from discovery_engine.scanner.neighbours import Neighbours
from discovery_engine.scanner.passages import Passage, capped, passages_of
from discovery_engine.scanner.payloads import decoded
from discovery_engine.scanner.phrases import matches
from discovery_engine.scanner.plain import loose, mixes_alphabets, plain
from discovery_engine.tools.model import ServerName, Tool, ToolKey

_NOBODY = Neighbours()
_SHORT = 200  # characters of a text that is remembered to be innocent
_REMEMBERED = 5000
_HIDDEN_OR_SAID = frozenset(
    {
        FindingKind.HIDDEN_TEXT,
        FindingKind.INSTRUCTION,
        FindingKind.CROSS_SERVER,
        FindingKind.PAYLOAD,
        FindingKind.EXFILTRATION,
    }
)


def scan(tool: Tool, neighbours: Neighbours = _NOBODY) -> tuple[Finding, ...]:
    """What is suspicious in a tool's definition; of each kind one finding a place."""
    found = list(_about_name(tool, neighbours))
    for passage in passages_of(tool.definition):
        found += _in_passage(passage)
        found += _about_neighbours(tool, passage, neighbours)
    return _without_doubles(_weighed(found))


def scan_text(text: str, *, where: str) -> tuple[Finding, ...]:
    """What is suspicious in a text by itself, for instance a server's instructions."""
    return _without_doubles(_weighed(list(_in_passage(Passage(where, capped(text))))))


def scan_catalog(
    tools: Iterable[Tool], *, instructions: Mapping[ServerName, str] | None = None
) -> dict[ToolKey | ServerName, tuple[Finding, ...]]:
    """The findings of every tool, and of the servers whose instructions are given.

    What has no finding is left out.
    """
    known = list(tools)
    neighbours = Neighbours.of(known)
    found: dict[ToolKey | ServerName, tuple[Finding, ...]] = {
        server: scan_text(text, where="instructions")
        for server, text in (instructions or {}).items()
    }
    found.update({tool.key: scan(tool, neighbours) for tool in known})
    return {subject: findings for subject, findings in found.items() if findings}


def _about_name(tool: Tool, neighbours: Neighbours) -> Iterator[Finding]:
    if imitated := neighbours.imitated(tool):
        message = f"its name passes for {imitated}"
    elif mixes_alphabets(tool.name):
        message = "its name mixes letters of two alphabets"
    else:
        return
    yield Finding(
        FindingKind.LOOKALIKE, Severity.DANGER, "name", excerpt(ascii(tool.name)[1:-1]), message
    )


def _in_passage(passage: Passage) -> Iterator[Finding]:
    if len(passage.text) > _SHORT or not _is_innocent(passage.text):
        yield from _found_in(passage)


@lru_cache(maxsize=_REMEMBERED)
def _is_innocent(text: str) -> bool:
    """Whether nothing is found in a short text; more than half of them are said again and again."""
    return next(_found_in(Passage("", text)), None) is None


def _found_in(passage: Passage) -> Iterator[Finding]:
    where, text = passage.where, passage.text
    yield from _hidden(where, text)
    yield from _said(where, text)
    if credential := credential_in(text):
        shown = excerpt(credential[0][:8]) + "…"
        message = "it holds a credential in plain text"
        yield Finding(FindingKind.SECRET, Severity.WARNING, where, shown, message)
    for inner in decoded(text):
        for finding in _said(where, inner):
            if finding.severity is not Severity.NOTICE:
                message = f"decoded, {finding.message}"
                yield Finding(FindingKind.PAYLOAD, Severity.DANGER, where, finding.excerpt, message)


def _hidden(where: str, text: str) -> Iterator[Finding]:
    for hidden in hidden_in(text):
        around = excerpt(text, max(0, hidden.start - 20), hidden.end + 20)
        # A name is an identifier: there, not even one has a reason to be.
        severity = Severity.DANGER if where == "name" else hidden.severity
        yield Finding(FindingKind.HIDDEN_TEXT, severity, where, around, hidden.message)
        yield from _said(where, hidden.says)


def _said(where: str, text: str) -> Iterator[Finding]:
    if text.isascii() and text.isalnum():
        return  # a single word orders nothing
    readings = dict.fromkeys((plain(text), loose(text)))
    for reading in readings:
        for match in matches(reading):
            words = excerpt(reading, match.start, match.end)
            yield Finding(match.phrase.kind, match.severity, where, words, match.phrase.message)


def _about_neighbours(tool: Tool, passage: Passage, neighbours: Neighbours) -> Iterator[Finding]:
    for name, server, start, end in neighbours.ordered_about(tool, passage.text):
        message = f"it gives orders about {name!r}, a tool of {server!r}"
        words = excerpt(passage.text, start, end)
        yield Finding(FindingKind.CROSS_SERVER, Severity.WARNING, passage.where, words, message)


def _weighed(found: list[Finding]) -> list[Finding]:
    """What two kinds of words alarm about in one tool is no chance: all of them are a danger."""
    suspected = [one for one in alarms(found) if one.kind in _HIDDEN_OR_SAID]
    if len({one.kind for one in suspected}) <= 1:
        return found
    return [replace(one, severity=Severity.DANGER) if one in suspected else one for one in found]


def _without_doubles(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The gravest finding of each kind and place."""
    grave = list(Severity)
    best: dict[tuple[FindingKind, str], Finding] = {}
    for finding in found:
        place = (finding.kind, finding.where)
        if place not in best or grave.index(finding.severity) < grave.index(best[place].severity):
            best[place] = finding
    return tuple(best.values())
