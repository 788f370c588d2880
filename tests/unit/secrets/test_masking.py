from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.config.entry_secrets import redact_transport
from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.secrets.masking import (
    redact_args,
    redact_url,
    selecting_references,
    without_credentials,
)
from tests.rows import rows


@rows(
    ("url", "shown"),
    [
        ("https://example.com:8080/mcp", "https://example.com:8080/mcp"),
        ("http://[::1]:80/", "http://[::1]:80/"),
        ("https://ann:hunter2@example.com/", "https://••••@example.com/"),
        ("https://${USER}:${PASS}@example.com/", "https://${USER}••••${PASS}@example.com/"),
        ("https://${HOST}/a?key=${KEY}&b=c", "https://${HOST}/a?key=${KEY}&b=••••"),
        ("https://example.com?hunter2", "https://example.com?••••"),
        ("https://example.com/#hunter2", "https://example.com/#••••"),
        ("https://example.com/s/abcdefgh1234567890abcdefgh/mcp", "https://example.com/s/••••/mcp"),
        ("https://example.com/s/sk-abcdefgh12345/mcp", "https://example.com/s/••••/mcp"),
        ("https://ann:hunter2/mcp", "https://••••/mcp"),
        ("https://hunter2@example.com/", "https://••••@example.com/"),
        ("postgresql://ann:hunter2@db.example.com/x", "postgresql://••••@db.example.com/x"),
        ("postgresql://ann@db.example.com/x", "postgresql://ann@db.example.com/x"),
        ("${BASE:-https://example.com}/mcp?k=v", "${BASE:-••••}••••"),
        ("example.com", "••••"),
        ("https://${", "••••"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert redact_url(url) == shown


@pytest.mark.requirement("CFG-23")
@rows(
    ("args", "shown"),
    [
        (("-y", "@scope/server", "--port", "8080"), ("-y", "@scope/server", "--port", "8080")),
        (("--token", "hunter2", "/srv"), ("--token", "••••", "/srv")),
        (("--github-access-token", "${TOKEN}"), ("--github-access-token", "${TOKEN}")),
        (("-H", "X-Key: hunter2"), ("-H", "••••")),
        (("X-Key: hunter2",), ("••••",)),
        (("--api-key=hunter2",), ("--api-key=••••",)),
        (("--author", "ann"), ("--author", "ann")),
        (("-e", "TOKEN=hunter2", "-e", "TOKEN"), ("-e", "TOKEN=••••", "-e", "TOKEN")),
        (("--url=postgres://ann:hunter2@db/x",), ("--url=postgres://••••@db/x",)),
        (("--config", '{"key": "hunter2"}'), ("--config", "••••")),
        (("ghp_abcdefgh12345",), ("••••",)),
        (("C:\\Tools\\x", "a=b"), ("C:\\Tools\\x", "a=b")),
        (("550e8400-e29b-41d4-a716-446655440000",), ("••••",)),
    ],
)
def test_arguments_are_shown_without_their_secrets(
    args: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    assert redact_args(args) == shown


SECRETS = st.from_regex(r"S3C[a-zA-Z0-9]{6,30}", fullmatch=True)
AROUND = st.sampled_from(["", "Bearer ", "${A}", "${B:-x}", "$${C}"])


@pytest.mark.requirement("CFG-23")
@given(secret=SECRETS, before=AROUND, after=AROUND)
def test_a_planted_secret_is_never_shown(secret: str, before: str, after: str) -> None:
    planted = f"{before}{secret}{after}"
    started = StdioTransport(
        "npx", ("--token", planted, f"--secret={planted}", f"KEY={planted}"), {"A": planted}
    )
    reached = RemoteTransport(
        f"https://{secret}:{secret}@example.com/?a={secret}&{secret}#{secret}", {"B": planted}
    )
    with_default = RemoteTransport("https://example.com", {"B": f"${{A:-{secret}}}"})

    for transport in (started, reached, with_default):
        assert secret not in repr(redact_transport(transport))


@rows(
    ("args", "names"),
    [
        (["${A}", "x${B}y${C}"], [["A"], ["B", "C"]]),
        (["--token", "${A}", "${B}"], [[], [], ["B"]]),
        (["--token=${A}", "--root=${B}", "KEY=${C}"], [[], ["B"], []]),
        (["http://${U}:${P}@${H}:${N}/${PATH}?q=${Q}#${F}"], [["H", "N", "PATH"]]),
        (["--url=http://${H}/?q=${Q}"], [["H"]]),
        (["${SCHEME}://x/?q=${Q}"], [["SCHEME", "Q"]]),
        (["${GITHUB_TOKEN}", "${DB_PASSWORD}", "${TOKENIZER}"], [[], [], ["TOKENIZER"]]),
        (["sh -c '${A} http://x?${B}'", '{"run": "${C}"}'], [["A", "B"], ["C"]]),
        (["${oops", "$${A}", "${file:x}"], [[], [], ["x"]]),
    ],
)
def test_a_reference_selects_what_runs_unless_a_secret_is_passed_there(
    args: list[str], names: list[list[str]]
) -> None:
    assert [[one.name for one in found] for found in selecting_references(args)] == names


def test_an_address_without_credentials_still_says_whom_it_reaches() -> None:
    assert without_credentials("postgres://u:p@h:1/db?sslmode=x#f") == "postgres://h:1/db"
    assert without_credentials("/home/me/srv.py?x") == "/home/me/srv.py?x"
