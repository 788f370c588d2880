"""What a definition is about: words that several of its sentences have, and its names.

A sentence that shares few words with the rest of its definition speaks of something else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from discovery_engine.scanner.normalization import plain
from discovery_engine.scanner.sentences import SENTENCE_END
from discovery_engine.scanner.word_families import families_of, stems_of
from discovery_engine.tools.offering import Definition

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD = re.compile(r"[^\W\d_]+")
_LEAST = 4  # words: of two words one is soon said twice
_OPENING = 400  # characters


class Topic(Struct, frozen=True):
    """What a tool is about."""

    families: int = 0
    """Of its name, its title and its opening sentence."""
    stems: frozenset[str] = frozenset()
    """Of its names and of the words that are said in several of its sentences."""

    def shared(self, stems: frozenset[str]) -> float:
        """The share of a sentence's words that belong to the topic."""
        return len(stems & self.stems) / max(_LEAST, len(stems))


def topic_of(tool: Definition, sentences: Iterable[str]) -> Topic:
    """The topic of a tool, with all sentences of its definition."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(stems_of(sentence))
    repeated = {stem for stem, count in counts.items() if count > 1}
    names = " ".join((tool.name, *(parameter.name for parameter in tool.parameters)))
    named = stems_of(_CAMEL.sub(" ", names).replace("_", " ").lower())
    return Topic(_families(tool), named.union(repeated))


def _families(tool: Definition) -> int:
    title = tool.definition.get("title")
    texts = (tool.description, title if isinstance(title, str) else "")
    openings = [SENTENCE_END.split(plain(text[:_OPENING]), maxsplit=1)[0] for text in texts]
    name = _CAMEL.sub(" ", tool.name).replace("_", " ").lower()
    families = 0
    for word in _WORD.findall(" ".join((name, *openings))):
        english, foreign = families_of(word)
        families |= english or foreign
    return families
