from __future__ import annotations

import io
import json
import sys

import click
import pytest
from msgspec.structs import replace

from discovery_cli.error_output import hint_of, show_error
from discovery_cli.errors import UnlistedServerError
from discovery_cli.exit_codes import ExitCode, exit_code, exit_code_of_failure
from discovery_engine.catalog import Failure
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import (
    ConfigurationError,
    DiscoveryError,
    FailureKind,
    InstallFailedError,
    InstallRefusedError,
    InvalidArgumentsError,
    InvalidInputError,
    InvalidPackageNameError,
    LoginError,
    MissingInputsError,
    NeedsAuthError,
    NeedsConfigError,
    NotInstalledError,
    OutcomeUnknownError,
    PackageChangedError,
    PackageManagerError,
    PackageNotFoundError,
    RegistryError,
    SecretStoreError,
    ServerDisabledError,
    ServerNotFoundError,
    ToolAmbiguousError,
    ToolDisabledError,
    ToolNotFoundError,
    ToolWithheldError,
    UnavailableError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from tests.factories import make_problem
from tests.rows import rows

PROBLEM = make_problem(
    Origin("a.yaml", 3, 5), "cache.ttl", "too small", "say 1", "  ttl: 0\n       ^"
)


@rows(
    ("error", "code"),
    [
        (RuntimeError("x"), 1),
        (OSError("x"), 1),
        (RegistryError("x"), 1),
        (SecretStoreError("x"), 6),
        (LoginError("a", "b"), 6),
        (DiscoveryError("x"), 1),
        (click.UsageError("x"), 2),
        (ConfigurationError([]), 2),
        (ServerNotFoundError("a"), 2),
        (ToolNotFoundError("a", "b"), 2),
        (ToolAmbiguousError("a", ["b:a"]), 2),
        (InvalidArgumentsError("s", "a", ["b"], "c"), 2),
        (InvalidPackageNameError("a"), 2),
        (PackageNotFoundError("a"), 2),
        (InvalidInputError("a"), 2),
        (NotInstalledError("a", ()), 2),
        (InstallRefusedError("a"), 4),
        (PackageChangedError("a", "b", "c"), 4),
        (InstallFailedError("a"), 5),
        (MissingInputsError("a", ["b"], []), 6),
        (UpstreamProtocolError("a", "b", -32602), 3),
        (ServerDisabledError("a", "b"), 4),
        (ToolDisabledError("a", "b", "c"), 4),
        (UnavailableError("a", FailureKind.EXITED, "b"), 5),
        (UpstreamTimeoutError("a", "b", 1), 5),
        (OutcomeUnknownError("a", "b", "c"), 5),
        (PackageManagerError("a"), 5),
        (NeedsConfigError("a", [], Origin("")), 6),
        (NeedsAuthError("a", "b"), 6),
        (click.Abort(), 130),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_error_has_its_exit_code(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


def test_a_remembered_failure_has_the_exit_code_of_its_error() -> None:
    assert exit_code_of_failure("SERVER_NEEDS_AUTH") is ExitCode.SECRET_MISSING
    assert exit_code_of_failure("SERVER_CONNECTION_ERROR") is ExitCode.UNREACHABLE


@rows(
    ("error", "hint"),
    [
        pytest.param(ServerNotFoundError("a"), "`discovery list` names them all", id="server"),
        pytest.param(
            ServerNotFoundError("githb", ["github", "gitea"]),
            "did you mean 'github' or 'gitea'? `discovery list` names them all",
            id="nearest",
        ),
        pytest.param(
            ToolNotFoundError("git", "a"), "`discovery tools git` names its tools", id="tool"
        ),
        pytest.param(
            ToolNotFoundError(None, "a"),
            "`discovery search` finds tools by words",
            id="tool anywhere",
        ),
        pytest.param(
            ToolAmbiguousError("a", ["b:a", "c:a"]), "name one of them: b:a, c:a", id="ambiguous"
        ),
        pytest.param(
            ToolDisabledError("a", "b", "c"),
            "`discovery why a:b` shows what each rule did",
            id="disabled",
        ),
        pytest.param(NeedsAuthError("a", "b"), NeedsAuthError("a", "b").hint, id="its own"),
        pytest.param(ValueError("x"), "-v shows where it happened", id="unexpected"),
        pytest.param(click.Abort(), "", id="none"),
        pytest.param(click.UsageError("x"), "", id="usage without a command"),
        pytest.param(
            click.UsageError("x", click.Context(click.Command("list"), info_name="discovery list")),
            "`discovery list --help` shows the options",
            id="usage",
        ),
        pytest.param(
            ToolWithheldError("a", "b", "c", command="discovery review a"),
            "`discovery review a` shows its definition now",
            id="withheld",
        ),
    ],
)
def test_a_hint_is_a_command_of_ours(error: BaseException, hint: str) -> None:
    assert hint_of(error) == hint


UNLISTED = Failure(
    "SERVER_NEEDS_AUTH",
    "server 'a' is unavailable: it wants a login",
    "`discovery auth a`",
    1.0,
    stderr="no token\n",
    detail="HTTP 401",
)


@rows(
    ("failed_with", "code"),
    [
        ("SERVER_NEEDS_AUTH", ExitCode.SECRET_MISSING),
        ("SERVER_CONNECTION_ERROR", ExitCode.UNREACHABLE),
        ("SERVER_UNTRUSTED", ExitCode.DISABLED),
    ],
)
def test_a_server_that_could_not_be_listed_has_the_exit_code_of_its_failure(
    failed_with: str, code: ExitCode
) -> None:
    error = UnlistedServerError("a", replace(UNLISTED, code=failed_with))

    assert exit_code(error) is exit_code_of_failure(failed_with) is code


def test_a_server_that_could_not_be_listed_is_reported_with_all_that_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told(UnlistedServerError("a", UNLISTED), capsys) == (
        "error: server 'a' is unavailable: it wants a login\n  HTTP 401\n"
        "  stderr (last lines):\n    | no token\n  hint: `discovery auth a`\n"
    )


def told(error: BaseException, capsys: pytest.CaptureFixture[str], **options: bool) -> str:
    show_error(error, **{"as_json": False, "verbose": False, **options})
    return capsys.readouterr().err


def test_a_problem_is_shown_with_its_line_and_caret(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(ConfigurationError([PROBLEM]), capsys) == (
        "error: a.yaml:3:5: cache.ttl: too small [CONFIG_INVALID_VALUE]\n"
        "  |   ttl: 0\n  |        ^\n  hint: say 1\n"
    )


def test_the_last_lines_of_stderr_of_a_program_are_shown_clean(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = UnavailableError("a", FailureKind.EXITED, "it exited", stderr="one\n\x1b[1mtwo\n")

    assert told(error, capsys) == (
        "error: server 'a' is unavailable: it exited\n"
        "  stderr (last lines):\n    | one\n    | two\n"
        "  hint: `discovery health a` shows what it wrote last\n"
    )


def test_a_message_of_several_lines_is_indented(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(OSError("a\nb"), capsys) == "error: a\n  | b\n  hint: -v shows where it happened\n"


def test_a_problem_without_an_excerpt_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    problem = make_problem(Origin("a.yaml", 3, 5), "cache.ttl", "too small")

    assert told(ConfigurationError([problem]), capsys) == (
        "error: a.yaml:3:5: cache.ttl: too small [CONFIG_INVALID_VALUE]\n"
    )


def test_no_other_error_begins_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)

    show_error(ServerNotFoundError("a"), as_json=False, verbose=False)

    assert terminal.getvalue().startswith("error: ")


@rows("error", [click.Abort(), KeyboardInterrupt()])
def test_an_interruption_begins_a_line_of_its_own_on_a_terminal(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", terminal)

    show_error(error, as_json=False, verbose=False)

    assert terminal.getvalue() == "\nerror: interrupted\n"


def test_a_traceback_is_shown_clean(capsys: pytest.CaptureFixture[str]) -> None:
    written = told(ValueError("\x1b[2Jx"), capsys, verbose=True)

    assert written.startswith("ValueError: x\n")


def test_a_traceback_names_each_place_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        int("x")
    except ValueError as error:
        written = told(error, capsys, verbose=True)

    first, place, *_, last = written.splitlines()
    assert first == "Traceback (most recent call last):"
    assert place.startswith("  File ")
    assert last == "  hint: -v shows where it happened"


def test_an_error_that_was_foreseen_has_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(ServerNotFoundError("a"), capsys, verbose=True).startswith("error: ")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(click.NoSuchOption("-n"), id="option"),
        pytest.param(click.BadParameter("0 is too small.", param_hint="'--limit'"), id="value"),
        pytest.param(
            click.MissingParameter(param_hint="'TOOL'", param_type="argument"), id="missing"
        ),
        pytest.param(click.UsageError("Got unexpected extra argument (x)"), id="too much"),
        pytest.param(
            click.BadOptionUsage("--limit", "Option '--limit' requires an argument."),
            id="option without its value",
        ),
    ],
)
def test_clicks_own_messages_are_reported_as_ours_are(
    error: click.UsageError, capsys: pytest.CaptureFixture[str]
) -> None:
    message = error.format_message()

    said = f"{message[0].lower()}{message[1:].removesuffix('.')}"
    assert told(error, capsys) == f"error: {said}\n"


def test_our_own_messages_are_left_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(click.UsageError("Makefile is there."), capsys) == "error: Makefile is there.\n"


def test_an_error_without_words_is_still_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(DiscoveryError(""), capsys) == "error: \n"


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        pytest.param(
            ToolNotFoundError("git", "lgo", ["log"]),
            {"code": "TOOL_NOT_FOUND", "server": "git", "tool": "lgo", "nearest": ["log"]},
            id="not found",
        ),
        pytest.param(
            InvalidArgumentsError("a", "b", ["c"], "b(d)"),
            {"server": "a", "tool": "b", "mistakes": ["c"], "signature": "b(d)", "exit_code": 2},
            id="arguments",
        ),
        pytest.param(
            UnavailableError("a", FailureKind.EXITED, "b", stderr="c"),
            {"kind": "exited", "stderr": "c", "server": "a"},
            id="unavailable",
        ),
        pytest.param(click.Abort(), {"code": "INTERRUPTED", "message": "interrupted"}, id="abort"),
        pytest.param(click.UsageError("x"), {"code": "USAGE_ERROR", "message": "x"}, id="usage"),
        pytest.param(
            ValueError("x"),
            {"code": "UNEXPECTED_ERROR", "message": "unexpected ValueError: x"},
            id="unexpected",
        ),
    ],
)
def test_json_has_the_facts_of_an_error(
    error: BaseException, facts: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    form = json.loads(told(error, capsys, as_json=True))["error"]

    assert form.items() >= facts.items()


def test_json_has_all_that_is_known_of_a_server_that_could_not_be_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    form = json.loads(told(UnlistedServerError("a", UNLISTED), capsys, as_json=True))["error"]

    assert form == {
        "code": "SERVER_CONNECTION_ERROR",
        "message": "server 'a' is unavailable: it wants a login",
        "hint": "`discovery auth a`",
        "exit_code": 6,
        "kind": "other",
        "stderr": "no token\n",
        "detail": "HTTP 401",
        "server": "a",
    }


def test_json_has_every_problem_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    form = json.loads(told(ConfigurationError([PROBLEM]), capsys, as_json=True))["error"]

    assert form["problems"] == [
        {
            "code": "CONFIG_INVALID_VALUE",
            "severity": "error",
            "file": "a.yaml",
            "line": 3,
            "column": 5,
            "path": "cache.ttl",
            "subject": "cache.ttl",
            "message": "too small",
            "hint": "say 1",
            "excerpt": "  ttl: 0\n       ^",
        }
    ]
