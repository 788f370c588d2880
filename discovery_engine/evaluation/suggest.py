"""Drafts evaluation queries from the descriptions of tools.

Drafts prove nothing about search quality, because users do not know the words of a description.
So the words of a tool's name are removed. The owner should reword each draft as an agent would ask,
and add queries that no tool can serve.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine._util.text import clean
from discovery_engine.catalog import Entry
from discovery_engine.search.text.lexicon import default_lexicon
from discovery_engine.search.text.tokenizer import words
from discovery_engine.tools.model import ToolKey
from discovery_engine.view.view import View

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[\u3002\uff01\uff1f\uff1b])")
_CHUNK = re.compile(r"\S+")
_ASIDE = re.compile(r"\([^)]*\)|\[[^\]]*\]|https?://\S+|`[^`]*`")
_EDGES = " \t.,;:!?-*#>\u3002\uff0c\uff1b\"'()[]{}"
_MIN_TELLING_WORDS = 2  # distinct words besides stop words; a shorter draft is too vague
_DRAFTED = 200  # requests; more do not change a mean noticeably
_MAX_DRAFT_WORDS = 16  # words of a draft; agents use fewer


class Draft(Struct, frozen=True):
    query: str
    tools: tuple[ToolKey, ...]
    """All tools with this text; each of them is a right answer."""

    def to_json(self) -> JSONObject:
        return {"query": self.query, "tools": list(map(str, self.tools))}


class Suggestion(Struct, frozen=True):
    drafts: tuple[Draft, ...]
    silent: tuple[ToolKey, ...]
    """The tools whose texts are too short for a draft."""


def suggest(view: View, *, per_tool: int = 1) -> Suggestion:
    """Draft at most `per_tool` queries for each visible tool, in catalog order."""
    drafts: dict[str, list[ToolKey]] = {}
    silent = []
    for entry in view.catalog.visible:
        texts = list(islice(_drafts(entry), per_tool))
        for text in texts:
            drafts.setdefault(text, []).append(entry.key)
        if not texts:
            silent.append(entry.key)
    queries = tuple(Draft(text, tuple(tools)) for text, tools in drafts.items())
    return Suggestion(queries, tuple(silent))


def drafted_requests(view: View) -> Sequence[str]:
    """Return at most 200 drafts of different tools, spread over the catalog.

    If no tool has enough text for a draft, names of tools are returned instead.
    """
    requests = [draft.query for draft in suggest(view).drafts]
    candidates = requests or [entry.tool.name for entry in view.catalog.visible]
    return candidates[:: max(1, len(candidates) // _DRAFTED)][:_DRAFTED]


def _drafts(entry: Entry) -> Iterator[str]:
    """Yield drafts from the description, then from the descriptions of the parameters."""
    own = set(name_stems(entry.tool.name))
    texts = [entry.tool.description, *(p.description for p in entry.tool.parameters)]
    seen = set()
    for text in map(clean, texts):
        for sentence in _SENTENCE.split(_ASIDE.sub(" ", text)):
            draft = _without(own, sentence)
            if draft and draft not in seen:
                seen.add(draft)
                yield draft


def _without(own: set[str], sentence: str) -> str:
    """Remove the words of the tool's name, whose stems are `own`; empty if too little is left."""
    chunks = [chunk for chunk in _CHUNK.findall(sentence) if not _is_of(own, chunk)][
        :_MAX_DRAFT_WORDS
    ]
    spoken = [word for chunk in chunks for word in words(chunk) if not _says_nothing(word)]
    if len(set(spoken)) < _MIN_TELLING_WORDS:
        return ""
    while _is_empty(chunks[0]):
        chunks.pop(0)
    while _is_empty(chunks[-1]):
        chunks.pop()
    return _lowered(" ".join(chunks).strip(_EDGES))


def _is_of(own: set[str], chunk: str) -> bool:
    stems = name_stems(chunk)
    return bool(stems) and own.issuperset(stems)


def _is_empty(chunk: str) -> bool:
    return all(map(_says_nothing, words(chunk)))


def _lowered(text: str) -> str:
    """Lower-case the first letter of a sentence unless its first word is an acronym."""
    first = text.split(" ", 1)[0]
    return text if first != first.capitalize() else text[:1].lower() + text[1:]


def _says_nothing(word: str) -> bool:
    """Return whether a word is a stop word, such as `the` or `please`."""
    return default_lexicon().is_stop_word(word)


def stems(text: str) -> list[str]:
    pairs = zip(words(text), name_stems(text), strict=True)
    return [stem for word, stem in pairs if not _says_nothing(word)]


def name_stems(name: str) -> list[str]:
    """Return the stem of every word of a name, stop words included."""
    return default_lexicon().stems(name)
