"""Runs every detector over a tool, a text, or a whole catalog.

    scan(tool, Neighbours.of(tools))

Findings are deterministic, in the order of the definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.tools.findings import Finding, FindingKind, Severity, excerpt
from discovery_engine.tools.model import ServerName, Tool, ToolKey
from discovery_engine.tools.offering import Definition
from discovery_engine.trust.scanner.disguises import (
    command_in,
    credential_in,
    decoded,
    hidden_in,
    is_undisguised,
    joined_lines,
    loose,
    mixes_alphabets,
    plain,
)
from discovery_engine.trust.scanner.evidence import (
    Evidence,
    Piece,
    Place,
    Topic,
    evidence_in,
    is_harmless,
    may_alarm,
    pieces_of,
    split_sentences,
    topic_of,
)
from discovery_engine.trust.scanner.neighbours import Neighbours

_NO_NEIGHBOURS = Neighbours()
_ARGUMENTS = ("inputSchema", "arguments")  # of a tool, and of a prompt
_IDENTIFIERS = frozenset({"name", "uri", "uriTemplate"})


def scan(tool: Definition, neighbours: Neighbours = _NO_NEIGHBOURS) -> tuple[Finding, ...]:
    """Return the findings in a definition, at most one of each kind and place."""
    findings = list(_about_name(tool, neighbours))
    passages = passages_of(tool.definition)
    findings += _in_passages(tool, passages)
    if neighbours.servers_of:
        for passage in passages:
            findings += _about_neighbours(tool, passage, neighbours)
    return _without_doubles(findings)


# Nine in ten passages pass. Cached, because arguments have the same few types, and often words.
@lru_cache(maxsize=1000)
def _is_harmless(text: str) -> bool:
    """Return whether a passage with that text cannot contain a finding; False in doubt."""
    return is_undisguised(text, plain(text)) and is_harmless(plain(text))


def _in_passages(tool: Definition, passages: Sequence[Passage]) -> Iterator[Finding]:
    """Yield the findings in the passages of a definition, one by one."""
    joined = [
        Passage(passage.where, text)
        for passage in passages
        if (text := joined_lines(passage.text)) != passage.text
    ]
    doubtful = [passage for passage in (*passages, *joined) if not _is_harmless(passage.text)]
    topic = topic_of(tool, sentences_of(passages)) if doubtful else Topic()
    for passage in doubtful:
        yield from _in_passage(passage, topic)


def scan_text(text: str, *, where: str) -> tuple[Finding, ...]:
    """Return the findings in a single text, such as a server's instructions."""
    found = (_in_passage(passage, Topic()) for passage in _windows(where, text))
    return _without_doubles(chain.from_iterable(found))


def sentences_of(passages: Iterable[Passage]) -> Iterator[str]:
    return (text for passage in passages for text in split_sentences(plain(passage.text)))


def scan_catalog(
    tools: Iterable[Tool], *, instructions: Mapping[ServerName, str] | None = None
) -> dict[ToolKey | ServerName, tuple[Finding, ...]]:
    """Return the findings of every tool, and of every server with `instructions`.

    Tools and servers without findings are left out.
    """
    all_tools = list(tools)
    neighbours = Neighbours.of(all_tools)
    findings_by_subject: dict[ToolKey | ServerName, tuple[Finding, ...]] = {
        server: scan_text(text, where="instructions")
        for server, text in (instructions or {}).items()
    }
    findings_by_subject.update({tool.key: scan(tool, neighbours) for tool in all_tools})
    return {subject: findings for subject, findings in findings_by_subject.items() if findings}


def _about_name(tool: Definition, neighbours: Neighbours) -> Iterator[Finding]:
    if imitated := neighbours.imitated(tool):
        message = f"its name passes for {imitated}"
    elif mixes_alphabets(tool.name):
        message = "its name mixes letters of two alphabets"
    else:
        return
    yield Finding(
        FindingKind.LOOKALIKE, Severity.DANGER, "name", excerpt(ascii(tool.name)[1:-1]), message
    )


def _in_passage(passage: Passage, topic: Topic) -> Iterator[Finding]:
    where, text = passage.where, passage.text
    for hidden in hidden_in(text):
        around = excerpt(text, max(0, hidden.start - 20), hidden.end + 20)
        # A name is an identifier, in which no hidden character is innocent.
        severity = Severity.DANGER if where in _IDENTIFIERS else hidden.severity
        yield Finding(FindingKind.HIDDEN_TEXT, severity, where, around, hidden.message)
    if credential := credential_in(text):
        preview = excerpt(credential[0][:8]) + "…"
        message = "it holds a credential in plain text"
        yield Finding(FindingKind.SECRET, Severity.WARNING, where, preview, message)
    for layer, place in texts_of(passage, topic):
        for reading in readings(layer):
            for finding in _in_reading(where, reading, place):
                yield _decoded(finding) if place.is_encoded else finding


