"""A reading cut into sentences, and each word of them known by its families.

Reading is linear in the text: one pass of one pattern, whose parts are bounded, and a look-up for
each word.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, lru_cache

from msgspec import Struct

from discovery_engine.scanner.lexicon import CHINESE_AND_JAPANESE, ROWS, Family

F = Family
_LONGEST = 48  # words of a sentence: a longer one is read in pieces
_KNOWN_WORDS = 20_000
_LONGEST_STEM = 12
_ENGLISH_WORDS = 2  # function words by which a sentence is known to be English

_ADDRESS = (
    r"(?:(?:https?|s?ftp|wss?|s3)://|\bwww\.)[^\s<>\"'`)\]]{1,400}(?<![.,;:!?])"
    r"|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}|\b\d{1,3}(?:\.\d{1,3}){3}\b|\+\d{7,15}"
)
_SAMPLE = re.compile(r"\bexample\.(?:com|org|net)\b|^127\.|^0\.0|localhost")
_LABEL = (
    r"</?\|?(?:important|system|secret|hidden|instructions?|admin|assistant|human|user|im_start"
    r"|im_end|sys|tool|inst)[a-z_-]{0,20}\b[^<>\n]{0,60}\|?>"
    r"|\[/?(?:system|inst|admin|important|assistant|instructions?)\b[^\]\n]{0,40}\]"
    r"|<!--|\#{2,6} ?system\b|```system\b|<<sys>>"
)
_LETTER = r"[^\W_\u3040-\u30ff\u3400-\u9fff]"
_OTHER_TOKENS = (
    r"(?P<path>(?<!\w)[~/.$%*][~/\w.%$*-]{2,200})"
    rf"|(?P<label>{_LABEL})"
    r"|(?P<quoted>`[\w.-]{1,40}`)"
    r"|(?P<end>(?<!\be[. ]g)(?<!\bi[. ]e)[.!?]+(?=\s|$|[\"')\]*])|[\u3002\uff01\uff1f]|[\n;])"
    r"|(?P<pause>[,:(){}\u2014\u2013|\u3001\uff0c\uff1a])"
    r"|(?P<unspaced>[\u3040-\u30ff\u3400-\u9fff]+)"
    rf"|(?P<word>{_LETTER}+(?:['_.-]{_LETTER}+)*)"
)
_TOKEN = re.compile(_OTHER_TOKENS)
_TOKEN_OR_ADDRESS = re.compile(rf"(?P<address>{_ADDRESS})|{_OTHER_TOKENS}")
_HAS_ADDRESS = re.compile(r"@|://|www\.|\d\.\d|\+\d")
"""To look for an address at each word takes twice as long, and few texts hold any."""
_SECRET_FILE = re.compile(
    r"\.ssh\b|\bid_(?:rsa|dsa|ecdsa|ed25519)\b|\.aws/|/etc/(?:passwd|shadow|sudoers)|\.kube/"
    r"|\.npmrc\b|\.netrc\b|\.docker/config|\.pgpass\b|\.pypirc\b|/proc/self/environ"
    r"|\.git-?(?:credentials|config)\b|\bmcp\.json\b|claude_desktop_config|(?<!\w)\.env\b"
    r"|\.?(?:bash|zsh|shell)_history\b|/[\w*.-]*\.(?:pem|key|p12|pfx|kdbx|ppk)\b|\*\.pem\b"
    r"|\.config/|\.gnupg|secrets?\.(?:ya?ml|json|toml)|credentials\.(?:json|ya?ml|toml|csv)"
    r"|wallet\.dat|authorized_keys|keychain|\.tfstate\b|\.(?:bash|zsh)rc\b"
)
_ACCENTS = {
    point: base
    for point in range(0xC0, 0x250)
    if (base := unicodedata.normalize("NFD", chr(point))[0]) < "\x7f"
} | {0x451: "\u0435", 0x439: "\u0438", 0xDF: "ss"}
_VOWELS = "aeiou"
_PAUSE = [(0, 0)] * 2
"""What stands behind a comma is further away."""
_ACTS = F.DROP | F.GIVE | F.TAKE | F.DESTROY | F.CHANGE | F.VERB
_SPEAKS = F.TELL | F.ASK | F.KNOW | F.OBEY | F.USE
_UNLESS = frozenset({"without", "until", "unless"})
_DO_NOT = frozenset({"don't", "dont", "never", "mustn't", "shouldn't"})


class Sentence(Struct, frozen=True):
    """A sentence by the families of its words; a word of no family is a zero."""

    start: int
    end: int
    words: tuple[int, ...]
    families: int
    """Of all its words."""
    is_english: bool
    is_opening: bool
    """Whether it is the first of its text: what a tool does is said there."""


class _Draft:
    """A sentence that is being read."""

    def __init__(self) -> None:
        self.start = 0
        self.words: list[tuple[int, int]] = []
        """Of each word its families if the sentence is English, and if it is not."""
        self.before = ""
        self.is_order = True
        """Whether a verb that comes next would be an imperative."""
        self.seen = 0

    def add(self, word: str) -> None:
        english, foreign = families_of(word)
        if self.before:
            english |= _lexicon().english.get(f"{self.before}_{word}", 0)  # "api key"
        if english & _ACTS and any(one & F.NOT for one, _ in self.words[-2:]):
            english &= ~(
                _ACTS if not english & _SPEAKS else _ACTS & ~F.VERB
            )  # "do not skip", "never send": nothing is asked for
        if word in _UNLESS and F.NOT & self.seen:
            english &= ~F.NOT  # "do not delete without ..." asks for consent
        if word == "be" and self.before == "to":
            english |= F.MUST  # "is to be sent"
        if self.is_order and english & F.VERB:
            english |= F.DO
        self.is_order = (
            bool(english & (F.AND | F.MUST))
            or word in _DO_NOT
            or (self.is_order and (word == "to" or bool(english & F.NOT)))
        )
        self.before = word
        self.seen |= english
        self.words.append((english, foreign))

    def pause(self) -> None:
        self.before = ""
        self.is_order = True
        is_unspaced = self.words and self.words[-1][0] == 0 != self.words[-1][1]
        self.words += _PAUSE * 3 if is_unspaced else _PAUSE

    def add_sign(self, families: int, *, is_order: bool = False) -> None:
        self.before = ""
        self.is_order = is_order
        self.words.append((families, families))

    def done(self, end: int, *, is_opening: bool) -> Sentence:
        function_words = sum(bool(english & F.ENGLISH) for english, _ in self.words)
        is_english = function_words >= _ENGLISH_WORDS or not any(
            foreign & ~english for english, foreign in self.words
        )
        words = tuple(english if is_english else english | other for english, other in self.words)
        families = 0
        for word in words:
            families |= word
        return Sentence(self.start, end, words, families, is_english, is_opening)


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a plain reading that have words."""
    draft = _Draft()
    is_opening = True
    end = 0
    pattern = _TOKEN_OR_ADDRESS if _HAS_ADDRESS.search(text) else _TOKEN
    for token in pattern.finditer(text):
        kind = token.lastgroup
        if kind == "end" or len(draft.words) >= _LONGEST:
            if draft.words:
                yield draft.done(token.end(), is_opening=is_opening)
                is_opening = False
            draft = _Draft()
            if kind == "end":
                continue
        if not draft.words:
            if kind == "pause":
                continue
            draft.start = token.start()
        end = token.end()
        _add(draft, kind or "", token[0])
    if draft.words:
        yield draft.done(end, is_opening=is_opening)


