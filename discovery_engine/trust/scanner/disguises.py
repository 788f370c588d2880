"""Undoes disguises of texts: invisible characters, imitated letters, and encodings.

`plain` replaces compatibility forms, removes hidden characters, and replaces letters of other
alphabets in Latin words by the Latin letters that they imitate. `loose` also replaces digits that
stand for letters, and removes signs and spaces between letters. `decoded` yields texts that can be
decoded to readable ones, layer by layer.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice

from msgspec import Struct

from discovery_engine._util.text import clean, unseen
from discovery_engine.tools.findings import Severity
from discovery_engine.trust.scanner.word_families import DATA, PATTERNS, pattern

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_JOINING = re.compile("[\u0600-\u08ff\u0900-\u0dff\u0e80-\u0fff\u1000-\u109f\u1780-\u18af]")
_DIRECTIONS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u2066\u2067\u2068\u2069")
_JOINERS = frozenset("\u200c\u200d")
_HARMLESS = frozenset("\ufeff\xad\ufe0e\ufe0f\u200b")
"""Left over from editors and hyphenation: a few are only odd, many are suspicious."""
_FLAG = re.compile("\U0001f3f4$")
_TAGS = re.compile("[\U000e0061-\U000e007a\U000e0030-\U000e0039]{3,6}\U000e007f")
_BLANK_RUN = re.compile("[\u115f\u1160\u2800\u3164\uffa0]{3,}")
_HIDDEN_BITS = 16  # hidden characters of two kinds, as bits of at least two letters
_FEW = 2


class Hidden(Struct, frozen=True):
    severity: Severity
    start: int
    end: int
    message: str
    says: str = ""
    """The text that the characters encode; empty if they encode none."""


def hidden_in(text: str) -> Iterator[Hidden]:
    """Yield the hidden characters of a text, then its runs of blank letters."""
    runs = [run for run in unseen(text) if not _has_reason(text, run)]
    if runs:
        characters = "".join(run[0] for run in runs)
        worst = max(runs, key=lambda run: run.end() - run.start())
        says = spelled(characters)
        severity = _hidden_severity(characters, says)
        yield Hidden(severity, worst.start(), worst.end(), _hidden_message(characters, says), says)
    if blanks := _BLANK_RUN.search(text):
        message = f"{len(blanks[0])} blank letters in a row"
        yield Hidden(Severity.WARNING, blanks.start(), blanks.end(), message)


def spelled(characters: str) -> str:
    """Return the text that tags, variation selectors or bits of two hidden characters encode."""
    for read in (_from_tags, _from_selectors, _spelled_in_bits):
        if (text := read(characters)) and text.isprintable():
            return text
    return ""


def _has_reason(text: str, run: re.Match[str]) -> bool:
    before, after = text[max(0, run.start() - 1) : run.start()], text[run.end() : run.end() + 1]
    characters = set(run[0])
    if characters <= _JOINERS:
        return bool(_JOINING.match(before) and _JOINING.match(after))
    if characters <= _DIRECTIONS:
        return bool(_RIGHT_TO_LEFT.search(text))
    if run[0] == "\ufeff" and not before:
        return True
    return bool(_FLAG.match(before) and _TAGS.fullmatch(run[0]))


def _hidden_severity(characters: str, says: str) -> Severity:
    if says:
        return Severity.DANGER
    if len(characters) <= _FEW and set(characters) <= _HARMLESS:
        return Severity.NOTICE
    overrides = any(c in "\x1b\x9b\x9d\u202d\u202e" or c >= "\U000e0000" for c in characters)
    return Severity.DANGER if overrides else Severity.WARNING


def _hidden_message(characters: str, says: str) -> str:
    if says:
        return f"hidden characters spell {says[:100]!r}"
    if any(c in "\x1b\x9b\x9d" for c in characters):
        return "it holds control sequences for terminals"
    if any(c in "\u202d\u202e" for c in characters):
        return "it turns the direction of the text round"
    count = len(characters)
    return f"{count} hidden character{'' if count == 1 else 's'}"


def _from_tags(characters: str) -> str:
    points = [ord(c) - 0xE0000 for c in characters if "\U000e0020" <= c <= "\U000e007e"]
    return "".join(map(chr, points)) if len(points) > _FEW else ""


def _from_selectors(characters: str) -> str:
    octets = [value for c in characters if (value := _octet(c)) is not None]
    if len(octets) <= _FEW:
        return ""
    return bytes(octets).decode("utf-8", "ignore")


def _octet(character: str) -> int | None:
    if "\ufe00" <= character <= "\ufe0f":
        return ord(character) - 0xFE00
    if "\U000e0100" <= character <= "\U000e01ef":
        return ord(character) - 0xE0100 + 16
    return None


def _spelled_in_bits(characters: str) -> str:
    kinds = sorted(set(characters))
    if len(kinds) != 2 or len(characters) < _HIDDEN_BITS or len(characters) % 8:  # noqa: PLR2004 - zeros and ones
        return ""
    bits = "".join("01"[kinds.index(c)] for c in characters)
    octets = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    return octets.decode("utf-8", "ignore") if all(32 <= o < 127 for o in octets) else ""  # noqa: PLR2004 - ASCII


_CONFUSABLES: dict[str, str] = json.loads((DATA / "confusables.json").read_text("utf-8"))
_HOMOGLYPHS = str.maketrans(
    {letter: ascii_ for ascii_, letters in _CONFUSABLES.items() for letter in letters}
)
_FOREIGN = re.compile(
    "[{}]".format(
        "".join(
            letter
            for letters in _CONFUSABLES.values()
            for letter in letters + letters.upper()
            if "LATIN" not in unicodedata.name(letter, "")
        )
    )
)
"""Confusable letters of other alphabets; those of Latin script are normal in Latin words."""
_LEET = str.maketrans("0134578@$!|", "oieastbasil")
_WHOLE_WORD = re.compile(r"[^\W\d_]{2,}|[^\W_]{2,}")
_LATIN = re.compile(r"[a-zA-Z]")
_LEET_SIGN = re.compile(r"[0-8@$!|]")
_LEETWORD = re.compile(r"[a-z]*[0-8@$!|][a-z]+[0-8@$!|a-z]*|[a-z]+[0-8@$!|]+[a-z]+")
_SPACED = re.compile(r"\b(?:\w ){4,}\w\b(?: {2,}(?:\w ){2,}\w\b)*")
_JOINED = re.compile(r"(?<![a-z])[a-z]+(?:[-_.*~]+[a-z]+){3,}")
"""Four words; fewer are a name or a normal compound."""
_SEPARATORS = re.compile(r"[-_.*~]+")
_LEET_WORDS = 2  # a single one may be a version or a format
_LINES = str.maketrans("\n\t", "  ")
_WRAP = re.compile(r"(?<=[a-z,])[ \t]*\r?\n[ \t]*(?=[a-z']{1,30}(?:,? [a-z]|[.!?]))")
_BLANKS = re.compile(r"[^\S\n]{2,}|[^\S\n ]")  # a single space stays as it is


@lru_cache(maxsize=500)  # the passages of a definition are read for its topic, too
def plain(text: str) -> str:
    """Return the plain reading, in lower case; lines and sentences keep their order."""
    if not text.isascii() or not text.translate(_LINES).isprintable():
        text = clean(_without_unseen(unicodedata.normalize("NFKC", _without_unseen(text))))
        text = latinised(text)
    return _BLANKS.sub(" ", text.lower().replace("\u2019", "'"))


def joined_lines(text: str) -> str:
    """Return `text` with each sentence that goes on in the next line in one line."""
    return _WRAP.sub(" ", text) if "\n" in text else text


def loose(text: str) -> str:
    """Return the loose reading of a text; equal to the plain one if nothing is disguised."""
    spaced = _SPACED.sub(_closed, clean(text)).lower()
    read = plain(spaced)
    if _LEET_SIGN.search(read) and len(_LEETWORD.findall(read)) >= _LEET_WORDS:
        read = _LEETWORD.sub(lambda match: match[0].translate(_LEET), read)
    return _JOINED.sub(lambda match: _SEPARATORS.sub(" ", match[0]), read)


def latinised(text: str) -> str:
    """Return `text` with imitating letters replaced in words that also have Latin letters."""
    if text.isascii() or not _FOREIGN.search(text):
        return text
    return _WHOLE_WORD.sub(_latin_word, text)


def letters_only(name: str) -> str:
    """Return a name as it looks, with ASCII letters in place of those that imitate them."""
    normal_form = unicodedata.normalize("NFKC", _without_unseen(name))
    return normal_form.casefold().translate(_HOMOGLYPHS)


def mixes_alphabets(word: str) -> bool:
    """Return whether a word mixes Latin letters with letters of other alphabets imitating them."""
    return any(
        _LATIN.search(part) and _FOREIGN.search(part) and letters_only(part).isascii()
        for part in _WHOLE_WORD.findall(unicodedata.normalize("NFKC", word))
    )


def _latin_word(match: re.Match[str]) -> str:
    word = match[0]
    if not (_LATIN.search(word) and _FOREIGN.search(word)):
        return word
    return word.lower().translate(_HOMOGLYPHS)


def _closed(match: re.Match[str]) -> str:
    return re.sub(r" {2,}", "\x00", match[0]).replace(" ", "").replace("\x00", " ")


def _without_unseen(text: str) -> str:
    pieces = []
    at = 0
    for run in unseen(text):
        pieces.append(text[at : run.start()])
        at = run.end()
    return "".join([*pieces, text[at:]])


_LAYERS = 3
_CANDIDATES = 24  # decoded texts of one passage
_MIN_DECODED_LENGTH = 8  # characters of a decoded text; shorter ones are ignored
_READABLE = 0.95

_WORD = re.compile(r"[a-z]+")
_TURNED_WORDS = 2  # a single one may be a name or an abbreviation
_TURNED = frozenset(PATTERNS["turned"]["words"])
_MIRRORED = frozenset(PATTERNS["mirrored"]["words"])
_DISGUISED = _TURNED | _MIRRORED
_SEVERAL_WORDS = re.compile(
    r"[0-9][0-9a-fA-F]?[ :,]+(?:0x)?[0-9a-fA-F]{2}\b|[01]{8}"
    r"|[A-Za-z0-9+/_-]{16}\n[A-Za-z0-9+/_-]{8}"
)
"""The beginning of an encoded text of several words: numbers, or lines."""


def decoded(text: str) -> Iterator[str]:
    """Yield the texts encoded in `text`, inner layers after outer ones."""
    layer = [text]
    for _ in range(_LAYERS):
        layer = [inner for outer in layer for inner in _once(outer)][:_CANDIDATES]
        yield from layer


def _once(text: str) -> Iterator[str]:
    for code, decode in _CODES:
        if code.search(text):  # most texts have none, and this is the cheaper test
            yield from _with(code, decode, text)
    words = _WORD.findall(text.lower())
    if sum(word in _TURNED for word in words) >= _TURNED_WORDS:
        yield codecs.encode(text, "rot13")
    if sum(word in _MIRRORED for word in words) >= _TURNED_WORDS:
        yield text[::-1]


def _with(code: re.Pattern[str], decode: Callable[[str], str], text: str) -> Iterator[str]:
    for match in islice(code.finditer(text), _CANDIDATES):
        inner = decode(match[0])
        if len(inner) >= _MIN_DECODED_LENGTH and inner != match[0] and _is_readable(inner):
            yield inner


def _is_readable(text: str) -> bool:
    seen = sum(character.isprintable() or character in "\n\t" for character in text)
    return seen >= len(text) * _READABLE


def _text(octets: bytes) -> str:
    """Return bytes decoded as UTF-8, or as UTF-16 if every second one is 0; empty if invalid."""
    if octets[1::2] and not any(octets[1::2]):
        octets = octets[::2]
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return ""


def _from_base64(text: str) -> str:
    joined = re.sub(r"[\n=]", "", text).translate(str.maketrans("-_", "+/"))
    try:
        return _text(base64.b64decode(joined + "=" * (-len(joined) % 4)))
    except binascii.Error:
        return ""


def _from_base32(text: str) -> str:
    bare = text.rstrip("=")
    try:
        return _text(base64.b32decode(bare + "=" * (-len(bare) % 8)))
    except binascii.Error:
        return ""


def _from_hex(text: str) -> str:
    digits = re.sub(r"0x|\\x|[ :,]", "", text)
    return _text(bytes.fromhex(digits)) if len(digits) % 2 == 0 else ""


def _from_unicode(text: str) -> str:
    return "".join(chr(int(digits, 16)) for digits in text.split("\\u")[1:])


def _from_bits(text: str) -> str:
    bits = re.sub(r"[ ,]", "", text)
    return _text(bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8)))


def _from_percent(text: str) -> str:
    octets = re.sub(
        rb"%([0-9a-fA-F]{2})", lambda match: bytes.fromhex(match[1].decode()), text.encode()
    )
    return _text(octets)


_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}(?:\n[A-Za-z0-9+/_-]{8,})*={0,2}")
_CODES: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (_BASE64, _from_base64),
    (re.compile(r"\b[A-Z2-7]{24,}={0,6}"), _from_base32),
    (re.compile(r"(?<![0-9A-Za-z])(?:0x)?(?:[0-9a-fA-F]{2}[ :,]?){10,}(?![0-9A-Za-z])"), _from_hex),
    (re.compile(r"(?:\\x[0-9a-fA-F]{2}){6,}"), _from_hex),
    (re.compile(r"(?:\\u[0-9a-fA-F]{4}){4,}"), _from_unicode),
    (re.compile(r"(?:\b[01]{8}\b[ ,]?){8,}|\b[01]{64,}\b"), _from_bits),
    (re.compile(r"(?:%[0-9a-fA-F]{2}[^%\s]{0,40}){3,}"), _from_percent),
    (re.compile(r"(?:&#x?[0-9a-fA-F]{1,6};[^&]{0,8}){4,}"), html.unescape),
)


command_in = pattern("command").search
"""Finds the first command in a plain reading that takes over a machine."""
_KEY = pattern("credential")
_KEY_MARKS = PATTERNS["credential"]["marks"]
_SAMPLE = re.compile(pattern("sample").pattern, re.IGNORECASE)


def credential_in(text: str) -> re.Match[str] | None:
    """Return the first credential in a text that is no sample; None if there is none."""
    if not any(mark in text for mark in _KEY_MARKS):
        return None
    return next((match for match in _KEY.finditer(text) if not _SAMPLE.search(match[0])), None)


def is_undisguised(text: str, reading: str) -> bool:
    """Return whether a text has no encoding, credential or command, and one reading only."""
    if not text.isascii() or not text.translate(_LINES).isprintable():
        return False
    if command_in(reading) or credential_in(text) or _SPACED.search(text):
        return False
    if all(map(_is_ordinary, text.split())) and not _SEVERAL_WORDS.search(text):
        return True
    return loose(text) == reading and next(_once(text), None) is None


@lru_cache(maxsize=50_000)
def _is_ordinary(word: str) -> bool:
    """Return whether a word is no disguise, except as a part of one of several words."""
    lower = word.lower()
    if _LEETWORD.search(lower) or _JOINED.search(lower) or next(_once(word), None) is not None:
        return False
    return _DISGUISED.isdisjoint(_WORD.findall(lower))
