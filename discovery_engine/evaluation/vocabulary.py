"""The vocabulary of a text in search: one stem for each significant word."""

from __future__ import annotations

from discovery_engine.search.text.lexicon import default_lexicon
from discovery_engine.search.text.tokenizer import words


def says_nothing(word: str) -> bool:
    """Return whether any text may have a word, whatever it is about: `the`, `please`."""
    return default_lexicon().is_stop_word(word)


def stems(text: str) -> list[str]:
    pairs = zip(words(text), name_stems(text), strict=True)
    return [stem for word, stem in pairs if not says_nothing(word)]


def name_stems(name: str) -> list[str]:
    """The same of a name, in which every word counts."""
    return default_lexicon().stems(name)
