from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.rules.patterns import Names, Spellings

INVISIBLE = st.sampled_from(
    "\u200b\u200d\u2060\ufeff\u00ad\u034f\u115f\u3164\uffa0\ufe0f\u2800\x00\x7f\n\U000e0041\ud800"
)
ascii_names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)


@given(ascii_names, INVISIBLE, st.integers(0, 12))
def test_invisible_character_anywhere_changes_nothing(name: str, blank: str, at: int) -> None:
    disguised = name[:at] + blank + name[at:]

    assert name in Spellings.of(disguised).minding_case


@given(st.lists(st.text(max_size=6)))
def test_every_name_is_a_line_or_odd(texts: list[str]) -> None:
    names = Names(texts)

    odd = [position for position, _ in names.odd]
    assert sorted(names.positions + odd) == list(range(len(texts)))
    assert [texts[position] for position in names.positions] == names.lines


@given(st.lists(st.sampled_from(["ab", "Abab", "b", "ba", ""])), st.sampled_from(["ab", "b", "aa"]))
def test_lines_with_a_needle_are_those_that_have_it(texts: list[str], text: str) -> None:
    names = Names(texts)

    def found(needle: str) -> list[int]:
        return list(names.lines_with(needle))

    lowered = [text.lower() for text in texts]
    assert found(text) == [at for at, line in enumerate(lowered) if text in line]
    assert found(f"\n{text}") == [at for at, line in enumerate(lowered) if line.startswith(text)]
    assert found(f"{text}\n") == [at for at, line in enumerate(lowered) if line.endswith(text)]
    assert found(f"\n{text}\n") == [at for at, line in enumerate(lowered) if line == text]
