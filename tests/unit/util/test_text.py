from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine._util.text import (
    block,
    clean,
    escaped,
    named,
    one_line,
    quoted,
    unseen,
    visible,
)
from tests.rows import rows

# Default-ignorable, format and control characters, odd blanks: as of Unicode 14.
RANGES = (
    (0x0000, 0x0008), (0x000B, 0x000C), (0x000E, 0x001F), (0x007F, 0x00A0), (0x00AD, 0x00AD),
    (0x034F, 0x034F), (0x0600, 0x0605), (0x061C, 0x061C), (0x06DD, 0x06DD), (0x070F, 0x070F),
    (0x0890, 0x0891), (0x08E2, 0x08E2), (0x115F, 0x1160), (0x1680, 0x1680), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x2000, 0x200F), (0x2028, 0x202F), (0x205F, 0x2064), (0x2066, 0x206F),
    (0x2800, 0x2800), (0x3000, 0x3000), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD),
    (0x13430, 0x13438), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0001, 0xE0001),
    (0xE0020, 0xE007F), (0xE0100, 0xE01EF),
)  # fmt: skip
HIDDEN = [chr(point) for point in chain.from_iterable(range(a, b + 1) for a, b in RANGES)]

EMOJI = [
    pytest.param("\u2764\ufe0f", id="a heart in colour"),
    pytest.param("\u2764\ufe0e", id="a heart in black"),
    pytest.param("\U0001f469\u200d\U0001f4bb", id="a woman at a computer"),
    pytest.param("\U0001f3f3\ufe0f\u200d\U0001f308", id="a rainbow flag"),
    pytest.param("\U0001f468\U0001f3fd\u200d\U0001f680", id="an astronaut with a skin tone"),
    pytest.param("1\ufe0f\u20e3 and #\ufe0f\u20e3", id="keycaps"),
]
MIXED = st.lists(
    st.sampled_from(
        [*HIDDEN[:40], "\u200d", "\ufe0f", "\u20e3", "1", "\u2764", "\U0001f469", "[0m"]
    )
    | st.text(max_size=3)
).map("".join)


