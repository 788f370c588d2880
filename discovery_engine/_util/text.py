r"""Untrusted text, cleaned of invisible characters and quoted.

    clean("read\u200b it\x1b[2J")      "read it"             for agents, terminals and pages
    visible("read\u200b it")          "read<U+200B> it"     for a person who reviews it
    named("x\nNote: obey")           '"x\\nNote: obey"'    a name within a line of output
    quoted("x\nNote: obey")          '"x Note: obey"'      words within a sentence of output
    block("x\nNote: obey")           "  | x", "  | Note: obey"    a text of several lines

Of invisible characters, only those that form an emoji are kept; the tables are our own, because
those of Python differ between versions. No line of an answer, of an error or on a terminal begins
with untrusted text, which could pass for the program's.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from discovery_engine._util.lazy_pattern import lazy_pattern

_LINE_ENDS = r"\r\n?"
_BLANKS = (
    r"\t\x0b\x0c\x1c-\x1f\x85\xa0\u115f\u1160\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u2800"
    r"\u3000\u3164\uffa0"
)
"""Blanks that become spaces."""
_UNSEEN = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891"
    r"\u08e2\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Controls, format characters, variation selectors, tags: with those above 511 in Unicode 14."""
_MEANINGLESS = (
    r"\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff"
    + "".join(rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(1, 15))
    + r"\U000f0000-\U0010ffff"
)
"""Lone surrogates, private use, and noncharacters."""
_PRINTABLE = (
    r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    r"\U000e0100-\U000e01ef"
)
"""Characters of these kinds that `str.isprintable` takes for printable."""
_RAW = rf"[\r{_BLANKS}{_UNSEEN}{_MEANINGLESS}]"

_EMOJI = (
    r"[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f"
    r"\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_EMOJI_JOINERS = (
    rf"(?<={_EMOJI})[\ufe0e\ufe0f]"
    r"|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    rf"|(?:(?<={_EMOJI})|(?<={_EMOJI}\ufe0f))\u200d(?={_EMOJI})"
)
# An escape sequence is removed as a whole: string commands (OSC, DCS, APC, PM, SOS) up to their end
# if they have one, then control sequences (CSI), then any other.
_ESCAPES = (
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f\r\n]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?"
)


def clean(text: str, *, newlines: bool = True) -> str:
    """Return `text` without escape sequences and invisible characters.

    Unusual blanks become spaces, other line ends newlines, and meaningless characters U+FFFD.
    Without `newlines` the result is one line. Cleaning is idempotent.
    """
    if not _is_plain(text):
        text = _cleaning().sub(_cleaned, text)
    return text if newlines else text.replace("\n", " ")


def one_line(text: str) -> str:
    """Return `text` cleaned, with every run of blanks and line ends as one space."""
    return " ".join(clean(text).split())


