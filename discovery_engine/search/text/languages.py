"""Words of other languages, translated to English.

Most tools are described in English, and many requests are not. A language with an alphabet of its
own is recognized by that, one with Latin letters by its function words and by the commonest words
of requests; only in a text of another language are words looked up, by their stems.

The tables are read late: not for a text that has nothing but words of the English tables, or too
few others to outnumber its English stop words.
"""

from __future__ import annotations

import re
from collections import defaultdict
from enum import Enum, auto
from functools import cache, cached_property
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import Stemmer
from msgspec import Struct

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.search.text.tokenizer import bare, bigrams, runs, words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

_DATA = Path(__file__).parents[1] / "data" / "languages"
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})  # for keyboards without them

_FEW = 14  # words that are looked for one by one: 12 us each, where the set of all takes 170

COLLOQUIAL = "en"
"""The code of the table of colloquial English."""

Translation = tuple[str, ...]
"""The English words for a word; empty for a stop word."""


class Expression(Struct, frozen=True):
    """Several words with one meaning: `look for`."""

    words: tuple[str, ...]
    english: Translation
    is_opening: bool
    """True if they have that meaning only as the first words of a text."""


class Dictionary(Struct, frozen=True):
    indicators: frozenset[str]
    """Stop words that indicate the language."""
    stop_words: frozenset[str]
    """All stop words, the indicators among them."""
    translations: Mapping[str, Translation]
    ambiguous: frozenset[str]
    """Words of any of these that are words of English, too."""
    certain: frozenset[str]
    """Translated words that are none, although an English word has the same stem."""
    longest: Mapping[str, int]
    """The length of the longest word, by its first character."""
    expressions: Mapping[str, Sequence[Expression]]
    """Expressions by their first word, the longest first."""

    def expression_at(self, start: int, text: Sequence[str]) -> Expression | None:
        """The longest expression that begins at a word of a text, given as its words."""
        for expression in self.expressions.get(text[start], ()):
            fits = tuple(text[start : start + len(expression.words)]) == expression.words
            if fits and not (expression.is_opening and start):
                return expression
        return None


class WordTable:
    """One file."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._asked = 0

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of the file, with their accents."""
        return frozenset(self._text.split())

    @cached_property
    def dictionary(self) -> Dictionary:
        marked: dict[str, set[str]] = {mark: set() for mark in "=~?!"}
        translations: dict[str, Translation] = {}
        expressions: defaultdict[str, list[Expression]] = defaultdict(list)
        for line in self._folded.splitlines():
            english, colon, own = line.partition(":")
            if line[:1] in marked:
                marked[line[0]].update(line[2:].split())
            elif colon and not line.startswith("#"):
                meaning = tuple(english.split())
                for entry in own.split():
                    if several := _expression(entry, meaning):
                        expressions[several.words[0]].append(several)
                    else:
                        translations.setdefault(entry, meaning)
        for alternatives in expressions.values():
            alternatives.sort(key=lambda several: -len(several.words))
        indicators, others, ambiguous, certain = map(frozenset, marked.values())
        stop_words = indicators | others
        longest: dict[str, int] = {}
        for word in stop_words.union(translations):
            longest[word[0]] = max(longest.get(word[0], 0), len(word))
        return Dictionary(
            indicators, stop_words, translations, ambiguous, certain, longest, expressions
        )

    def may_contain(self, word: str) -> bool:
        """Return whether a folded word is in the file, maybe in a comment."""
        self._asked += 1
        if self._asked <= _FEW:
            return f" {word} " in self._folded
        return word in self._between_spaces

    @cached_property
    def _between_spaces(self) -> frozenset[str]:
        return frozenset(self._folded.split(" ")[1:-1])

    @cached_property
    def _text(self) -> str:
        text = (_DATA / f"{self._code}.txt").read_text(encoding="utf-8").lower()
        return text + text.translate(_UMLAUTS) if self._code == "de" else text

    @cached_property
    def _folded(self) -> str:
        """The text with each of its words between two spaces."""
        return bare(self._text).casefold().replace("\n", " \n")


