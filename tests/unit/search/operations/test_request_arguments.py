"""The arguments of a request are found, and have a kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.search.operations.operation import ArgumentKind, find_arguments
from discovery_engine.search.operations.request_reading import without
from tests.rows import rows


@rows(
    ("request_text", "kind", "argument"),
    [
        ("open https://example.org/a?b=c now", ArgumentKind.URL, "https://example.org/a?b=c"),
        ("mail ana.b@example.org", ArgumentKind.EMAIL, "ana.b@example.org"),
        ('comment "see you at 5"', ArgumentKind.QUOTE, '"see you at 5"'),
        ("Ordner „Rechnungen 2026“ anlegen", ArgumentKind.QUOTE, "„Rechnungen 2026“"),
        ("「請求書」を完了", ArgumentKind.QUOTE, "「請求書」"),
        ("since 2024-05-01", ArgumentKind.DATE, "2024-05-01"),
        ("at 10:30 pm", ArgumentKind.DATE, "10:30 pm"),
        ("before 1 Dec", ArgumentKind.DATE, "1 Dec"),
        ("weather at 48.85, 2.35", ArgumentKind.COORDINATES, "48.85, 2.35"),
        ("ping @ana-b", ArgumentKind.PERSON, "@ana-b"),
        ("post to #general", ArgumentKind.CHANNEL, "#general"),
        ("tail /var/log/nginx/error.log", ArgumentKind.PATH, "/var/log/nginx/error.log"),
        ("freeze a row of roster.xlsx", ArgumentKind.PATH, "roster.xlsx"),
        ("close PROJ-17", ArgumentKind.IDENTIFIER, "PROJ-17"),
        ("fix #482", ArgumentKind.IDENTIFIER, "#482"),
        ("show commit 4f1e77c", ArgumentKind.IDENTIFIER, "4f1e77c"),
        ("refund pi_3NxQ2eLkd", ArgumentKind.IDENTIFIER, "pi_3NxQ2eLkd"),
        ("branches of acme/shop", ArgumentKind.REPOSITORY, "acme/shop"),
        ("scale to 6", ArgumentKind.NUMBER, "6"),
    ],
)
def test_an_argument_is_found_with_its_kind(
    request_text: str, kind: ArgumentKind, argument: str
) -> None:
    (found,) = find_arguments(request_text)

    assert (found.kind, found.text(request_text)) == (kind, argument)


@rows(
    "text", ["list my issues", "read and/or write access", "don't close the user's ticket", "CI/CD"]
)
def test_plain_words_are_no_arguments(text: str) -> None:
    assert not find_arguments(text)


@given(st.text(alphabet="aA1 ./-_:@#\"'`,é「」", max_size=60))
def test_arguments_are_in_order_and_do_not_overlap(text: str) -> None:
    found = find_arguments(text)

    ends = [0, *(end for one in found for end in (one.start, one.end))]
    assert ends == sorted(ends)
    assert all(one.start < one.end for one in found)
    assert len(without(text, found)) <= len(text) + len(found)