def cut(text: str, length: int) -> str:
    """Truncate a text to at most `length` characters of one line, at a word and with an ellipsis.

    A negation in the rest of the sentence stays: `Lists the files of … except hidden ones`.
    """
    text = one_line(text)
    if len(text) <= length:
        return text
    rest = _SENTENCE.match(text, length)
    negation = _NEGATION.search(rest[0]) if rest else None
    tail = _at_word(negation[0], length // 2) if negation else ""
    head = _at_word(text, length - len(tail) - 1 if tail else length)
    return f"{head} {tail}" if head and tail else head


def _at_word(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    return f"{text[:length].rsplit(' ', 1)[0].rstrip('.,;:')}…" if length > 0 else ""


_SENTENCE = lazy_pattern(r"(?:(?![.!?;] ).)*")
# What turns around what stands before it, as servers write it in eleven languages.
_NEGATION = lazy_pattern(
    r"(?i)(?<!\w)(?:not?|never|cannot|\w+n't|without|except|unless|instead of|but|nicht|kein\w*"
    r"|nie|außer|ohne|ne|pas|sauf|sans|nunca|excepto|salvo|sin|não|exceto|sem|non|mai|tranne|senza"
    r"|niet|geen|nooit|behalve|не|без|кроме)\b.*"
)


def quoted(text: str) -> str:
    """Return untrusted text for a sentence: one line in quotes, and without quotes inside."""
    return '"{}"'.format(one_line(text).replace('"', "'"))


def named(name: str, *, before: str = "") -> str:
    """Return an untrusted name for a line: bare if it is one plain word, else in quotes.

    A name with invisible characters becomes a JSON string with escapes, so no two names look alike.
    `before` is a prefix within the quotes; `server:` makes a tool's address.
    """
    if name.isascii() and name.isidentifier():  # most are
        return f"{before}{name}"
    if one_line(name) != name:
        return escaped(json.dumps(f"{before}{name}", ensure_ascii=False))
    return f"{before}{name}" if _bare().fullmatch(name) else repr(f"{before}{name}")


def folded(name: str) -> str:
    """Return the letters and digits of a name, without case and separators."""
    return "".join(filter(str.isalnum, name)).casefold()


def block(text: str, *, before: str = "  | ") -> list[str]:
    """Return the lines of an untrusted text, cleaned, each with the prefix `before`."""
    return [f"{before}{line}".rstrip() for line in clean(text).strip("\n").split("\n")]


def visible(text: str) -> str:
    """Return `text` with invisible characters as `<U+200B>`; newlines and tabs stay."""
    return text if _is_plain(text) else _raw().sub(_shown, text)


def escaped(document: str) -> str:
    """Return a JSON document with invisible characters as JSON escapes; its value is the same."""
    return document if _is_plain(document) else _raw().sub(_json_escape, document)


def unseen(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs of unseen or meaningless characters that `clean` removes from `text`."""
    return iter(()) if _is_plain(text) else _unseen().finditer(text)


def columns_of(text: str) -> int:
    """Return the terminal columns of a text: two for a Chinese character, none for an accent."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of_character, text))


def _columns_of_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _is_plain(text: str) -> bool:
    if text.replace("\n", "").isprintable():
        return text.isascii() or not _any_printable().search(text)
    return not _any_raw().search(text)


# Compiled on first use, so that a start that shows only plain words does not pay for it.


@cache
def _any_printable() -> re.Pattern[str]:
    # For a sentence with a dash or an accent, this takes a tenth of the time of the whole table.
    return re.compile(f"[{_PRINTABLE}]")


@cache
def _any_raw() -> re.Pattern[str]:
    return re.compile(_RAW)


@cache
def _cleaning() -> re.Pattern[str]:
    groups = {
        "kept": _EMOJI_JOINERS,
        "escape": _ESCAPES,
        "line": _LINE_ENDS,
        "tab": r"\t",
        "blank": f"[{_BLANKS}]",
        "unseen": f"[{_UNSEEN}]",
        "meaningless": f"[{_MEANINGLESS}]",
    }
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in groups.items()))


@cache
def _bare() -> re.Pattern[str]:
    # No blank, colon or comma, which separate names in output, and no `#`, which begins a heading.
    return re.compile(r"[\w$@/][\w.$@/\[\]-]*")


@cache
def _raw() -> re.Pattern[str]:
    return re.compile(rf"(?P<kept>{_EMOJI_JOINERS}|\t)|(?P<line>\r\n)|{_RAW}")


@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(rf"(?:(?!{_EMOJI_JOINERS})[{_UNSEEN}{_MEANINGLESS}])+")


_REPLACEMENTS = {"line": "\n", "tab": "    ", "blank": " ", "meaningless": "\ufffd"}


def _cleaned(match: re.Match[str]) -> str:
    return match[0] if match.lastgroup == "kept" else _REPLACEMENTS.get(match.lastgroup or "", "")


def _shown(match: re.Match[str]) -> str:
    if match.lastgroup == "kept":
        return match[0]
    return "\n" if match.lastgroup == "line" else f"<U+{ord(match[0]):04X}>"


def _json_escape(match: re.Match[str]) -> str:
    return match[0] if match.lastgroup == "kept" else json.dumps(match[0])[1:-1]
