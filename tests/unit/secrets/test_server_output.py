"""Secrets of a server's entry are redacted in its output and errors."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.errors import FailureKind, Origin, UnavailableError
from discovery_engine.secrets.references import REDACTED
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.server_output import OutputRedactor
from tests.rows import rows

SECRETS = EnvironmentResolver(
    {"TOKEN": "s3cr3t-t0ken", "PIN": "12", "LONG": "first line\nsecondline9"}
)
NO_SECRETS = EnvironmentResolver({})

pytestmark = pytest.mark.requirement("HEA-15")


def server(transport: StdioTransport | RemoteTransport | None, *, file: str = "") -> ServerSettings:
    return ServerSettings(ServerName("github"), transport, origin=Origin(file))


def stdio(*args: str, **env: str) -> ServerSettings:
    return server(StdioTransport("run", args, env))


@rows(
    ("settings", "text", "told"),
    [
        pytest.param(stdio(A="${TOKEN}"), "got s3cr3t-t0ken!", "got ••••!", id="a reference"),
        pytest.param(stdio(A="hunter22"), "A=hunter22", "A=••••", id="as it is written"),
        pytest.param(stdio("${TOKEN}"), "run s3cr3t-t0ken", "run ••••", id="in an argument"),
        pytest.param(stdio("--token", "abc123xyz"), "abc123xyz?", "••••?", id="after a flag"),
        pytest.param(stdio("KEY=abc123xyz"), "abc123xyz?", "••••?", id="an assignment"),
        pytest.param(stdio("/srv/data"), "no /srv/data", "no /srv/data", id="a plain argument"),
        pytest.param(stdio(A="${PIN}"), "12 tools", "12 tools", id="too short to be a secret"),
        pytest.param(stdio(A="k3y", B="k3y4"), "k3y k3y4", "k3y ••••", id="from four on"),
        pytest.param(stdio(A="debug"), "debug: on", "debug: on", id="a harmless word"),
        pytest.param(stdio(A="github"), "github is down", "github is down", id="its own name"),
        pytest.param(stdio(A="${LONG}"), "line 2: secondline9", "line 2: ••••", id="a line of it"),
        pytest.param(stdio(A="${UNSET}", B="${TOKEN}"), "s3cr3t-t0ken", "••••", id="beside one"),
        pytest.param(stdio(A="${", B="${TOKEN}"), "s3cr3t-t0ken", "••••", id="beside a mistake"),
        pytest.param(stdio(A="ab/c d", B="abc"), "x ab%2Fc%20d", "x ••••", id="in an address"),
        pytest.param(
            server(RemoteTransport("https://h/mcp", {"Authorization": "Bearer ${TOKEN}"})),
            "no user for s3cr3t-t0ken (Bearer s3cr3t-t0ken)",
            "no user for •••• (Bearer ••••)",
            id="a header",
        ),
        pytest.param(
            server(RemoteTransport("https://me:pass9@h/mcp?key=k3y-1")),
            "GET https://me:pass9@h/mcp?key=k3y-1: refused",
            "GET https://••••@h/mcp?key=••••: refused",
            id="in its address",
        ),
        pytest.param(
            stdio(OPENAPI_MCP_HEADERS='{"Authorization": "Bearer ntn_4f9Qz8sT1aaBB"}'),
            "401 for ntn_4f9Qz8sT1aaBB, Bearer ntn_4f9Qz8s...",
            "401 for ••••, Bearer ••••...",
            id="in JSON",
        ),
        pytest.param(
            stdio(DATABASE_URL="postgres://bob:pw12@db.example.com:5432/shop"),
            "cannot reach postgres://bob:pw12@db.example.com:5432/shop: pw12 is wrong",
            "cannot reach postgres://••••@db.example.com:5432/shop: •••• is wrong",
            id="in a connection string",
        ),
        pytest.param(
            stdio('{"apiKey": "sk-11aa22bb"}'),
            "key: sk-11aa22bb",
            "key: ••••",
            id="JSON to run with",
        ),
        pytest.param(
            stdio("${HOME}/x", HOME="/home/me"), "no /home/me", "no /home/me", id="a path"
        ),
        pytest.param(server(None), "any text", "any text", id="nothing is known of it"),
    ],
)
def test_values_are_hidden(settings: ServerSettings, text: str, told: str) -> None:
    assert OutputRedactor.for_server(settings, SECRETS).redact(text) == told


@given(st.text(min_size=4).map(str.strip).filter(lambda text: len(text) >= 4 and "$" not in text))
def test_no_value_is_ever_left(value: str) -> None:
    hidden = OutputRedactor.for_server(stdio(A=value, B="another-value"), NO_SECRETS)

    assume(value in hidden.values)  # a word like `localhost` is nobody's secret
    assume(value not in REDACTED)
    assert value not in hidden.redact(f"<{value}> {value}{value}")


def test_the_last_lines_of_stderr_are_clean_short_and_the_last() -> None:
    words = OutputRedactor(frozenset({"s3cr3t"})).redact_stderr(
        "".join(f"line {n}\n" for n in range(30)) + "\x1b[31ms3\u200bcr3t\x1b[0m\n" + "x" * 900
    )

    lines = words.splitlines()
    assert len(lines) == 20
    assert lines[-2] == "••••"
    assert lines[-1] == "x" * 500


@given(
    before=st.text("x k\x1b[m\u200b", max_size=1200),
    behind=st.text("x k", max_size=1200),
    count=st.integers(1, 3),
)
def test_no_part_of_a_value_is_left_where_a_long_line_is_cut(
    before: str, behind: str, count: int
) -> None:
    value = "s3cr3t-" + "".join(map(chr, range(ord("a"), ord("z")))) * 10
    words = OutputRedactor(frozenset({value, "k3y-1"})).redact_stderr(
        (before + value) * count + behind
    )

    assert "s3cr3t" not in words
    assert all(len(line) <= 500 for line in words.splitlines())


def test_a_value_is_hidden_that_takes_several_lines() -> None:
    value = "first of it\nsecond of it"
    words = OutputRedactor(frozenset({value})).redact_stderr(f"got {value}!\n" + "x" * 8000)

    assert words.splitlines()[0] == "got ••••!"


def test_an_error_is_censored_with_its_cause() -> None:
    cause = UnavailableError("github", FailureKind.OTHER, "k3y-1 failed", stderr="k3y-1?")
    error = UnavailableError("github", FailureKind.OTHER, "k3y-1", hint="try k3y-2")
    error.__cause__ = cause

    OutputRedactor(frozenset({"k3y-1", "k3y-2"})).redact_error(error)

    assert str(error) == "server 'github' is unavailable: ••••"
    assert (error.message, error.hint, error.reason) == (str(error), "try ••••", "••••")
    assert (str(cause), cause.stderr) == ("server 'github' is unavailable: •••• failed", "••••?")


def test_earlier_values_stay_hidden_until_there_are_too_many() -> None:
    now, earlier = (
        OutputRedactor(frozenset({"second-token"})),
        OutputRedactor(frozenset({"first-one"})),
    )
    many = OutputRedactor(frozenset(f"token-{number}" for number in range(1000)))

    assert now.including(earlier).redact("first-one second-token") == "•••• ••••"
    assert now.including(many) == now


@pytest.mark.requirement("HEA-15")
@rows(
    ("listed", "kept"),
    [
        ({"description": "call with s3cr3t-t0ken"}, {"description": "call with ••••"}),
        ([{"s3cr3t-t0ken": 1}, "s3cr3t-t0k..."], [{"s3cr3t-t0ken": 1}, "••••..."]),
        ({"a": "\ud800 s3cr3t-t0ken"}, {"a": "\ud800 ••••"}),
        ({"a": 2**80, "b": "s3cr3t-t0ken"}, {"a": 2**80, "b": "••••"}),
        ({"enum": ["auto", "hunter"]}, {"enum": ["auto", "hunter"]}),
    ],
)
def test_what_a_server_lists_is_kept_without_its_secrets(listed: object, kept: object) -> None:
    confidential = OutputRedactor.for_server(stdio(TOKEN="${TOKEN}", MODE="hunter"), SECRETS)

    assert confidential.redact_json(listed) == kept


@pytest.mark.requirement("HEA-15")
def test_a_folder_that_is_referred_to_is_shown_as_it_is_written() -> None:
    settings = server(StdioTransport("run", ("${HOME}/x",), cwd="${HOME}"))
    confidential = OutputRedactor.for_server(settings, EnvironmentResolver({"HOME": "/home/me"}))

    assert (
        confidential.redact("no '/home/me/x', no /home/melissa")
        == "no '${HOME}/x', no /home/melissa"
    )
