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
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from discovery_engine.search.text.tokenizer import bigrams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from discovery_engine.search.text.dictionaries import Dictionary, Translation

_UNKNOWN_COST = 4  # of a character that no entry covers
_SHORT_COST = 2  # of an entry of one character; it is likelier to be a part of another word
_COST = 1  # of any other


class Token(NamedTuple):
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


class _Piece(NamedTuple):
    start: int
    end: int
    kind: _Kind


_Rule: TypeAlias = "Callable[[str, _Kind, _Piece], bool]"
"""A function that returns whether a piece of a run may follow one of some kind."""


class _Path(NamedTuple):
    """The cheapest way to cut a run up to a piece."""

    cost: int
    piece: _Piece
    before: _Path | None


def split(run: str, dictionary: Dictionary, code: str) -> Iterator[Token]:
    """The words of a run, in order; what the dictionary does not know as pairs of characters."""
    rest = ""
    for piece in _pieces(run, dictionary, _RULES.get(code)):
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