def _expression(entry: str, english: Translation) -> Expression | None:
    """An entry of several words (`look_for`, `k8s`), or one for the beginning (`^cat`)."""
    if entry.isascii() and entry.isalpha():  # most are; to read 600 words took 3 ms of a start
        return None
    parts = tuple(runs(entry))
    if len(parts) > 1 or entry.startswith("^"):
        return Expression(parts, english, entry.startswith("^"))
    return None


def dictionary_files() -> list[Path]:
    """The files that all tables are read from."""
    return sorted(_DATA.glob("*.txt"))


__all__ = ["English", "Language", "Languages", "Token", "dictionary_files"]

_LETTERS = {
    "de": frozenset("äöüß"),
    "es": frozenset("ñ¿¡áíóú"),
    "fr": frozenset("çœêèàùî"),
    "it": frozenset("èàùòì"),
    "nl": frozenset("ëï"),
    "pt": frozenset("ãõçáâêóí"),
}  # of the languages that are recognized by words, and what else speaks for each
_STEMMERS = {
    "de": "german",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "nl": "dutch",
    "pt": "portuguese",
    "ru": "russian",
}
_COMPOUNDING = {"de": ("s",), "nl": ("s", "en")}  # write two words as one; what links them
_PRONOUNS = {
    "es": lazy_pattern("(?:me|nos|se)?(?:l[aeo]s?)?$"),
    "it": lazy_pattern("(?:m[ei]|t[ei]|c[ei]|v[ei]|gli)?(?:l[aeio]|ne)?$"),
}  # that are written onto a verb: muéstramelo
_ACRONYM = lazy_pattern(r"\b[A-Z]{2,5}\b")
_OF_SOFTWARE = frozenset(
    ("tool", "tools", "api", "apis", "service", "server", "mcp", "http", "https", "html", "com")
)  # stop words of English that requests in any language have
# English stop words that some other language has, too: they count for
# neither as long as no table is read.
SHARED_WORDS = frozenset(
    (
        *("a", "all", "also", "am", "an", "as", "com", "d", "do", "had", "he", "her", "i", "im"),
        *("in", "is", "m", "me", "no", "of", "over", "per", "s", "so", "t", "was", "we", "will"),
    )
)
_INFLECTED = "sdg"  # the last letters of what ends in -s, -ed or -ing
_MEMORY = 10_000  # words whose languages are cached
_SHORTEST_PART = 4  # letters of each word in a compound
_LONGEST_COMPOUND = 40  # letters; whatever is longer is no word


