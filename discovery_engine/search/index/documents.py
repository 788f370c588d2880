"""A tool as weighed terms: what the index keeps of it.

A term's impact says how much of the tool is about it, by the fields it stands in. It depends on
the tool and its server alone, so that a change elsewhere never touches it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from discovery_engine.search.text.languages import Language
    from discovery_engine.search.text.lexicon import Lexicon, Text
    from discovery_engine.tools.model import Tool

Document: TypeAlias = dict[str, int]
"""The impact of each term, from 1 to `FULL`."""

FULL = 255  # an impact is kept as a byte

_SATURATION = 1.4  # the frequency at which a term has half of the impact it can have
_NAME_SHARE = 0.4  # what a term adds that is the whole name; one of two words adds half of it


class Field(Struct, frozen=True):
    label: str
    weight: float
    slope: float = 0.0
    """How much a field longer than usual is worth less, from 0 to 1."""
    usual: float = 1.0
    """The usual length in terms."""

    def each(self, length: int) -> float:
        """What a term counts for in a text of so many words, of which there is at least one."""
        return self.weight / (1 - self.slope + self.slope * length / self.usual)


_NAME = Field("name", 1.5)
_SERVER = Field("server", 2.0, slope=0.5, usual=2)
_DESCRIPTION = Field("description", 1.0, slope=0.75, usual=12)
_SERVER_DESCRIPTION = Field("server_description", 0.3, slope=0.75, usual=16)
_PARAMETER_NAMES = Field("parameter_names", 0.8, slope=0.75, usual=9)
_PARAMETER_TEXTS = Field("parameter_texts", 0.5, slope=0.75, usual=30)


class Passage(NamedTuple):
    """What one field of a tool says."""

    field: Field
    source: str
    language: Language | None
    text: Text


class Origin(NamedTuple):
    field: str
    """The field's label."""
    says: str
    """The word that gives the term."""
    share: float
    """Of the term's impact; those of a term add up to 1."""


def documents(
    tools: Iterable[Tool], server: str, description: str, lexicon: Lexicon
) -> Iterator[Document]:
    """What the index keeps of each of a server's tools; `description` is the server's own."""
    shared: dict[str, float] = {}
    for passage in _of_server(server, description, lexicon):
        _add(shared, passage.text, passage.field)
    for tool in tools:
        name, *others = _of_tool(tool, lexicon)
        frequencies = shared.copy()
        _add(frequencies, name.text, name.field)
        for passage in others:
            _add(frequencies, passage.text, passage.field)
        yield _document(frequencies, name.text)


def origins(
    tool: Tool, server: str, description: str, lexicon: Lexicon
) -> dict[str, tuple[Origin, ...]]:
    """From which fields, and by which of their words, each term of a tool has its impact."""
    name, *others = _of_tool(tool, lexicon)
    by_field: defaultdict[str, list[Origin]] = defaultdict(list)
    frequencies: dict[str, float] = {}
    for passage in (name, *others, *_of_server(server, description, lexicon)):
        own: dict[str, float] = {}
        _add(own, passage.text, passage.field)
        said = lexicon.sayings(passage.source, passage.language)
        for term, frequency in own.items():
            frequencies[term] = frequencies.get(term, 0.0) + frequency
            by_field[term].append(Origin(passage.field.label, said.get(term, ""), frequency))
    return {
        term: _shared_out(found, frequencies[term], name.text, term)
        for term, found in by_field.items()
    }


def _shared_out(
    found: Iterable[Origin], frequency: float, name: Text, term: str
) -> tuple[Origin, ...]:
    """Origins with shares in place of frequencies; the name has what its share of it adds."""
    each = 1 / (_SATURATION + frequency)
    of_name = _NAME_SHARE / name.length if term in name.terms else 0.0
    impacts = [(o, o.share * each + (of_name if o.field == _NAME.label else 0.0)) for o in found]
    whole = sum(impact for _, impact in impacts)
    return tuple(origin._replace(share=impact / whole) for origin, impact in impacts)


def _of_server(server: str, description: str, lexicon: Lexicon) -> Iterator[Passage]:
    language = lexicon.language_of_tool(description)
    yield Passage(_SERVER, server, None, lexicon.name(server))
    text = lexicon.text(description, language)
    yield Passage(_SERVER_DESCRIPTION, description, language, text)


def _of_tool(tool: Tool, lexicon: Lexicon) -> Iterator[Passage]:
    """The name first."""
    language = lexicon.language_of_tool(tool.description)
    yield Passage(_NAME, tool.name, language, lexicon.name(tool.name, language))
    names, texts = _parameter_texts(tool)
    for field, said in (
        (_DESCRIPTION, tool.description),
        (_PARAMETER_NAMES, names),
        (_PARAMETER_TEXTS, texts),
    ):
        yield Passage(field, said, language, lexicon.text(said, language))


def _add(frequencies: dict[str, float], text: Text, field: Field) -> None:
    if text.length:
        each = field.each(text.length)
        for term in text.terms:
            frequencies[term] = frequencies.get(term, 0.0) + each


def _document(frequencies: dict[str, float], name: Text) -> Document:
    full = FULL / (1 + _NAME_SHARE)
    impacts = {t: max(1, int(full * f / (_SATURATION + f))) for t, f in frequencies.items()}
    if name.length:
        share = int(full * _NAME_SHARE / name.length)
        for term in set(name.terms):
            impacts[term] += share
    return impacts


def _parameter_texts(tool: Tool) -> tuple[str, str]:
    """The names of the parameters; their descriptions and the values they may take."""
    names, texts = [], []
    for parameter in tool.parameters:
        names.append(parameter.name)
        texts.append(parameter.description)
        choices = parameter.schema.get("enum")
        if isinstance(choices, list):
            texts += [choice for choice in choices if isinstance(choice, str)]
    return " ".join(names), " ".join(texts)
