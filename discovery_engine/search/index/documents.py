"""A tool as a document: terms with impacts.

An impact is how much of the tool is about a term, by the fields that hold it, as in BM25F. It
depends on the tool and its server alone, so that a change of another tool never changes it: how
rare a term is in the catalog is weighed at query time.
"""

from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.search.examples.book import ExampleSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from discovery_engine.search.examples.book import Examples
    from discovery_engine.search.text.languages import Language
    from discovery_engine.search.text.lexicon import AnalyzedText, Lexicon
    from discovery_engine.tools.model import Tool

Document: TypeAlias = dict[str, int]
"""The impact of each term, from 1 to `MAX_IMPACT`."""

MAX_IMPACT = 255  # an impact is kept as a byte

# What these and the weights of the fields are worth (`scripts/fit_ranking.py --limit 80`, 13 sets):
# beside each, by how much a quarter less and a quarter more change the macro NDCG@10 of 0.6858, in
# 1/10,000.
_SATURATION = 1.4  # -24, -12; the frequency at which a term has half of its highest impact
_NAME_SHARE = 0.4  # -42, -14; added for a term that is the whole name, half for one of two words


class Field(Struct, frozen=True):
    label: str
    weight: float
    slope: float = 0.0
    """The penalty of fields that are longer than usual, from 0 to 1."""
    usual_length: float = 1.0
    """The length in words."""

    def frequency(self, length: int) -> float:
        """Return the weight of one occurrence of a term in a text of `length` words, at least 1."""
        return self.weight / (1 - self.slope + self.slope * length / self.usual_length)


_NAME = Field("name", 1.5)  # -1, -17
_SERVER = Field("server", 2.0, slope=0.5, usual_length=2)  # -19, +1
_DESCRIPTION = Field("description", 1.0, slope=0.75, usual_length=12)  # -19, -37
_SERVER_DESCRIPTION = Field("server_description", 0.3, slope=0.75, usual_length=16)  # -7, +2
_PARAMETER_NAMES = Field("parameter_names", 0.8, slope=0.75, usual_length=9)  # -17, +12
_PARAMETER_TEXTS = Field("parameter_texts", 0.5, slope=0.75, usual_length=30)  # -10, -8
# Of each example. With six for every tool, half of it costs 0.02 of the share of first tools that
# are right, and half more gains nothing (`benchmarks/everyday.py --examples`).
_EXAMPLE = Field("example", 0.8, slope=0.5, usual_length=6)
_EXAMPLES = {
    ExampleSource.OWNER: _EXAMPLE,
    ExampleSource.ENRICHED: replace(_EXAMPLE, label="enriched_example"),
    ExampleSource.SHIPPED: replace(_EXAMPLE, label="shipped_example"),
}

_NO_EXAMPLES: Mapping[str, Examples] = MappingProxyType({})


class FieldText(Struct, frozen=True):
    """The text of one field of a tool."""

    field: Field
    text: str
    language: Language | None
    analyzed: AnalyzedText


class TermOrigin(NamedTuple):
    field: str
    """The field's label."""
    word: str
    """The word that gives the term."""
    share: float
    """The share of the term's impact; the shares of a term add up to 1."""


def build_documents(
    tools: Iterable[Tool],
    server: str,
    description: str,
    lexicon: Lexicon,
    examples: Mapping[str, Examples] = _NO_EXAMPLES,
) -> Iterator[Document]:
    """Yield the document that the index keeps of each of a server's tools.

    `description` is the server's own; `examples` are by the names that the server gave its tools.
    """
    shared: dict[str, float] = {}
    for field_text in _server_texts(server, description, lexicon):
        _add(shared, field_text.analyzed, field_text.field)
    for tool in tools:
        name, *others = _tool_texts(tool, lexicon, examples.get(tool.upstream_name))
        frequencies = shared.copy()
        _add(frequencies, name.analyzed, name.field)
        for field_text in others:
            _add(frequencies, field_text.analyzed, field_text.field)
        yield _document(frequencies, name.analyzed)


def term_origins(
    tool: Tool, server: str, description: str, lexicon: Lexicon, examples: Examples | None = None
) -> dict[str, tuple[TermOrigin, ...]]:
    """The fields, and their words, from which each term of a tool has its impact."""
    name, *others = _tool_texts(tool, lexicon, examples)
    by_field: defaultdict[str, list[TermOrigin]] = defaultdict(list)
    frequencies: dict[str, float] = {}
    for field_text in (name, *others, *_server_texts(server, description, lexicon)):
        own: dict[str, float] = {}
        _add(own, field_text.analyzed, field_text.field)
        words = lexicon.words_by_term(field_text.text, field_text.language)
        for term, frequency in own.items():
            frequencies[term] = frequencies.get(term, 0.0) + frequency
            by_field[term].append(
                TermOrigin(field_text.field.label, words.get(term, ""), frequency)
            )
    return {
        term: _with_shares(origins, frequencies[term], name.analyzed, term)
        for term, origins in by_field.items()
    }


def _with_shares(
    origins: Iterable[TermOrigin], frequency: float, name: AnalyzedText, term: str
) -> tuple[TermOrigin, ...]:
    """Origins with shares in place of frequencies; the name has what its share of it adds."""
    each = 1 / (_SATURATION + frequency)
    of_name = _NAME_SHARE / name.length if term in name.terms else 0.0
    impacts = [(o, o.share * each + (of_name if o.field == _NAME.label else 0.0)) for o in origins]
    whole = sum(impact for _, impact in impacts)
    return tuple(origin._replace(share=impact / whole) for origin, impact in impacts)


def _server_texts(server: str, description: str, lexicon: Lexicon) -> Iterator[FieldText]:
    language = lexicon.detect_tool_language(description)
    yield FieldText(_SERVER, server, None, lexicon.analyze_name(server))
    text = lexicon.analyze(description, language)
    yield FieldText(_SERVER_DESCRIPTION, description, language, text)


def _tool_texts(tool: Tool, lexicon: Lexicon, examples: Examples | None) -> Iterator[FieldText]:
    """The name first."""
    language = lexicon.detect_tool_language(tool.description)
    yield FieldText(_NAME, tool.name, language, lexicon.analyze_name(tool.name, language))
    names, texts = _parameter_texts(tool)
    for field, content in (
        (_DESCRIPTION, tool.description),
        (_PARAMETER_NAMES, names),
        (_PARAMETER_TEXTS, texts),
    ):
        yield FieldText(field, content, language, lexicon.analyze(content, language))
    if examples is None:
        return
    field = _EXAMPLES[examples.source]
    for example in examples.texts:
        # Not `detect_language`, which took as long as all else of an example.
        language = lexicon.detect_tool_language(example)
        yield FieldText(field, example, language, lexicon.analyze(example, language))


def _add(frequencies: dict[str, float], text: AnalyzedText, field: Field) -> None:
    if text.length:
        each = field.frequency(text.length)
        for term in text.terms:
            frequencies[term] = frequencies.get(term, 0.0) + each


def _document(frequencies: dict[str, float], name: AnalyzedText) -> Document:
    full = MAX_IMPACT / (1 + _NAME_SHARE)
    impacts = {t: int(full * f / (_SATURATION + f)) or 1 for t, f in frequencies.items()}
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
