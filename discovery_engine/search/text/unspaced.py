"""Words within text that puts no spaces between them: Chinese, Japanese and Korean.

    删除文件                 删除, 文件
    ファイルを消して           ファイル, を, 消し, て
    파일을 삭제해줘            파일, 을; 삭제, 해줘

A run is cut so that the dictionary knows as much of it as possible, in as few pieces as possible.
What it does not know is cut into pairs of characters.
"""

from __future__ import annotations

from enum import Enum, auto
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from discovery_engine.search.text.tokenizer import bigrams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from discovery_engine.search.text.dictionaries import Dictionary, Translation

_LONGEST = 9  # characters of the longest entry
_UNKNOWN_COST = 4  # of a character that no entry covers
_SHORT_COST = 2  # of an entry of one character; it is likelier to be a part of another word
_COST = 1  # of any other


class Token(NamedTuple):
    text: str
    english: Translation

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


class _Piece(NamedTuple):
    start: int
    end: int
    kind: _Kind


class _Path(NamedTuple):
    """The cheapest way to cut a run up to a piece."""

    cost: int
    piece: _Piece
    before: _Path | None


def split(run: str, dictionary: Dictionary, code: str) -> Iterator[Token]:
    """The words of a run, in order; what the dictionary does not know as pairs of characters."""
    rest = ""
    for piece in _pieces(run, dictionary, _RULES.get(code, _may_follow)):
        text = run[piece.start : piece.end]
        if piece.kind in _UNKNOWN:
            rest += text
            continue
        yield from _unknown(rest)
        rest = ""
        yield Token(text, () if piece.kind is _Kind.STOP else dictionary.translations[text])
    yield from _unknown(rest)


def is_kana(character: str) -> bool:
    return "\u3040" <= character <= "\u30ff"


def is_hangul(character: str) -> bool:
    return "\uac00" <= character <= "\ud7af"


def _unknown(rest: str) -> list[Token]:
    return [Token(pair, (pair,)) for pair in bigrams(rest)] if rest else []


def _pieces(run: str, dictionary: Dictionary, may_follow: Callable[..., bool]) -> list[_Piece]:
    start = _Path(0, _Piece(0, 0, _Kind.START), None)
    paths: list[dict[_Kind, _Path]] = [{_Kind.START: start}, *({} for _ in run)]
    for position in range(len(run)):
        known = list(_known(run, position, dictionary))
        for kind, path in paths[position].items():
            more = _Kind.UNKNOWN if kind in _UNKNOWN else _Kind.FIRST
            unknown = _Piece(position, position + 1, more), _UNKNOWN_COST
            for piece, cost in (*known, unknown):
                there = paths[piece.end].get(piece.kind)
                whole = path.cost + cost
                if (there is None or whole < there.cost) and may_follow(run, kind, piece):
                    paths[piece.end][piece.kind] = _Path(whole, piece, path)
    last = min(paths[-1].values(), key=attrgetter("cost"))
    found = []
    while last.before:
        found.append(last.piece)
        last = last.before
    return found[::-1]


def _known(run: str, start: int, dictionary: Dictionary) -> Iterator[tuple[_Piece, int]]:
    """The entries that begin at a position, the longest first, with the cost of each."""
    for end in range(min(start + _LONGEST, len(run)), start, -1):
        text = run[start:end]
        cost = _COST if end - start > 1 else _SHORT_COST
        if text in dictionary.stop_words:
            yield _Piece(start, end, _Kind.STOP), cost
        elif text in dictionary.translations:
            kind = _Kind.ENTRY if end - start > 1 else _Kind.SINGLE
            yield _Piece(start, end, kind), cost


def _may_follow(_run: str, _before: _Kind, _piece: _Piece) -> bool:
    return True


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
