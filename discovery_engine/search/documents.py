"""A tool as weighed terms: what the index keeps of it.

A term's impact says how much of the tool is about it, from 0 to 1, by the fields it stands in.
It depends on the tool and its server alone, so that a change elsewhere never touches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from discovery_engine.search.lexicon import Lexicon
from discovery_engine.tools import Tool

SCALE = 255  # an impact is kept as a byte

_SATURATION = 1.4


@dataclass(frozen=True, slots=True)
class Field:
    weight: float
    slope: float = 0.0
    """How much a field longer than usual is worth less, from 0 to 1."""
    usual: float = 1.0
    """The usual length in terms."""


_NAME = Field(1.5)
_SERVER = Field(2.0, slope=0.5, usual=2)
_DESCRIPTION = Field(1.0, slope=0.75, usual=16)
_SERVER_DESCRIPTION = Field(0.3, slope=0.75, usual=16)
_PARAMETER_NAMES = Field(0.8, slope=0.75, usual=6)
_PARAMETER_TEXTS = Field(0.4, slope=0.75, usual=20)


@dataclass(frozen=True, slots=True)
class Document:
    impacts: dict[str, int]


def documents(
    tools: Iterable[Tool], server: str, description: str, lexicon: Lexicon
) -> Iterator[Document]:
    """What the index keeps of each tool of one server."""
    shared: dict[str, float] = {}
    _add(shared, lexicon.name_terms(server), _SERVER)
    _add(shared, lexicon.terms(description), _SERVER_DESCRIPTION)
    for tool in tools:
        frequencies = dict(shared)
        _add(frequencies, lexicon.name_terms(tool.name), _NAME)
        _add(frequencies, lexicon.terms(tool.description), _DESCRIPTION)
        names, texts = _parameter_texts(tool)
        _add(frequencies, lexicon.terms(names), _PARAMETER_NAMES)
        _add(frequencies, lexicon.terms(texts), _PARAMETER_TEXTS)
        yield Document({t: _impact(f) for t, f in frequencies.items()})


def _add(frequencies: dict[str, float], terms: list[str], field: Field) -> None:
    if terms:
        each = field.weight / (1 - field.slope + field.slope * len(terms) / field.usual)
        for term in terms:
            frequencies[term] = frequencies.get(term, 0.0) + each


def _impact(frequency: float) -> int:
    return max(1, round(SCALE * frequency / (_SATURATION + frequency)))


def _parameter_texts(tool: Tool) -> tuple[str, str]:
    names, texts = [], []
    for parameter in tool.parameters:
        names.append(parameter.name)
        texts.append(parameter.description)
        choices = parameter.schema.get("enum")
        if isinstance(choices, list):
            texts += [c for c in choices if isinstance(c, str)]
    return " ".join(names), " ".join(texts)
