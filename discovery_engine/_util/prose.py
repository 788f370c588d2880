"""The first sentence of a Markdown text, without headings and marks."""

from __future__ import annotations

_RULES = frozenset("-=*_ ")  # a line of these alone is a rule
_MARKS = ("- ", "* ", "+ ", "> ")
_FENCES = ("```", "~~~")
_WIDE_ENDS = "\u3002\uff01\uff1f"  # of Chinese and Japanese, which put no blank behind them
_ENDS = ".!?" + _WIDE_ENDS
_SHORTEST = 12  # characters; a shorter sentence is an abbreviation, or incomplete


def first_sentence(text: str) -> str:
    """The first sentence of `text` that is prose; its first heading if all are headings.

    Empty if it holds no words at all.
    """
    heading, is_code = "", False
    paragraph: list[str] = []
    for line in text.splitlines():
        plain = line.strip()
        if plain.startswith(_FENCES):
            is_code = not is_code
            plain = ""
        if paragraph and _underlines(plain):
            heading, paragraph = heading or " ".join(paragraph), []
        elif is_code or not plain or _is_drawn(plain):
            if paragraph:
                break
        elif plain.startswith("#"):
            if paragraph:
                break
            heading = heading or plain.strip("# ")
        else:
            paragraph.append(_unmarked(plain))
    return _cut(" ".join(paragraph)) or heading


def _underlines(line: str) -> bool:
    """Whether it makes a heading of the line above."""
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
        if character not in _ENDS or index < _SHORTEST:
            continue
        following = paragraph[index + 1 : index + 3]
        if character in _WIDE_ENDS or not following.strip() or _begins_anew(following):
            return paragraph[: index + 1]
    return paragraph


def _begins_anew(following: str) -> bool:
    """Whether a blank and no small letter follow: `e.g. this` goes on."""
    return following[:1] == " " and not following[1:].islower()