class English(Struct, frozen=True, dict=True):
    """The words of English, to tell its texts from those in other languages."""

    stop_words: Collection[str]
    words: frozenset[str]
    """All words in the English tables."""
    stem: Callable[[str], str]

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of these words."""
        return frozenset(map(self.stem, self.words))

    def has(self, word: str) -> bool:
        """Return whether a word is in the tables, or is like an inflected form of one that is."""
        return word in self.words or (word[-1] in _INFLECTED and self.stem(word) in self.stems)


class _Words(Struct, frozen=True):
    """The words of a text, as far as English goes."""

    found: list[str]
    stop_words: list[str]
    """The English stop words among them."""
    others: int
    """The number of other words in the English tables."""
    strange: list[str]
    """The words that are in none of the English tables, acronyms aside."""
    acronyms: set[str]


class _Votes(NamedTuple):
    """The counts that speak for a language in a text, the most important first."""

    indicators: int
    translated: int
    """The indicators that are not function words."""
    known: int
    """All function words, English ones included; they decide a tie."""


class Language(Struct, frozen=True, dict=True):
    code: str
    english: English

    @cached_property
    def table(self) -> WordTable:
        return WordTable(self.code)

    @property
    def dictionary(self) -> Dictionary:
        return self.table.dictionary

    @cached_property
    def indicators(self) -> frozenset[str]:
        """Folded words that indicate the language; none of them is an English one."""
        return frozenset(filter(self.is_indicated_by, self.entries))

    def is_indicated_by(self, word: str) -> bool:
        """The same of one word, which is quicker."""
        return word in self.entries and (
            word in self.dictionary.certain or self.english.stem(word) not in self._english_stems
        )

    def translate(self, word: str) -> Translation | None:
        """The English for a folded word; None if it is not in the dictionary."""
        if word in self.dictionary.stop_words:
            return ()
        return (
            self.dictionary.translations.get(word)
            or self._by_stem.get(self._stem(word))
            or self._translate_compound(word)
            or self._translate_verb(word)
        )

    @cached_property
    def entries(self) -> frozenset[str]:
        dictionary = self.dictionary
        return dictionary.indicators.union(dictionary.translations) - dictionary.ambiguous

    @cached_property
    def _english_stems(self) -> frozenset[str]:
        meant = {word for meaning in self.dictionary.translations.values() for word in meaning}
        return self.english.stems.union(map(self.english.stem, meant))

    @cached_property
    def _by_stem(self) -> dict[str, Translation]:
        translations: dict[str, Translation] = {}
        for text, translation in self.dictionary.translations.items():
            translations.setdefault(self._stem(text), translation)
        return translations

    @cached_property
    def _stem(self) -> Callable[[str], str]:
        if self.code not in _STEMMERS:
            return str
        stem: Callable[[str], str] = Stemmer.Stemmer(_STEMMERS[self.code]).stemWord
        return stem

    def _translate_compound(self, word: str) -> Translation | None:
        """The English for the two words of a compound; None if it is none."""
        links = _COMPOUNDING.get(self.code)
        if links is None or len(word) > _LONGEST_COMPOUND:
            return None
        for cut in range(len(word) - _SHORTEST_PART, _SHORTEST_PART - 1, -1):
            other = self._by_stem.get(self._stem(word[cut:]))
            if other and (beginning := self._translate_part(word[:cut], links)):
                return tuple(dict.fromkeys((*beginning, *other)))
        return None

    def _translate_part(self, part: str, links: Collection[str]) -> Translation | None:
        spellings = (part, *(part.removesuffix(link) for link in links))
        return next(
            filter(None, (self._by_stem.get(self._stem(spelling)) for spelling in spellings)), None
        )

    def _translate_verb(self, word: str) -> Translation | None:
        """The English for a verb with pronouns; None if it is none."""
        pronouns = _PRONOUNS.get(self.code)
        return self.dictionary.translations.get(pronouns.sub("", word)) if pronouns else None


class Languages:
    """All languages that are translated."""

    def __init__(self, english: English) -> None:
        self._english = english
        self._by_words = [Language(code, english) for code in _LETTERS]
        self._russian = Language("ru", english)
        self._japanese = Language("ja", english)
        self._korean = Language("ko", english)
        self._chinese = Language("zh", english)
        self._cached: dict[str, tuple[Language, ...]] = {}
        self.supported = [*self._by_words, self._russian, self._japanese, self._korean]

    @cached_property
    def _indicators(self) -> frozenset[str]:
        """Indicators of languages recognized by words, as they stand between spaces in a text."""
        folded = {word for language in self._by_words for word in language.indicators}
        table_words = {word for language in self._by_words for word in language.table.words}
        return frozenset(folded | {text for text in table_words if not text.isascii()})

    def detect(self, text: str) -> Language | None:
        """The language of a text; None for English and Chinese, and when in doubt."""
        read = self._read(text)
        possible = len(read.strange) + (not text.isascii())
        certain = sum(word not in SHARED_WORDS for word in read.stop_words)
        is_single = possible == 1 and not read.acronyms
        if possible <= certain or (is_single and read.stop_words):
            return self._by_alphabet(text)
        return self._by_most_words(text, read) or self._by_alphabet(text)

    def detect_long(self, text: str) -> Language | None:
        """The same of a sentence or more, and quick for nearly all that is English."""
        if self._indicators.isdisjoint(text.lower().split()):
            return self._by_alphabet(text)
        return self.detect(text)

    def split(self, run: str, language: Language | None) -> list[Token]:
        """The words of a run without spaces, in a text in `language`."""
        if any(map(_is_hangul, run)):
            return _split(run, self._korean)
        if language is self._japanese or any(map(_is_kana, run)):
            return _split(run, self._japanese)
        chinese = _split(run, self._chinese)
        if all(token.is_translated for token in chinese):
            return chinese
        return min(chinese, _split(run, self._japanese), key=_unknown)  # without kana it is either

    def _read(self, text: str) -> _Words:
        english = self._english
        text_words = words(text)
        # An acronym is the same in all languages: it speaks neither for English nor against it.
        acronyms: set[str] = set()
        if not text.isupper():
            acronyms = {word.lower() for word in _ACRONYM.findall(text)}
        others = [w for w in text_words if w not in english.stop_words and w not in acronyms]
        strange = [word for word in others if not english.has(word)]
        stop_words = [
            word for word in text_words if word in english.stop_words and word not in _OF_SOFTWARE
        ]
        return _Words(text_words, stop_words, len(others) - len(strange), strange, acronyms)

    def _by_most_words(self, text: str, read: _Words) -> Language | None:
        possible = {
            candidate.code: candidate for word in read.strange for candidate in self._with(word)
        }
        if not text.isascii():
            possible |= {
                candidate.code: candidate
                for candidate in self._by_words
                if _has_letters(candidate, text)
            }
        if not possible:
            return None
        voted = [
            (_votes(candidate, text, read.found), candidate) for candidate in possible.values()
        ]
        votes, language = max(voted, key=itemgetter(0))
        if not votes.translated and votes.indicators <= read.others:
            return None  # a name: "weather in Los Angeles"
        against = read.stop_words
        if votes.indicators > 1 or not read.others:
            against = [w for w in against if w not in language.dictionary.stop_words]
        return language if votes.indicators > len(against) else None

    def _with(self, word: str) -> tuple[Language, ...]:
        """The languages whose table may contain a word."""
        if word not in self._cached:
            if len(self._cached) >= _MEMORY:
                self._cached.clear()
            self._cached[word] = tuple(
                language for language in self._by_words if language.table.may_contain(word)
            )
        return self._cached[word]

    def _by_alphabet(self, text: str) -> Language | None:
        match = None if text.isascii() else _alphabets().search(text)
        if match is None:
            return None
        by_alphabet = {"ru": self._russian, "ja": self._japanese, "ko": self._korean}
        return by_alphabet[match.lastgroup or ""]


def _split(run: str, language: Language) -> list[Token]:
    return list(_split_run(run, language.dictionary, language.code))


def _unknown(tokens: Collection[Token]) -> int:
    return sum(not token.is_translated for token in tokens)


@cache
def _alphabets() -> re.Pattern[str]:
    return re.compile(
        "(?P<ru>[\u0400-\u04ff])|(?P<ja>[\u3040-\u30ff\uff66-\uff9d])|(?P<ko>[\uac00-\ud7af])"
    )


def _votes(language: Language, text: str, found: Collection[str]) -> _Votes:
    letters = _has_letters(language, text)
    stop_words = language.dictionary.stop_words
    indicators = set(filter(language.is_indicated_by, language.entries.intersection(found)))
    return _Votes(
        letters + len(indicators),
        letters + len(indicators - stop_words),
        len(stop_words.intersection(found)),
    )


def _has_letters(language: Language, text: str) -> bool:
    return not text.isascii() and not _LETTERS[language.code].isdisjoint(text.lower())


#     删除文件                 删除, 文件
#     ファイルを消して           ファイル, を, 消し, て
#     파일을 삭제해줘            파일, 을; 삭제, 해줘
#
# A run is cut so that the dictionary knows as much of it as possible, in as few pieces as possible.
# What it does not know is cut into pairs of characters.

_UNKNOWN_COST = 4  # of a character that no entry covers
_SHORT_COST = 2  # of an entry of one character; it is likelier to be a part of another word
_COST = 1  # of any other


class Token(Struct, frozen=True):
    text: str
    english: Translation
    is_colloquial: bool = False
    """True if the text is English, too: a tool may have it as it stands."""

    @property
    def is_translated(self) -> bool:
        return len(self.english) != 1 or self.english[0] != self.text


class _Kind(Enum):
    START = auto()
    ENTRY = auto()
    SINGLE = auto()
    """An entry of one character."""
    STOP = auto()
    FIRST = auto()
    """The first unknown character after something known."""
    UNKNOWN = auto()
    """Any further one."""


_UNKNOWN = (_Kind.FIRST, _Kind.UNKNOWN)


class _Piece(Struct, frozen=True):
    start: int
    end: int
    kind: _Kind


_Rule: TypeAlias = "Callable[[str, _Kind, _Piece], bool]"
"""A function that returns whether a piece of a run may follow one of some kind."""


class _Path(Struct, frozen=True):
    """The cheapest way to cut a run up to a piece."""

    cost: int
    piece: _Piece
    before: _Path | None


def _split_run(run: str, dictionary: Dictionary, code: str) -> Iterator[Token]:
    """The words of a run, in order; what the dictionary does not know as pairs of characters."""
    rest = ""
    for piece in _pieces(run, dictionary, _RULES.get(code)):
        text = run[piece.start : piece.end]
        if piece.kind in _UNKNOWN:
            rest += text
            continue
        yield from _unknown_run(rest)
        rest = ""
        yield Token(text, () if piece.kind is _Kind.STOP else dictionary.translations[text])
    yield from _unknown_run(rest)


def _is_kana(character: str) -> bool:
    return "\u3040" <= character <= "\u30ff"


def _is_hangul(character: str) -> bool:
    return "\uac00" <= character <= "\ud7af"


def _unknown_run(rest: str) -> list[Token]:
    return [Token(pair, (pair,)) for pair in bigrams(rest)] if rest else []


def _pieces(run: str, dictionary: Dictionary, may_follow: _Rule | None) -> list[_Piece]:
    start = _Path(0, _Piece(0, 0, _Kind.START), None)
    paths: list[dict[_Kind, _Path]] = [{_Kind.START: start}, *({} for _ in run)]
    for position in range(len(run)):
        candidates = list(_known(run, position, dictionary))
        for path in paths[position].values():
            before = path.piece.kind
            more = _Kind.UNKNOWN if before in _UNKNOWN else _Kind.FIRST
            unknown = _Piece(position, position + 1, more), _UNKNOWN_COST
            for piece, cost in (*candidates, unknown):
                kind = piece.kind if may_follow else _Kind.START  # the kind matters to rules alone
                there = paths[piece.end].get(kind)
                if there and there.cost <= path.cost + cost:
                    continue
                if may_follow is None or may_follow(run, before, piece):
                    paths[piece.end][kind] = _Path(path.cost + cost, piece, path)
    last = min(paths[-1].values(), key=attrgetter("cost"))
    pieces = []
    while last.before:
        pieces.append(last.piece)
        last = last.before
    return pieces[::-1]


def _known(run: str, start: int, dictionary: Dictionary) -> Iterator[tuple[_Piece, int]]:
    """The entries that begin at a position, the longest first, with the cost of each."""
    longest = dictionary.longest.get(run[start], 0)
    for end in range(min(start + longest, len(run)), start, -1):
        text = run[start:end]
        cost = _COST if end - start > 1 else _SHORT_COST
        if text in dictionary.stop_words:
            yield _Piece(start, end, _Kind.STOP), cost
        elif text in dictionary.translations:
            kind = _Kind.ENTRY if end - start > 1 else _Kind.SINGLE
            yield _Piece(start, end, kind), cost


def _may_follow_in_japanese(run: str, before: _Kind, piece: _Piece) -> bool:
    """A loanword is known as a whole or not at all; an unknown word in kana has no particles."""
    if before is _Kind.START or (before in _UNKNOWN) == (piece.kind in _UNKNOWN):
        return True
    last, first = run[piece.start - 1], run[piece.start]
    if _is_katakana(last) and _is_katakana(first):
        return False
    is_particle = piece.kind is _Kind.STOP and piece.end - piece.start == 1
    return not (is_particle and before in _UNKNOWN and _is_hiragana(last))


def _may_follow_in_korean(_run: str, before: _Kind, piece: _Piece) -> bool:
    """Particles end a word of two syllables or more; words of one stand at the start."""
    if piece.kind in _UNKNOWN:
        return before not in (_Kind.STOP, _Kind.SINGLE)
    if piece.kind is _Kind.STOP:
        return before is not _Kind.FIRST
    return piece.kind is not _Kind.SINGLE or before in (_Kind.START, _Kind.ENTRY)


_RULES = {"ja": _may_follow_in_japanese, "ko": _may_follow_in_korean}


def _is_katakana(character: str) -> bool:
    return "\u30a0" <= character <= "\u30ff"


def _is_hiragana(character: str) -> bool:
    return "\u3040" <= character < "\u30a0"
