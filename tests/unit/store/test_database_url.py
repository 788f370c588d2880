from __future__ import annotations

from urllib.parse import quote

import pytest

from discovery_engine.store.postgres.database_url import DatabaseAddress
from tests.rows import rows

REFUSED = 'connection to server at "db" (10.0.0.1), port 5432 failed: no password supplied'


def address(password: str) -> DatabaseAddress:
    return DatabaseAddress.parse(f"postgresql://gateway:{quote(password, safe='')}@db/tools")


@pytest.mark.requirement("PGS-7")
@rows("password", ["p", "5", "er", "10", "por", ":", "word"])
def test_a_password_that_is_a_part_of_words_leaves_them_readable(password: str) -> None:
    redacted = address(password).redact(REFUSED)

    assert [word for word in ("port", "server", "5432", "failed") if word not in redacted] == []


@pytest.mark.requirement("PGS-7")
@rows("password", ["p", "5", "@", "%", "ü", "a b", "p@s", "long enough/to be one", "sëcret&more"])
@rows(
    "text",
    [
        "cannot use postgresql://gateway:{url}@db/tools?x=1",
        "cannot use postgresql://gateway@db/tools?password={url}&x=1",
        "cannot use postgresql://gateway@db/tools?password={lower}",
        "cannot parse 'host=db password={raw} user=gateway'",
        'the role was given "{raw}"',
    ],
)
def test_no_address_and_no_quoted_text_has_a_password_of_any_length(
    password: str, text: str
) -> None:
    url = quote(password, safe="")
    written = {"url": url, "lower": url.lower(), "raw": password}

    redacted = address(password).redact(text.format(**written))

    assert redacted == text.format(**dict.fromkeys(written, "••••"))
