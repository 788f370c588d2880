"""What a word may be about: its families, looked up in the lexicon."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, lru_cache, reduce
from operator import or_

from msgspec import Struct

from discovery_engine.scanner.english import ENGLISH
from discovery_engine.scanner.families import Family
from discovery_engine.scanner.other_languages import CHINESE_AND_JAPANESE, OTHER_LANGUAGES

F = Family
_KNOWN_WORDS = 20_000
_LONGEST_STEM = 12
SECRET_FILE = re.compile(
    r"\.ssh\b|\bid_(?:rsa|dsa|ecdsa|ed25519)\b|\.aws/|/etc/(?:passwd|shadow|sudoers)|\.kube/"
    r"|\.npmrc\b|\.netrc\b|\.docker/config|\.pgpass\b|\.pypirc\b|/proc/self/environ"
    r"|\.git-?(?:credentials|config)\b|\bmcp\.json\b|claude_desktop_config|(?<!\w)\.env\b"
    r"|\.?(?:bash|zsh|shell)_history\b|/[\w*.-]*\.(?:pem|key|p12|pfx|kdbx|ppk)\b|\*\.pem\b"
    r"|\.config/|\.gnupg|secrets?\.(?:ya?ml|json|toml)|credentials\.(?:json|ya?ml|toml|csv)"
    r"|wallet\.dat|authorized_keys|keychain|\.tfstate\b|\.(?:bash|zsh)rc\b"
)
_ACCENTS = {
    point: base
    for point in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if (base := unicodedata.normalize("NFD", chr(point))[0]) < "\x7f"
} | {0x451: "\u0435", 0x439: "\u0438", 0xDF: "ss"}
NOT_LATIN = "\u0250"  # the first letter behind the Latin ones
_VOWELS = "aeiou"
_STEM = 5  # letters: "convert" and "conversion" are one
_SHORTEST = 4  # letters of a word that says what a text is about
_LETTERS = re.compile(r"[^\W\d_]+")
_JOINTS = re.compile(r"['_.-]")
SECRET = F.PATH | F.PRIVATE
"""What the path of a file that holds secrets is about."""
FUNCTION_WORDS = frozenset(
    [
        "der",
        "die",
        "das",
        "den",
        "dem",
        "und",
        "ist",
        "nicht",
        "ein",
        "eine",
        "im",
        "mit",
        "von",
        "fur",
        "auf",
        "zu",
        "zum",
        "zur",
        "bei",
        "als",
        "auch",
        "sind",
        "wird",
        "werden",
        "sich",
        "aus",
        "nach",
        "le",
        "la",
        "les",
        "un",
        "une",
        "des",
        "du",
        "et",
        "est",
        "en",
        "au",
        "aux",
        "dans",
        "pour",
        "avec",
        "sur",
        "que",
        "qui",
        "par",
        "ce",
        "cette",
        "ne",
        "pas",
        "il",
        "elle",
        "sont",
        "el",
        "los",
        "las",
        "una",
        "y",
        "es",
        "para",
        "con",
        "por",
        "del",
        "al",
        "se",
        "su",
        "lo",
        "como",
        "mas",
        "il",
        "gli",
        "e",
        "di",
        "che",
        "non",
        "della",
        "nel",
        "per",
        "da",
        "sono",
        "alla",
        "dei",
        "delle",
        "o",
        "os",
        "do",
        "da",
        "em",
        "no",
        "na",
        "um",
        "uma",
        "com",
        "ao",
        "dos",
        "das",
        "nao",
        "het",
        "een",
        "van",
        "op",
        "voor",
        "te",
        "aan",
        "met",
        "zijn",
        "wordt",
        "och",
        "att",
        "det",
        "som",
        "pa",
        "av",
        "ar",
        "till",
        "w",
        "i",
        "z",
        "na",
        "do",
        "sie",
        "jest",
        "oraz",
        "lub",
        "dla",
        "ve",
        "bir",
        "bu",
        "icin",
        "ile",
        "yang",
        "dan",
        "untuk",
        "ke",
        "dari",
        "dengan",
        "ini",
        "pada",
        "va",
        "cua",
        "cho",
        "cac",
        "a",
        "se",
        "v",
        "ze",
        "je",
        "pro",
        "sa",
    ]
)


@lru_cache(maxsize=_KNOWN_WORDS)
def families_of(word: str) -> tuple[int, int]:
    """The families of a word in lower case: in English, and in any other language."""
    bare = word if word.isascii() else word.translate(_ACCENTS)
    words = lexicon()
    parts = _JOINTS.split(bare)
    if bare in words.english or len(parts) == 1:
        english = words.english.get(bare, 0)
        return english if word.isascii() else english & ~F.ENGLISH, words.foreign(bare)
    if SECRET_FILE.search(bare):
        return SECRET, SECRET
    english = foreign = 0
    for part in parts:
        english |= words.english.get(part, 0)
        foreign |= words.foreign(part)
    if "_" in bare:
        english, foreign = english | F.NAME, foreign | F.NAME
    return english & ~F.VERB, foreign


class WordFamilies(Struct, frozen=True):
    english: dict[str, int]
    """Pairs of words among them, joined by `_`."""
    words: dict[str, int]
    """Of other languages."""
    stems: dict[str, int]

    def foreign(self, word: str) -> int:
        families = self.words.get(word, 0)
        for length in range(min(len(word), _LONGEST_STEM), 0, -1):
            if found := self.stems.get(word[:length]):
                return families | found
        return families


class Known(Struct, frozen=True):
    """A token as the quick look sees it."""

    english: int
    """All that it may be about in an English sentence, but for pairs of words."""
    foreign: int
    pairs: dict[str, int] | None
    """What it is about after another word, by that word."""
    language: int
    """1 for a function word of English, -1 for one of another language."""
    is_latin: bool


@lru_cache(maxsize=_KNOWN_WORDS)
def known(token: str) -> Known:
    english, foreign = families_of(token)
    verb = F.DO if english & F.VERB else 0
    language = bool(english & F.ENGLISH) - (token in FUNCTION_WORDS)
    pairs = _pairs().get(token)
    return Known(english | verb, foreign, pairs, language, token[0] < NOT_LATIN)


def stems_of(text: str) -> frozenset[str]:
    """The words of a text that say what it is about, less their endings."""
    words = _LETTERS.findall(text)
    return frozenset(word[:_STEM] for word in words if len(word) >= _SHORTEST)


@cache
def _pairs() -> dict[str, dict[str, int]]:
    """The families of pairs of words, by the second and the first."""
    pairs: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for entry, about in lexicon().english.items():
        first, joint, second = entry.rpartition("_")
        if joint:
            pairs[second][first] = about
    return dict(pairs)


@cache
def lexicon() -> WordFamilies:
    english: defaultdict[str, int] = defaultdict(int)
    words: defaultdict[str, int] = defaultdict(int)
    stems: defaultdict[str, int] = defaultdict(int)
    for family, row in ENGLISH.items():
        for entry in row.split():
            for form in _forms(entry[:-1]) if entry.endswith("+") else (entry,):
                english[form] |= family
            if entry.endswith("+"):
                english[entry[:-1]] |= F.VERB
    for family, row in OTHER_LANGUAGES.items():
        for entry in row.translate(_ACCENTS).split():
            table = stems if entry.endswith("*") else words
            table[entry.rstrip("*")] |= family
    return WordFamilies(dict(english), dict(words), dict(stems))


@cache
def unspaced_lexicon() -> tuple[re.Pattern[str], dict[str, int]]:
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


def unspaced_families(text: str) -> int:
    """All that a text in Chinese or Japanese is about."""
    pattern, families = unspaced_lexicon()
    if text.isascii():
        pattern = _ascii_unspaced()
    return reduce(or_, (families[word] for word in pattern.findall(text)), 0)


@cache
def _ascii_unspaced() -> re.Pattern[str]:
    """The few words of the lexicon that are ASCII: a search for them is a hundredth of the rest."""
    words = [word for word in unspaced_lexicon()[1] if word.isascii()]
    return re.compile("|".join(words or ["(?!)"]))
