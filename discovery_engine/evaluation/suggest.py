"""Drafts of queries, made from the descriptions of the tools.

They are no evidence: a user does not know a tool's words. So the words of its name are
taken away, and the owner is asked to put each into the words of his own agents, and to add what
no tool can serve.
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
_MIN_TELLING_WORDS = 2  # significant words; fewer match everything and nothing
_DRAFTED = 200  # requests; more of them move no mean
_MAX_DRAFT_WORDS = 16  # words of a draft; an agent asks in fewer


class Draft(Struct, frozen=True):
    query: str
    tools: tuple[ToolKey, ...]
    """All with this description, as each of them would be right."""

    def to_json(self) -> JSONObject:
        return {"query": self.query, "tools": list(map(str, self.tools))}


class Suggestion(Struct, frozen=True):
    drafts: tuple[Draft, ...]
    silent: tuple[ToolKey, ...]
    """The tools with too little text for a draft."""


def suggest(view: View, *, per_tool: int = 1) -> Suggestion:
    """At most `per_tool` drafts for each visible tool, in the order of the catalog."""
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
    """At most 400 requests, each of another tool, evenly taken; names, if there is no text."""
    requests = [draft.query for draft in suggest(view).drafts]
    candidates = requests or [entry.tool.name for entry in view.catalog.visible]
    return candidates[:: max(1, len(candidates) // _DRAFTED)][:_DRAFTED]


def _drafts(entry: Entry) -> Iterator[str]:
    """The sentences of the description, then those of the parameters."""
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
    """The sentence without the words of the tool's name; empty if too little is left."""
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
    """Without the capital of a sentence; an acronym keeps its own."""
    first = text.split(" ", 1)[0]
    return text if first != first.capitalize() else text[:1].lower() + text[1:]


def _says_nothing(word: str) -> bool:
    """Return whether any text may have a word, whatever it is about: `the`, `please`."""
    return default_lexicon().is_stop_word(word)


def stems(text: str) -> list[str]:
    pairs = zip(words(text), name_stems(text), strict=True)
    return [stem for word, stem in pairs if not _says_nothing(word)]


def name_stems(name: str) -> list[str]:
    """The same of a name, in which every word counts."""
    return default_lexicon().stems(name)
