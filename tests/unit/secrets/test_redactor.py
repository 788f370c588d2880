"""Known secrets are taken out of text, in whatever form a program prints them."""

from __future__ import annotations

import base64
import html
import json
import re
import string
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from discovery_engine.secrets.redactor import Redactor
from discovery_engine.secrets.references import REDACTED
from tests.rows import rows

pytestmark = pytest.mark.requirement("HEA-15")

TOKENS = st.builds(
    str.__add__,
    st.sampled_from(["ntn_", "ghp_4", "sk-ant-", "9f", "x7"]),
    st.text(string.ascii_letters + string.digits, min_size=20, max_size=60),
)
SECRET = "p@ss!w0rd*(X)'9+/Q=&<ü>"
SECRETS = st.text(st.characters(exclude_characters="•"), min_size=4, max_size=40)


@given(SECRETS, SECRETS)
def test_no_secret_is_left_whole(one: str, other: str) -> None:
    redacted = Redactor([one, other]).redact(f"<{one}>{other}{one}\n{one[:3]}{other}")

    assert one not in redacted
    assert other not in redacted


@given(TOKENS, st.data())
def test_no_beginning_end_or_long_part_of_a_token_is_left(token: str, data: st.DataObject) -> None:
    length = data.draw(st.integers(9, len(token)))
    start = data.draw(
        st.sampled_from([0, len(token) - length, data.draw(st.integers(0, len(token) - length))])
    )
    part = token[start : start + length]
    is_at_an_end = start in (0, len(token) - length)
    # Two short words may be the beginning of any text: `github_pat`.
    assume(not re.fullmatch(r"[a-z]{1,8}[-_ ][a-z]{1,8}[-_ ]?", part))

    redacted = Redactor([token]).redact(f"token: {part}...")

    assert part not in redacted or (not is_at_an_end and length < 15)


def test_less_than_four_characters_are_no_secret() -> None:
    redactor = Redactor(["new", "", "a"])

    assert len(redactor) == 0
    assert redactor.redact("a new one") == "a new one"


@given(SECRETS)
def test_no_usual_form_of_a_secret_is_left(secret: str) -> None:
    data = secret.encode(errors="replace")
    written = [
        *(
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            repr(secret)[1:-1],
        ),
        *(html.escape(secret), html.escape(secret, quote=False)),
    ]
    if data.decode(errors="replace") == secret:
        written += [quote(secret, safe=""), quote(secret), quote_plus(secret)]
    if len(data) >= 9:
        in_base64 = base64.b64encode(data).decode()  # before `=`, a character is not all its own
        written.append(in_base64.rstrip("=")[:-1] if "=" in in_base64 else in_base64)

    redactor = Redactor([secret])

    assert [form for form in written if form in redactor.redact(f"({form})")] == []


@rows(
    "written",
    [
        pytest.param(r"p%40ss!w0rd*(X)'9%2B%2FQ%3D%26%3C%C3%BC%3E", id="encodeURIComponent"),
        pytest.param(r"p@ss!w0rd*(X)'9+/Q=&%3C%C3%BC%3E", id="encodeURI"),
        pytest.param(r"p%40ss%21w0rd%2a%28X%29%279%2b%2fQ%3d%26%3c%c3%bc%3e", id="lower"),
        pytest.param(r"p@ss!w0rd*(X)'9+/Q=\u0026\u003cü\u003e", id="JSON of Go"),
        pytest.param(r"p@ss!w0rd*(X)\u00279\u002B/Q=\u0026\u003C\u00FC\u003E", id="JSON of .NET"),
        pytest.param(r"p@ss!w0rd*(X)'9+\/Q=&<\u00fc>", id="JSON of PHP"),
        pytest.param(r"p@ss!w0rd*(X)'9+/Q=&<\\u00fc>", id="JSON in JSON"),
        pytest.param(r"p@ss!w0rd*(X)'9+/Q=&<\xc3\xbc>", id="bytes of Python"),
        pytest.param(SECRET.encode().hex().upper(), id="hexadecimal digits"),
    ],
)
def test_a_secret_is_found_as_other_languages_write_it(written: str) -> None:
    assert Redactor([SECRET]).redact(f"<{written}>") == f"<{REDACTED}>"


@given(st.binary(max_size=5), st.binary(max_size=5))
def test_a_secret_is_found_within_base64(before: bytes, after: bytes) -> None:
    text = base64.b64encode(before + b"wonder-land-99" + after).decode()

    redacted = Redactor(["wonder-land-99"]).redact(text)

    # of 14 bytes, at most the first and the last share a character with what is around them
    assert len(redacted.replace(REDACTED, "")) <= len(text) - 16


@pytest.mark.requirement("HEA-9")
@rows(
    ("secret", "text"),
    [
        ("production-db-password-9", "production server is down"),
        ("postgres:geheim-9", "postgres is down"),
        ("Bearer-of-bad-news-7", "401, Bearer realm"),
        ("github_pat_11AA22bb", "a token begins with github_pat_"),
        ("my-configuration-token-1", "the configuration file"),
        ("k3y-1", "k3y"),
        ("--------------9", "-----------"),
    ],
)
def test_words_that_a_secret_is_made_of_stay_readable(secret: str, text: str) -> None:
    assert Redactor([secret]).redact(text) == text


@rows(
    ("text", "redacted"),
    [
        ("got ntn_4f9Qz8sT1aaBB!", "got ••••!"),
        ("got ntn_4f9Qz… (24 more)", "got ••••… (24 more)"),
        ("got ntn_4f9Qz8sT1aaBBntn_4f9Qz8sT1aaBB", "got ••••"),
        ("got ...8sT1aaBB", "got ...••••"),
        ("a pin, p1n7", "a pin, ••••"),
    ],
)
def test_what_is_left_out_is_marked(text: str, redacted: str) -> None:
    assert Redactor(["ntn_4f9Qz8sT1aaBB", "p1n7"]).redact(text) == redacted


def test_the_last_of_many_with_the_same_beginning_is_found() -> None:
    secrets = [f"github_pat_{number:04}x" for number in range(3000)]

    redactor = Redactor(secrets)

    assert all(redactor.redact(secret) == REDACTED for secret in secrets)


@rows("text", ["a" * 50_000, "aaaaaaaac" * 5000, "ab" * 25_000])
def test_a_text_of_nothing_but_beginnings_is_redacted(text: str) -> None:
    assert Redactor(["a" * 4000, "ab" * 2000]).redact(text).count(REDACTED) >= 1


@given(
    st.lists(SECRETS | TOKENS, min_size=1, max_size=4),
    st.lists(st.text(max_size=12) | st.sampled_from(["x", " ", "é", "?", "\n", "•"]), max_size=8),
    st.data(),
)
def test_every_piece_that_is_looked_for_is_found_wherever_it_stands(
    secrets: list[str], others: list[str], data: st.DataObject
) -> None:
    redactor = Redactor(secrets)
    pieces = [piece for one in secrets for piece in (one, one[:8], one[-8:], one[8:16])]
    text = "".join(data.draw(st.permutations([*pieces, *others])))

    found = list(redactor._long_hits(text))

    assert found == [i for i in range(len(text)) if text[i : i + 8] in redactor._places]
    assert redactor.may_redact(text) or redactor.redact(text) == text
