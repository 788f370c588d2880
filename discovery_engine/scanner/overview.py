"""The first look at a definition: whether all of its texts together can be harmless.

    is_harmless(["Create an issue.", "string", "The title."])     True

Most definitions are. Their texts are joined and each word is looked up once, for all that it may be
about whatever stands beside it. That is more than what `screening` finds, never less; so nothing is
cleared here that would not be cleared there, text by text, at several times the cost. A sentence
of which that is too much is read as `screening` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from operator import or_

from discovery_engine.scanner.disguises import is_undisguised
from discovery_engine.scanner.families import Family
from discovery_engine.scanner.normalization import plain
from discovery_engine.scanner.remembering import Remembering
from discovery_engine.scanner.screening import PATH, TOKEN, may_reach_alarm, piece_of
from discovery_engine.scanner.sentences import HAS_ADDRESS, LABEL, SENTENCE_END
from discovery_engine.scanner.signal_weights import ALARM
from discovery_engine.scanner.word_families import SECRET, SECRET_FILE, known, unspaced_families

F = Family
_FAMILIES = (1 << 64) - 1
_FOREIGN = 64  # bits: what a word is about in other languages stands above the English
_MAY_BE_LABEL = 1 << 128
_LABEL_SIGN = re.compile(r"[<\[#`]")
_CLEARED = 5000  # texts that are remembered: short ones are said again and again
_SHORT = 200  # characters

_cleared: set[str] = set()


def is_harmless(texts: Iterable[str]) -> bool:
    """Whether nothing can be found in any of the texts; if in doubt, not."""
    new = [text for text in texts if text not in _cleared]
    # A line ends a sentence, and no disguise goes on beyond it.
    joined = "\n".join(new)
    if not (is_undisguised(joined) and _is_cleared(joined.lower())):
        return False
    if len(_cleared) >= _CLEARED:
        _cleared.clear()
    _cleared.update(text for text in new if len(text) <= _SHORT)
    return True


def _is_cleared(text: str) -> bool:
    about = _about_any(text.split())
    if not about & _MAY_BE_LABEL and not may_reach_alarm(_in_any_language(about)):
        return True
    return all(map(_is_cleared_sentence, SENTENCE_END.split(text)))


def _is_cleared_sentence(text: str) -> bool:
    words = text.split()
    about = _about_any(words)
    label = F.LABEL if about & _MAY_BE_LABEL and LABEL.search(text) else 0
    if not may_reach_alarm(_in_any_language(about) | label):
        return True
    is_english = sum(map(_languages.__getitem__, words)) > 0
    if is_english and not may_reach_alarm(about & _FAMILIES | label):
        return True
    return piece_of(plain(text)).most < ALARM


def _about_any(words: Iterable[str]) -> int:
    return reduce(or_, map(_about.__getitem__, words), 0)


def _in_any_language(about: int) -> int:
    return (about | about >> _FOREIGN) & _FAMILIES


def _about_word(word: str) -> int:
    """What the tokens of a word may be about, with whatever stands before them."""
    english = _signs(word)
    foreign = unspaced_families(word)
    for token in TOKEN.findall(word):
        one = known(token)
        english |= reduce(or_, (one.pairs or {}).values(), one.english)
        foreign |= one.foreign
    return english | foreign << _FOREIGN | (_MAY_BE_LABEL if _LABEL_SIGN.search(word) else 0)


def _signs(word: str) -> int:
    families = SECRET if SECRET_FILE.search(word) else 0
    if word.isalpha():
        return families
    if HAS_ADDRESS.search(word):
        families |= F.ADDRESS
    if PATH.search(word):
        families |= F.PRIVATE
    return families | (F.NAME if "`" in word else 0)


_about = Remembering(_about_word)
_languages = Remembering(lambda word: sum(known(token).language for token in TOKEN.findall(word)))
