"""What is one slip of the keyboard away from a word."""

from __future__ import annotations

from string import ascii_lowercase


def slips_of(word: str) -> set[str]:
    """Every word with one letter of `word` too few, too many, wrong, or out of turn."""
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    missing = {left + right[1:] for left, right in cuts if right}
    swapped = {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    wrong = {left + c + right[1:] for left, right in cuts if right for c in ascii_lowercase}
    added = {left + c + right for left, right in cuts for c in ascii_lowercase}
    return (missing | swapped | wrong | added) - {word}