@rows(
    ("text", "cleaned"),
    [
        pytest.param("plain words", "plain words", id="plain"),
        pytest.param("a\nb", "a\nb", id="line ends stay"),
        pytest.param("a\r\nb\rc", "a\nb\nc", id="carriage returns are line ends"),
        pytest.param("a\tb", "a    b", id="tab"),
        pytest.param("\x1b[31mred\x1b[0m", "red", id="colour"),
        pytest.param("a\x1b]0;title\x07b", "ab", id="title"),
        pytest.param("a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "alink", id="link"),
        pytest.param("a\x1b]52;c;cm0gLXJm", "a52;c;cm0gLXJm", id="a command without an end"),
        pytest.param("a\x9b2Jb", "ab", id="eight-bit control sequence"),
        pytest.param("a\x9ebc", "abc", id="a lost letter swallows nothing"),
        pytest.param("a\x1bPdata\x1b\\b", "ab", id="device control"),
        pytest.param("a\x1b", "a", id="half a sequence"),
        pytest.param("a\x00b", "ab", id="NUL"),
        pytest.param("pay\u202egnp.exe", "paygnp.exe", id="direction"),
        pytest.param("ad\u200bmin\ufeff", "admin", id="zero width"),
        pytest.param("a\U000e0041\U000e0042", "a", id="tags"),
        pytest.param("a\ufe00\U000e0101b", "ab", id="variation selectors behind a letter"),
        pytest.param("a\u200d\u2764\ufe0f\ufe0f", "a\u2764\ufe0f", id="joiner without emoji"),
        pytest.param("a\u3164b\u00a0c\u2028d", "a b c d", id="blanks are spaces"),
        pytest.param("caf\u00e9 \u65e5\u672c", "caf\u00e9 \u65e5\u672c", id="letters of the world"),
        pytest.param("a\ud800b\uffffc\ue000", "a\ufffdb\ufffdc\ufffd", id="no characters"),
    ],
)
def test_invisible_characters_are_taken_out(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.requirement("TXT-1")
@rows("make", [clean, visible, escaped])
def test_no_hidden_character_stays(make: Callable[[str], str]) -> None:
    left = [c for c in HIDDEN if c in make(f"some{c}text")]

    assert left == []


@pytest.mark.requirement("TXT-1")
@rows("emoji", EMOJI)
def test_what_makes_an_emoji_stays(emoji: str) -> None:
    text = f"Fine {emoji} text"

    assert (clean(text), visible(text), escaped(text), list(unseen(text))) == (text, text, text, [])


@given(MIXED)
def test_cleaned_text_is_clean(text: str) -> None:
    once = clean(text)

    assert clean(once) == once
    assert visible(once) == once
    assert not set(once) & (set(HIDDEN) - {"\u200d", "\ufe0e", "\ufe0f"})


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Co", "Zl", "Zp"])))
def test_nothing_of_these_kinds_is_kept(text: str) -> None:
    kinds = {unicodedata.category(c) for c in clean(text) if c not in "\n\ufffd "}

    assert not kinds


BREAKING = MIXED | st.lists(st.sampled_from("ab \n\r\x0b\x0c\x1c\x85\u2028\u2029\"'")).map("".join)


@pytest.mark.requirement("TXT-4")
@given(BREAKING)
def test_an_untrusted_name_or_text_is_one_line(text: str) -> None:
    for shown in (one_line(text), named(text), quoted(text)):
        assert len(f"{shown}.".splitlines()) == 1
        assert clean(shown) == shown


@pytest.mark.requirement("TXT-4")
@given(BREAKING)
def test_words_in_quotes_cannot_close_them(text: str) -> None:
    assert quoted(text).strip('"').count('"') == 0
    assert quoted(text)[0] == quoted(text)[-1] == '"'


@pytest.mark.requirement("TXT-4")
@rows(
    ("name", "shown"),
    [
        *((name, name) for name in ("create_issue", "$filter", "user.name", "größe", "get-env")),
        ("items[]", "items[]"),
        ("", "''"),
        ("first name", "'first name'"),
        ("Note:", "'Note:'"),
        ("#", "'#'"),
        ("-", "'-'"),
        ("a,b", "'a,b'"),
        ("x\nNote: obey", r'"x\nNote: obey"'),
        *((" ok", '" ok"'), ("ok ", '"ok "'), ("a  b", '"a  b"'), ("a\u2028b", r'"a\u2028b"')),
        ("it's", '"it\'s"'),
        ("ad\u200bmin", r'"ad\u200bmin"'),
    ],
)
def test_a_name_that_is_not_one_word_is_quoted(name: str, shown: str) -> None:
    assert named(name) == shown


@pytest.mark.requirement("TXT-4")
@given(BREAKING)
def test_names_that_differ_in_what_cannot_be_seen_look_different(text: str) -> None:
    others = {one_line(text), text.strip(), f"{text} ", f" {text}", f"{text}\u200b"} - {text}

    assert named(text) not in {named(other) for other in others}


@pytest.mark.requirement("TXT-4")
@given(BREAKING)
def test_each_line_of_a_block_has_its_mark(text: str) -> None:
    assert all(line.startswith("  |") for line in "\n".join(block(text)).splitlines())


@given(st.text())
def test_escaped_json_means_the_same(text: str) -> None:
    document = json.dumps({"text": text}, ensure_ascii=False)

    assert json.loads(escaped(document)) == {"text": text}


@pytest.mark.thorough
@rows("unit", ["\x9d", "\x1b", "\x1b]", "\x1b[0", "\u200b", "\x90\r"])
def test_a_flood_of_introducers_is_cleaned_in_one_pass(unit: str) -> None:
    assert len(clean(unit * 200_000).strip("0\n")) == 0
