"""A long request as passages: whole sentences, some 25 words at a time.

Confidence is estimated passage by passage. In a whole task description, the words that no tool
mentions add up, whatever fits; a passage is about as long as the requests that the confidence
model is fitted with. To score a text by its best passage is known as MaxP (Dai and Callan,
"Deeper Text Understanding for IR with Contextual Neural Language Modeling", 2019).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from discovery_engine.search.text.tokenizer import words

LONG = 60
"""Words; a request of no more is one passage."""
_PASSAGE = 25  # words; with 40, half as many again of the requests that are served are lost
_SENTENCE_END = re.compile(
    r"(?<=[.;?!\n])\s+|(?<=[\u3002\uff01\uff1f\uff1b])"
)  # also those of Chinese and Japanese


def split_passages(request: str) -> tuple[str, ...]:
    """The passages of a request of more than `LONG` words; otherwise the request alone."""
    if len(request) <= LONG or len(words(request)) <= LONG:
        return (request,)
    passages: list[str] = []
    passage: list[str] = []
    length = 0
    for sentence in _sentences(request):
        size = len(words(sentence))
        if passage and length + size > _PASSAGE:
            passages.append(" ".join(passage))
            passage, length = [], 0
        passage.append(sentence)
        length += size
    return (*passages, " ".join(passage))


def _sentences(request: str) -> Iterator[str]:
    """The sentences; one that is longer than a passage in runs of as many words as it has."""
    for sentence in _SENTENCE_END.split(request):
        spaced = sentence.split()
        for start in range(0, len(spaced), _PASSAGE):
            yield " ".join(spaced[start : start + _PASSAGE])