def _add(draft: _Draft, kind: str, token: str) -> None:
    if kind == "word":
        draft.add(token)
    elif kind == "pause":
        draft.pause()
    elif kind == "unspaced":
        pattern, families = _unspaced_lexicon()
        draft.words += [(0, families[found[0]]) for found in pattern.finditer(token)]
    elif kind == "path":
        draft.add_sign(_SECRET if _SECRET_FILE.search(token) else F.PRIVATE)
    elif kind == "label":
        draft.add_sign(F.LABEL, is_order=True)
    elif kind == "quoted":
        is_file = _SECRET_FILE.search(token)
        draft.add_sign(_SECRET if is_file else F.NAME)
    elif not _SAMPLE.search(token):
        draft.add_sign(F.ADDRESS)


_SECRET = F.PATH | F.PRIVATE


@lru_cache(maxsize=_KNOWN_WORDS)
def families_of(word: str) -> tuple[int, int]:
    """The families of a word in lower case: in English, and in any other language."""
    bare = word if word.isascii() else word.translate(_ACCENTS)
    lexicon = _lexicon()
    parts = re.split(r"['_.-]", bare)
    if bare in lexicon.english or len(parts) == 1:
        return lexicon.english.get(bare, 0), lexicon.foreign(bare)
    if _SECRET_FILE.search(bare):
        return _SECRET, _SECRET
    if "_" in bare:
        return F.NAME, F.NAME
    english = foreign = 0
    for part in parts:
        english |= lexicon.english.get(part, 0)
        foreign |= lexicon.foreign(part)
    return english & ~F.VERB, foreign


class _Lexicon(Struct, frozen=True):
    english: dict[str, int]
    words: dict[str, int]
    """Of other languages."""
    stems: dict[str, int]

    def foreign(self, word: str) -> int:
        families = self.words.get(word, 0)
        for length in range(min(len(word), _LONGEST_STEM), 0, -1):
            if found := self.stems.get(word[:length]):
                return families | found
        return families


@cache
def _lexicon() -> _Lexicon:
    english: defaultdict[str, int] = defaultdict(int)
    words: defaultdict[str, int] = defaultdict(int)
    stems: defaultdict[str, int] = defaultdict(int)
    for family, row in ROWS.items():
        ours, _, others = row.translate(_ACCENTS).partition("|")
        for entry in ours.split():
            for form in _forms(entry[:-1]) if entry.endswith("+") else (entry,):
                english[form] |= family
            if entry.endswith("+"):
                english[entry[:-1]] |= F.VERB
        for entry in others.split():
            table = stems if entry.endswith("*") else words
            table[entry.rstrip("*")] |= family
    return _Lexicon(dict(english), dict(words), dict(stems))


@cache
def _unspaced_lexicon() -> tuple[re.Pattern[str], dict[str, int]]:
    families: defaultdict[str, int] = defaultdict(int)
    for family, row in CHINESE_AND_JAPANESE.items():
        for word in row.split():
            families[word] |= family
    longest_first = sorted(families, key=lambda word: (-len(word), word))
    return re.compile("|".join(longest_first)), dict(families)


def _forms(verb: str) -> Iterator[str]:
    """The regular forms of an English verb: send, sends, sended, sending."""
    yield verb
    if verb.endswith("y") and verb[-2] not in _VOWELS:
        yield from (verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing")
        return
    yield verb + ("es" if verb.endswith(("s", "x", "z", "ch", "sh")) else "s")
    stem = verb.removesuffix("e")
    if len(verb) > 2 and verb[-1] not in "aeiouwxy" and verb[-2] in _VOWELS:  # noqa: PLR2004 - drop
        yield from (stem + verb[-1] + "ed", stem + verb[-1] + "ing")
    yield from (stem + "ed", stem + "ing")
