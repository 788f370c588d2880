"""What looks like a secret is hidden in what is logged, and ordinary text is not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.secrets.known_secrets import KnownSecrets
from discovery_engine.secrets.quick_search import literals, quick_search
from discovery_engine.store.call_log import contents
from discovery_engine.store.call_log.contents import GUESSING, KNOWN_ONLY
from tests.rows import rows

PIECES = st.sampled_from(
    [
        *(
            "token",
            "Secret",
            "passwd",
            "api_key",
            "apiKey",
            "private-key",
            "é",
            "\u017f",
            "\u212a",
            "\u0130",
        ),
        *("=", ":", " : ", '":"', '\\":\\"', "'", "\n", "\t", " ", ",", "&", "?", "://", "@", "/"),
        *("key=", "?sig=", "&code=", "Authorization", "cookie", "Bearer", "basic", "abcdefgh12"),
        *("sk-", "ghp_", "eyJ", "AKIA", "xoxb-", "ABCDEFGHIJ0123456789", "user:pw", "host", "."),
    ]
)


@rows(
    ("text", "expected"),
    [
        ("token=s3cr3tK9", "token=••••"),
        ('{"password": "hunter22"}', '{"password": "••••"}'),
        ('{\\"api_key\\":\\"abc12345\\"}', '{\\"api_key\\":\\"••••\\"}'),
        ("Authorization: Bearer abcdefgh1234", "Authorization: ••••"),
        ("curl -H 'X-Api-Key: 9382hdhshs' x", "curl -H 'X-Api-Key: ••••' x"),
        ("https://bob:pw@host/x?key=abcdefgh&page=2", "https://••••@host/x?key=••••&page=2"),
        ("use ghp_16C7e42F292c6912E7710c838347Ae178B4a", "use ••••"),
        ("eyJhbGciOi1234.eyJzdWIiOiIx1.SflKx", "••••"),
        ("AKIAIOSFODNN7EXAMPLE", "••••"),
        ("Cookie: a=b; c=d", "Cookie: ••••"),
        ("the token is needed", "the token is needed"),
        ("max_tokens: 512", "max_tokens: 512"),
        ("password: required", "password: required"),
        ("https://h/x?city=berlin", "https://h/x?city=berlin"),
        ("import sk_learn_model_one", "import sk_learn_model_one"),
        ("mail me at a@b.com, key point: none", "mail me at a@b.com, key point: none"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(
    text: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "KNOWN_SECRETS", KnownSecrets())  # those of no other test
    assert GUESSING.redact(text) == expected
    assert KNOWN_ONLY.redact(text) == text
    [encoded] = GUESSING.encoded([{"a": text}], ["a", text])
    assert encoded is not None
    assert json.loads(encoded) == {"a": expected}


@given(st.lists(PIECES, max_size=12).map("".join))
def test_the_quick_search_misses_nothing_that_is_hidden(text: str) -> None:
    may_match = quick_search(contents._ANY)

    patterns = (contents._NAMED_SECRET, contents._WITH_PREFIX, contents._LIKE_KEY)
    assert may_match(text) or not any(pattern.search(text) for pattern in patterns)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.text())
def test_words_are_searched_for_as_they_are(words: list[str], text: str) -> None:
    try:
        found = quick_search(literals(words))(text)
    except ValueError:  # half a surrogate pair in a word
        return
    if _is_valid(text):
        assert found == any(word in text for word in words)


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
