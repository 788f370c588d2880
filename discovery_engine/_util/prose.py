"""The first sentence of a Markdown text, without headings and marks."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ABOUT_ITSELF = re.compile(
    r"^audience\b|\b(these|this|the following) (instructions?|document|guide|text)\b", re.IGNORECASE
)
_RULES = frozenset("-=*_ ")  # a line of these alone is a rule
_MARKS = ("- ", "* ", "+ ", "> ")
_FENCES = ("```", "~~~")
_WIDE_ENDS = "\u3002\uff01\uff1f"  # of Chinese and Japanese, which put no blank behind them
_ENDS = ".!?" + _WIDE_ENDS
_MIN_SENTENCE_LENGTH = 12  # characters; a shorter sentence is an abbreviation, or incomplete


def first_sentence(text: str) -> str:
    """The first sentence of `text` that is prose; its first heading if all are headings.

    A paragraph about the text itself is passed over, for the heading above it or what follows.
    Empty if it holds no words at all.
    """
    first = ""
    rest: Sequence[str] = text.splitlines()
    while rest:
        heading, paragraph, rest = _first_paragraph(rest)
        sentence = _cut(paragraph)
        first = first or sentence
        if heading or (sentence and not _ABOUT_ITSELF.search(sentence)):
            return heading if _ABOUT_ITSELF.search(sentence) else sentence or heading
    return first


def _first_paragraph(lines: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """The first heading, the first paragraph of prose on one line, and the lines behind it."""
    heading, is_code = "", False
    paragraph: list[str] = []
    for number, line in enumerate(lines):
        plain = line.strip()
        if plain.startswith(_FENCES):
            is_code = not is_code
            plain = ""
        if paragraph and _underlines(plain):
            heading, paragraph = heading or " ".join(paragraph), []
        elif is_code or not plain or _is_drawn(plain):
            if paragraph:
                return heading, " ".join(paragraph), lines[number:]
        elif plain.startswith("#"):
            if paragraph:
                return heading, " ".join(paragraph), lines[number:]
            heading = heading or plain.strip("# ")
        else:
            paragraph.append(_unmarked(plain))
    return heading, " ".join(paragraph), ()


def _underlines(line: str) -> bool:
    """Return whether a line makes a heading of the line above."""
    return len(line) > 1 and set(line) in ({"="}, {"-"})


def _is_drawn(line: str) -> bool:
    """A rule, a comment, an image or a table: nothing to read aloud."""
    return set(line) <= _RULES or line.startswith(("<!--", "![", "[![", "|"))


def _unmarked(line: str) -> str:
    """A line without the marks of a list, a quotation or emphasis."""
    while line.startswith(_MARKS):
        line = line[2:].lstrip()
    return line.replace("**", "").replace("__", "")


def _cut(paragraph: str) -> str:
    """Up to the first end of a sentence."""
    for index, character in enumerate(paragraph):
        if character not in _ENDS or index < _MIN_SENTENCE_LENGTH:
            continue
        following = paragraph[index + 1 : index + 3]
        if character in _WIDE_ENDS or not following.strip() or _begins_anew(following):
            return paragraph[: index + 1]
    return paragraph


def _begins_anew(following: str) -> bool:
    """Return whether a blank and then no small letter follow: `e.g. this` goes on."""
    return following[:1] == " " and not following[1:].islower()
