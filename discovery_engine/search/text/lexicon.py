"""Words as terms of the index.

    creates    creat, @creat         a stem, and the concept of its synonyms
    new        new, @creat
    playlist   playlist, #music      and the subjects that the word belongs to
    Lied       lied, song, @song …   and the English for a word of another language

The closer a term is to the word, the more it weighs: a tool with the word itself ranks above one
with a synonym, and that above one about the same subject.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import Stemmer
from msgspec import Struct

from discovery_engine._util import digests
from discovery_engine.search.text import languages
from discovery_engine.search.text.languages import (
    COLLOQUIAL,
    English,
    Language,
    Languages,
    Token,
    WordTable,
)
from discovery_engine.search.text.tokenizer import compounds, is_unspaced, runs, words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

CONCEPT = "@"  # no word begins with either
SUBJECT = "#"

CONCEPT_WEIGHT = 0.65
"""The worth of a synonym beside the word itself, from 0 to 1.

The weights of a query and the confidence use it; `scripts/fit_ranking.py` shows what it is worth.
"""

SynonymGroup = tuple[str, ...]

_DATA = Path(__file__).parents[1] / "data"
_STOP_WORDS = _DATA / "stopwords.txt"
_SYNONYMS = _DATA / "synonyms.txt"
_TOPICS = _DATA / "topics.txt"
_MAX_STEMMED_LENGTH = 40  # characters that are stemmed; a longer run is an identifier or a hash


class AnalyzedText(NamedTuple):
    terms: list[str]
    length: int
    """The length in words."""


class Lexicon:
    """Synonyms, subjects, stop words and stems.

    `groups` are further synonyms: words or phrases. A group that shares a word with one that ships
    is merged with it. The terms of up to `memory` chunks of text are cached for each language.
    """

    def __init__(self, groups: Iterable[SynonymGroup] = (), *, memory: int = 50_000) -> None:
        stemmer = Stemmer.Stemmer("english")
        self._stem: Callable[[str], str] = stemmer.stemWord
        self._stop_words = {word for line in _lines(_STOP_WORDS) for word in line}
        self._concepts: dict[str, str] = {}
        self._phrases = Phrases()
        self._custom: set[str] = set()
        shipped = list(_lines(_SYNONYMS))
        for group in shipped:
            stems = stemmer.stemWords(group)
            self._concepts.update(dict.fromkeys(stems, CONCEPT + stems[0]))
        self._subjects: defaultdict[str, list[str]] = defaultdict(list)
        topics = list(_lines(_TOPICS))
        for line in topics:
            for stem in dict.fromkeys(stemmer.stemWords(line)):
                self._subjects[stem].append(SUBJECT + line[0])
        listed = (word for line in (*shipped, *topics) for word in line)
        colloquial = WordTable(COLLOQUIAL).words  # ls, ps, rm: `ls -la` is not French
        english = frozenset((*self._stop_words, *listed, *colloquial))
        vocabulary = English(self._stop_words, english, self.stem)
        self.languages = Languages(vocabulary)
        self._colloquial = Language(COLLOQUIAL, vocabulary)
        self._own = tuple(groups)
        for own in self._own:
            self._merge(own)
        self._chunks: defaultdict[str, dict[str, AnalyzedText]] = defaultdict(dict)
        self._memory = memory

    @cached_property
    def digest(self) -> str:
        """A digest of all tables of the lexicon: equal if every text gives the same terms."""
        tables = (_STOP_WORDS, _SYNONYMS, _TOPICS, *languages.dictionary_files())
        contents = [digests.digest(file.read_bytes()) for file in tables]
        made_from = contents, self._own, Stemmer.version()
        return digests.digest(repr(made_from).encode()).hex()

    def analyze(self, text: str, language: Language | None = None) -> AnalyzedText:
        """The terms of a tool's text in `language`, without stop words."""
        if self._phrases:  # which extend over several chunks
            return self._analyze_text(text, language)
        text_terms: list[str] = []
        length = 0
        chunks = self._chunks_in(language)
        for chunk in text.split():
            terms, size = chunks.get(chunk) or self._analyze_chunk(chunk, language)
            text_terms += terms
            length += size
        return AnalyzedText(text_terms, length)

    def analyze_name(self, name: str, language: Language | None = None) -> AnalyzedText:
        """The terms of a name, with its stop words."""
        return self._analyze(name, words(name, characters=True), language)

    def detect_language(self, text: str) -> Language | None:
        """The language of a text; None for English, and for scripts without spaces."""
        return self.languages.detect(text)

    def detect_tool_language(self, description: str) -> Language | None:
        """The language of a tool's texts, by its description."""
        return self.languages.detect_long(description)

    def tokens(self, text: str, language: Language | None) -> list[Token]:
        """The words and expressions of a request with what tools say for them.

        Without those that ask for nothing. A request in English has colloquial ones.
        """
        spoken = language or self._colloquial
        custom = self._custom_stems(text)
        text_words = runs(text)
        tokens: list[Token] = []
        start = 0
        while start < len(text_words):
            several = spoken.dictionary.expression_at(start, text_words)
            if several and custom.isdisjoint(map(self.stem, several.words)):
                text = " ".join(several.words)
                tokens.append(Token(text, several.english, spoken is self._colloquial))
                start += len(several.words)
            else:
                tokens += self._tokens_of(text_words[start], spoken, custom)
                start += 1
        return [token for token in tokens if token.english]

    def in_english(self, text: str) -> str:
        """A text of another language word by word, without stop words; any other as it is.

        For models that know English alone: in a row of words they recognize a request.
        """
        tokens = self.tokens(text, self.detect_language(text))
        if not any(token.is_translated and not token.is_colloquial for token in tokens):
            return text
        return " ".join(token.english[0] for token in tokens)

    def words_by_term(self, text: str, language: Language | None) -> dict[str, str]:
        """Each term of a text, with the first word or phrase that gives it."""
        origins: dict[str, str] = {}
        for word in words(text, characters=True):
            for term in self.terms(word):
                origins.setdefault(term, word)
        for token in self._tokens(text, language):
            for word in token.english:
                for term in self.terms(word):
                    origins.setdefault(term, token.text)
        for phrase in self.find_phrases(text):
            origins.setdefault(phrase.concept, " ".join(phrase.stems))
        return origins

    def terms(self, word: str) -> tuple[str, ...]:
        """The stem of `word`, then its concept if it has one, then its subjects."""
        return self.terms_of_stem(self.stem(word))

    def terms_of_stem(self, stem: str) -> tuple[str, ...]:
        concept = self._concepts.get(stem)
        subjects = self._subjects.get(stem, ())
        return (stem, concept, *subjects) if concept else (stem, *subjects)

    def find_phrases(self, text: str) -> list[Phrase]:
        """The owner's phrases that a text contains."""
        return self._phrases.find(self._stems_without_stop_words(text)) if self._phrases else []

    def stems(self, text: str) -> list[str]:
        """One stem for each word, stop words included."""
        return [self.stem(word) for word in words(text)]

    def stem(self, word: str) -> str:
        return self._stem(word[:_MAX_STEMMED_LENGTH])

    def is_stop_word(self, word: str) -> bool:
        return word in self._stop_words

    def _tokens(self, text: str, language: Language | None) -> Iterator[Token]:
        custom = self._custom_stems(text)
        for word in runs(text):
            yield from self._tokens_of(word, language, custom)

    def _tokens_of(
        self, word: str, language: Language | None, custom: AbstractSet[str]
    ) -> Iterator[Token]:
        """Yield the tokens of a run of `language`; `custom` has the stems defined by the owner."""
        if is_unspaced(word):
            for token in self.languages.split(word, language):
                is_custom = custom and custom >= set(self.stems(token.text))
                yield Token(token.text, (token.text,)) if is_custom else token
            return
        is_custom = custom and self.stem(word) in custom
        english = language.translate(word) if language and not is_custom else None
        if english is None:
            yield Token(word, () if self.is_stop_word(word) else (word,))
        else:
            yield Token(word, english, is_colloquial=language is self._colloquial)

    def _custom_stems(self, text: str) -> set[str]:
        """Return the stems of words that the owner defined, alone or in a phrase of the text."""
        if not self._custom and not self._phrases:
            return self._custom
        return self._custom.union(*(phrase.stems for phrase in self.find_phrases(text)))

    def _chunks_in(self, language: Language | None) -> dict[str, AnalyzedText]:
        return self._chunks[language.code if language else ""]

    def _analyze_chunk(self, chunk: str, language: Language | None) -> AnalyzedText:
        chunks = self._chunks_in(language)
        if len(chunks) >= self._memory:
            chunks.clear()
        text = chunks[chunk] = self._analyze_text(chunk, language)
        return text

    def _analyze_text(self, text: str, language: Language | None) -> AnalyzedText:
        text_words = words(text, characters=True)
        content_words = [word for word in text_words if word not in self._stop_words]
        if language:
            content_words = [word for word in content_words if language.translate(word) != ()]
        analyzed = self._analyze(text, content_words, language)
        # Of a name the parts say as much, and more tools share them.
        for compound in compounds(text):
            analyzed.terms.extend(self.terms(compound.whole))
        return analyzed

    def _analyze(self, text: str, kept: list[str], language: Language | None) -> AnalyzedText:
        terms = [term for word in kept for term in self.terms(word)]
        if language or not text.isascii():
            for token in self._tokens(text, language):
                if token.is_translated:
                    terms += [term for word in token.english for term in self.terms(word)]
        terms += [phrase.concept for phrase in self.find_phrases(text)]
        return AnalyzedText(terms, len(kept))

    def _merge(self, group: SynonymGroup) -> None:
        """Give all members of a group one concept: that of their known synonyms, if any."""
        members = [stems for text in group if (stems := self._stems_without_stop_words(text))]
        alone = [stems[0] for stems in members if len(stems) == 1]
        merged = {self._concepts[stem] for stem in alone if stem in self._concepts}
        concept = min(merged, default=CONCEPT + " ".join(members[0]) if members else "")
        for stem, old_concept in self._concepts.items():
            if old_concept in merged:
                self._concepts[stem] = concept
        self._concepts.update(dict.fromkeys(alone, concept))
        self._custom.update(alone)
        self._phrases.merge(merged, concept)
        for stems in members:
            if len(stems) > 1:
                self._phrases.add(stems, concept)

    def _stems_without_stop_words(self, text: str) -> list[str]:
        text_words = words(text)
        return [self.stem(w) for w in text_words if w not in self._stop_words] or list(
            map(self.stem, text_words)
        )


