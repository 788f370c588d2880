"""The known names nearest to one that is not known.

Two names are near if few letters part them, or if each word of the one that was written begins a
word of the other, or goes on from it: `issues` is near `create_issue`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from discovery_engine._util.lazy_pattern import lazy_pattern

_OFFERED = 3
_ALIKE = 0.6  # of 1; below this a suggestion puzzles more than it helps
_MIN_PREFIX_LENGTH = 3  # letters; what is shorter begins too many words
_BREAKS = lazy_pattern(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])")


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """At most three names of `names` like `word`, the likest first; case does not count."""
    parts = _words(word)
    likeness: dict[str, float] = {}
    for name in names:
        words = _words(name)
        alike = _likeness("".join(parts), "".join(words))
        has_words = bool(parts) and all(_is_among(part, words) for part in parts)
        likeness[name] = _ALIKE + (1 - _ALIKE) * alike if has_words else alike
    near = [name for name, alike in likeness.items() if parts and alike >= _ALIKE]
    return sorted(near, key=lambda name: (-likeness[name], name))[:_OFFERED]


def closest(word: str, names: Iterable[str], *, least: float | None = None) -> str | None:
    """The nearest name, or None; with `least`, one whose letters are that much the same, of 1."""
    if least is None:
        return next(iter(nearest(word, names)), None)
    letters = "".join(_words(word))
    rated = [(_likeness(letters, "".join(_words(name))), name) for name in names]
    return next((name for likeness, name in sorted(rated, reverse=True) if likeness >= least), None)


def did_you_mean(word: str, names: Iterable[str], *, otherwise: str = "") -> str:
    """A hint that names the closest; `otherwise` if none is near."""
    near = closest(word, names)
    return f"did you mean {near!r}?" if near else otherwise


def _likeness(left: str, right: str) -> float:
    """Return 1 for equal texts, and 0 if every letter would have to be changed."""
    # Only a mistake needs this library, and every start of the command line would pay for it.
    from jellyfish import damerau_levenshtein_distance  # noqa: PLC0415

    return 1 - damerau_levenshtein_distance(left, right) / (max(len(left), len(right)) or 1)


def _words(name: str) -> list[str]:
    return [word.casefold() for word in _BREAKS.split(name) if word]


def _is_among(spelling: str, words: Sequence[str]) -> bool:
    return any(
        min(len(spelling), len(word)) >= _MIN_PREFIX_LENGTH
        and (word.startswith(spelling) or spelling.startswith(word))
        for word in words
    )
