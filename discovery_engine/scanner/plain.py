"""Text as a reader takes it, whatever letters it is written in.

The *plain* reading has compatibility forms replaced, hidden characters taken out and letters of
other alphabets in Latin words replaced by those they imitate. The *loose* one also undoes digits
for letters, and signs or spaces between them.
"""

from __future__ import annotations

import re
import unicodedata

from discovery_engine._util.text import clean, unseen

# ruff: noqa: RUF001 - the letters that pass for Latin ones are the point
_PAIRS = (
    "аa вb еe ёe зe гr іi ӏl кk мm нh оo рp сc тt уy хx ѕs јj һh ԁd ԛq ԝw ьb "
    "αa βb γy εe ηn ιi κk νv οo ρp τt υu χx ωw ϲc ϳj ɑa ɡg ɩi ıi"
)
_LOOKALIKES = str.maketrans({pair[0]: pair[1] for pair in _PAIRS.split()})
_LEET = str.maketrans("0134578@$!|", "oieastbasil")
_WORD = re.compile(r"[^\W\d_]{2,}|[^\W_]{2,}")
_LATIN = re.compile(r"[a-zA-Z]")
_FOREIGN = re.compile("[\u0370-\u03ff\u0400-\u052f]")
_LEET_SIGN = re.compile(r"[0-8@$!|]")
_LEETWORD = re.compile(r"[a-z]*[0-8@$!|][a-z]+[0-8@$!|a-z]*|[a-z]+[0-8@$!|]+[a-z]+")
_SPACED = re.compile(r"\b(?:\w ){4,}\w\b(?: {2,}(?:\w ){2,}\w\b)*")
_SEPARATED = re.compile(r"(?<=[a-z])[-_.*~]+(?=[a-z])")
_BLANKS = re.compile(r"[^\S\n]+")


def plain(text: str) -> str:
    """The plain reading, in lower case; lines and sentences stay where they are."""
    if not text.isascii() or not text.isprintable():
        text = clean(_without_unseen(unicodedata.normalize("NFKC", _without_unseen(text))))
        text = latinised(text)
    return _BLANKS.sub(" ", text.lower().replace("\u2019", "'"))


def loose(text: str) -> str:
    """The loose reading of a text; equal to the plain one if there is nothing to undo."""
    spaced = _SPACED.sub(_closed, clean(text)).lower()
    read = plain(spaced)
    if _LEET_SIGN.search(read):
        read = _LEETWORD.sub(lambda found: found[0].translate(_LEET), read)
    return _SEPARATED.sub(" ", read)


def latinised(text: str) -> str:
    """`text` with letters of other alphabets replaced in words that also have Latin ones."""
    if text.isascii() or not _FOREIGN.search(text):
        return text
    return _WORD.sub(_latin_word, text)


def letters_only(name: str) -> str:
    """A name as it looks: in ASCII where each letter passes for an ASCII one."""
    shown = unicodedata.normalize("NFKC", _without_unseen(name))
    return shown.casefold().translate(_LOOKALIKES)


def mixes_alphabets(word: str) -> bool:
    """Whether Latin letters stand beside letters of another alphabet that pass for them."""
    return any(
        _LATIN.search(part) and _FOREIGN.search(part) and letters_only(part).isascii()
        for part in _WORD.findall(unicodedata.normalize("NFKC", word))
    )


def _latin_word(found: re.Match[str]) -> str:
    word = found[0]
    if not (_LATIN.search(word) and _FOREIGN.search(word)):
        return word
    return word.lower().translate(_LOOKALIKES)


def _closed(found: re.Match[str]) -> str:
    return re.sub(r" {2,}", "\x00", found[0]).replace(" ", "").replace("\x00", " ")


def _without_unseen(text: str) -> str:
    pieces = []
    at = 0
    for run in unseen(text):
        pieces.append(text[at : run.start()])
        at = run.end()
    return "".join([*pieces, text[at:]])
