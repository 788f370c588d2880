"""Text in disguise: whatever in a passage can be decoded to readable text, layer by layer."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Callable, Iterator
from itertools import islice

_LAYERS = 3
_CANDIDATES = 24  # decoded of one passage
_LEAST = 8  # characters of a decoded text that can say anything
_READABLE = 0.95

_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}(?:\n[A-Za-z0-9+/_-]{8,})*={0,2}")
_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{16,}")
_BASE32 = re.compile(r"\b[A-Z2-7]{24,}={0,6}")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:0x)?(?:[0-9a-fA-F]{2}[ :,]?){10,}(?![0-9A-Za-z])")
_LONG_HEX = re.compile(r"[0-9a-f]{20}")
_LONG_HEX_OR_BASE32 = re.compile(r"(?:[0-9a-fA-F]{2}[:,]?){8}|[A-Z2-7]{24}")
_HEX_ESCAPES = re.compile(r"(?:\\x[0-9a-fA-F]{2}){6,}")
_UNICODE_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4}){4,}")
_BITS = re.compile(r"(?:\b[01]{8}\b[ ,]?){8,}|\b[01]{64,}\b")
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2}[^%\s]{0,40}){3,}")
_ENTITIES = re.compile(r"(?:&#x?[0-9a-fA-F]{1,6};[^&]{0,8}){4,}")
_WORD = re.compile(r"[a-z]+")
LONGEST_WORD = 16  # characters: base64 of twelve letters
SIGNS = ("\\x", "\\u", "%", "&#")
_TURNED_WORDS = 2  # fewer are names and abbreviations
TURNED = frozenset({
    *("gur", "naq", "bs", "sbe", "jvgu", "sebz", "guvf", "gung", "abg", "lbhe", "lbh", "hfre"),
    *("gbby", "nyy", "vagb", "hfr", "jura", "orsber", "vtaber", "cerivbhf", "frperg", "flfgrz"),
    *("gryy", "vafgehpgvbaf"),
})  # fmt: skip
"""Common words as ROT13 shows them; a text without them need not be turned."""
MIRRORED = frozenset({
    *("eht", "dna", "fo", "rof", "htiw", "morf", "siht", "taht", "ruoy", "uoy", "resu", "loot"),
    *("lla", "otni", "nehw", "erofeb", "erongi", "suoiverp", "terces", "metsys", "llet"),
    *("snoitcurtsni", "esu", "ksa", "ot", "dnes"),
})  # fmt: skip
"""The same in a mirror."""


def decoded(text: str) -> Iterator[str]:
    """The texts hidden in `text`, those of inner layers after the outer ones."""
    layer = [text]
    for _ in range(_LAYERS):
        layer = [inner for outer in layer for inner in _once(outer)][:_CANDIDATES]
        yield from layer


def may_be_code(word: str) -> bool:
    """Whether a long word, or its beginning, may be base64, base32 or hexadecimal.

    Text as base64 has letters of both cases, for each letter of ASCII begins with a low bit; so
    the long names of parameters in small letters are none. Other names decode to octets that are
    no text, whatever may follow them on the next line.
    """
    if word.islower():
        return bool(_LONG_HEX.search(word))
    if _LONG_HEX_OR_BASE32.search(word):
        return True
    return any(map(_may_begin_text, _BASE64_RUN.findall(word)))


def _may_begin_text(run: str) -> bool:
    """Whether the octets of a run of base64 are a text, or the beginning of one."""
    octets = base64.b64decode(run[: len(run) // 4 * 4], altchars=b"-_")
    if not any(octets[1::2]):
        return True  # UTF-16
    try:
        codecs.getincrementaldecoder("utf-8")().decode(octets)
    except UnicodeDecodeError:
        return False
    return True


def _once(text: str) -> Iterator[str]:
    for pattern, decode in _CODES:
        if pattern.search(text):  # most texts hold no code, and to ask costs less than to look on
            yield from _with(pattern, decode, text)
    words = _WORD.findall(text.lower())
    if sum(word in TURNED for word in words) >= _TURNED_WORDS:
        yield codecs.encode(text, "rot13")
    if sum(word in MIRRORED for word in words) >= _TURNED_WORDS:
        yield text[::-1]


def _with(pattern: re.Pattern[str], decode: Callable[[str], str], text: str) -> Iterator[str]:
    for found in islice(pattern.finditer(text), _CANDIDATES):
        inner = decode(found[0])
        if len(inner) >= _LEAST and inner != found[0] and _is_readable(inner):
            yield inner


def _is_readable(text: str) -> bool:
    seen = sum(character.isprintable() or character in "\n\t" for character in text)
    return seen >= len(text) * _READABLE


def _text(octets: bytes) -> str:
    """UTF-8, or UTF-16 as one shell likes it; empty if it is neither."""
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
        rb"%([0-9a-fA-F]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode()
    )
    return _text(octets)


_CODES: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (_BASE64, _from_base64),
    (_BASE32, _from_base32),
    (_HEX, _from_hex),
    (_HEX_ESCAPES, _from_hex),
    (_UNICODE_ESCAPES, _from_unicode),
    (_BITS, _from_bits),
    (_PERCENT, _from_percent),
    (_ENTITIES, html.unescape),
)