def texts_of(passage: Passage, topic: Topic) -> Iterator[tuple[str, Place]]:
    """Yield the text of a passage, then each text that is hidden or encoded in it."""
    place = _place_of(passage.where, topic)
    yield passage.text, place
    inside = Place(topic, is_argument=place.is_argument, is_encoded=True)
    for hidden in hidden_in(passage.text):
        if hidden.says:
            yield hidden.says, inside
    for inner in decoded(passage.text):
        yield inner, inside


def _place_of(where: str, topic: Topic) -> Place:
    is_description = where in ("description", "title")
    return Place(topic, is_description=is_description, is_argument=where.startswith(_ARGUMENTS))


def _decoded(finding: Finding) -> Finding:
    """Return a finding of encoded text as a danger: nobody encodes by accident."""
    message = f"decoded, {finding.message}"
    return replace(finding, kind=FindingKind.PAYLOAD, severity=Severity.DANGER, message=message)


def _in_reading(where: str, reading: str, place: Place) -> Iterator[Finding]:
    if command := command_in(reading):
        words = excerpt(reading, command.start(), command.end())
        message = "it holds a command that takes over a machine"
        yield Finding(FindingKind.PAYLOAD, Severity.WARNING, where, words, message)
    yield from _in_pieces(where, pieces_of(reading), place)


def _in_pieces(where: str, pieces: Iterable[Piece], place: Place) -> Iterator[Finding]:
    for piece in pieces:
        if may_alarm(piece, place):
            for evidence in evidence_in(piece.text, is_opening=piece.is_opening):
                if evidence.is_alarm(place):
                    kind, message = evidence.strongest(place)
                    severity = _severity(evidence, place)
                    yield Finding(kind, severity, where, excerpt(evidence.text), message)


def readings(text: str) -> Iterable[str]:
    """Return the readings of a text: as it stands, and with disguised letters replaced."""
    return dict.fromkeys((plain(text), loose(text)))


def _severity(evidence: Evidence, place: Place) -> Severity:
    if evidence.is_mention and not place.is_encoded:
        return Severity.NOTICE
    return Severity.DANGER if evidence.is_severe(place) else Severity.WARNING


def _about_neighbours(
    tool: Definition, passage: Passage, neighbours: Neighbours
) -> Iterator[Finding]:
    for name, server, start, end in neighbours.ordered_about(tool, passage.text):
        message = f"it gives orders about {name!r}, a tool of {server!r}"
        words = excerpt(passage.text, start, end)
        yield Finding(FindingKind.CROSS_SERVER, Severity.WARNING, passage.where, words, message)


def _without_doubles(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the most severe finding of each kind and place."""
    order = list(Severity)
    best: dict[tuple[FindingKind, str], Finding] = {}
    for finding in findings:
        place = (finding.kind, finding.where)
        if place not in best or order.index(finding.severity) < order.index(best[place].severity):
            best[place] = finding
    return tuple(best.values())


# The strings of a definition, with their places.
#
# Definitions are untrusted. All of it is read, since a bound would show where to hide; a listing
# takes no definition of more than 64 KiB, beside the text of a skill.

PASSAGE_LENGTH = 8192  # characters that are read at a time
_OVERLAP = 512  # characters: no shorter sentence is cut in two
_DEPTH = 32
_SPEAKING = (str, dict, list)  # types that can contain strings


class Passage(Struct, frozen=True):
    where: str
    text: str


def passages_of(definition: JSONObject) -> list[Passage]:
    """Return the strings of a definition, including unusual keys of its objects."""
    passages: list[Passage] = []
    _add_strings(passages, definition, "", _DEPTH)
    return passages


def _windows(where: str, text: str) -> Iterator[Passage]:
    """Yield the passages of a string, which overlap."""
    for start in range(0, max(1, len(text) - _OVERLAP), PASSAGE_LENGTH - _OVERLAP):
        yield Passage(where, text[start : start + PASSAGE_LENGTH])


def _add_strings(passages: list[Passage], value: JSONValue, where: str, depth: int) -> None:
    if isinstance(value, str):
        if value:
            passages.extend(_windows(where, value))
    elif not depth:
        return
    elif isinstance(value, dict):
        for key, item in value.items():
            if not (key.isascii() and key.isidentifier()):
                _add_strings(passages, key, f"{where} (a key)", depth)
            if isinstance(item, _SPEAKING):
                _add_strings(passages, item, f"{where}.{key}" if where else key, depth - 1)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            _add_strings(passages, item, f"{where}[{at}]", depth - 1)