@lru_cache(maxsize=4)
def lexicon_for(groups: tuple[SynonymGroup, ...]) -> Lexicon:
    """The lexicon with an owner's synonyms."""
    return Lexicon(groups)


def default_lexicon() -> Lexicon:
    return lexicon_for(())


def _lines(file: Path) -> Iterator[list[str]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split()


Stems = tuple[str, ...]


class Phrase(Struct, frozen=True):
    stems: Stems
    concept: str


class Phrases:
    def __init__(self) -> None:
        self._by_first: defaultdict[str, dict[Stems, str]] = defaultdict(dict)

    def __bool__(self) -> bool:
        return bool(self._by_first)

    def add(self, stems: Sequence[str], concept: str) -> None:
        self._by_first[stems[0]][tuple(stems)] = concept

    def merge(self, concepts: Collection[str], concept: str) -> None:
        """Give all phrases of `concepts` one concept."""
        for phrases in self._by_first.values():
            for stems, meant in phrases.items():
                phrases[stems] = concept if meant in concepts else meant

    def find(self, stems: Sequence[str]) -> list[Phrase]:
        """Return every phrase in a text, given as its stems; also phrases within others."""
        return [
            Phrase(phrase, concept)
            for start, first in enumerate(stems)
            for phrase, concept in self._by_first.get(first, {}).items()
            if tuple(stems[start : start + len(phrase)]) == phrase
        ]
