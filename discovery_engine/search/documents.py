"""A tool as weighed terms: what the index keeps of it.

A term's impact says how much of the tool is about it, by the fields it stands in. It depends on
the tool and its server alone, so that a change elsewhere never touches it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from discovery_engine.search.lexicon import Lexicon, Text
    from discovery_engine.tools import Tool

Document: TypeAlias = dict[str, int]
"""The impact of each term, from 1 to `FULL`."""

FULL = 255  # an impact is kept as a byte

_SATURATION = 1.4  # the frequency at which a term has half of the impact it can have
_NAME_SHARE = 0.4  # what a term adds that is the whole name; one of two words adds half of it


@dataclass(frozen=True, slots=True)
class Field:
    weight: float
    slope: float = 0.0
    """How much a field longer than usual is worth less, from 0 to 1."""
    usual: float = 1.0
    """The usual length in terms."""


_NAME = Field(1.5)
_SERVER = Field(2.0, slope=0.5, usual=2)
_DESCRIPTION = Field(1.0, slope=0.75, usual=12)
_SERVER_DESCRIPTION = Field(0.3, slope=0.75, usual=16)
_PARAMETER_NAMES = Field(0.8, slope=0.75, usual=9)
_PARAMETER_TEXTS = Field(0.5, slope=0.75, usual=30)


def documents(
    tools: Iterable[Tool], server: str, description: str, lexicon: Lexicon
) -> Iterator[Document]:
    """What the index keeps of each of a server's tools; `description` is the server's own."""
    shared: dict[str, float] = {}
    _add(shared, lexicon.name(server), _SERVER)
    language = lexicon.language_of_tool(description)
    _add(shared, lexicon.text(description, language), _SERVER_DESCRIPTION)
    for tool in tools:
        language = lexicon.language_of_tool(tool.description)
        name = lexicon.name(tool.name, language)
        names, texts = _parameter_texts(tool)
        frequencies = shared.copy()
        _add(frequencies, name, _NAME)
        _add(frequencies, lexicon.text(tool.description, language), _DESCRIPTION)
        _add(frequencies, lexicon.text(names, language), _PARAMETER_NAMES)
        _add(frequencies, lexicon.text(texts, language), _PARAMETER_TEXTS)
        yield _document(frequencies, name)


def _add(frequencies: dict[str, float], text: Text, field: Field) -> None:
    if text.length:
        each = field.weight / (1 - field.slope + field.slope * text.length / field.usual)
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
