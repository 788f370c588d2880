"""`discovery health`, on views made for the purpose."""

from __future__ import annotations

import pytest

from discovery_cli.rendering import with_last_line
from discovery_engine.catalog import Failure
from discovery_engine.config.settings import StdioTransport
from discovery_engine.engine.doctor.next_steps import next_command
from discovery_engine.engine.health import health
from discovery_engine.errors import (
    FailureKind,
    MissingValue,
    NeedsAuthError,
    NeedsConfigError,
    Origin,
    UnavailableError,
    UntrustedServerError,
)
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.stdio.executable import on_this_machine
from tests.factories import (
    make_part,
    make_settings,
)
from tests.rows import rows
from tests.unit.cli.backends import NOW, run, view_of

NOWHERE = Origin("")


NODE = "  throw err;\nError: Cannot find module 'x'\n    at Module.load\n}\n\nNode.js v20.1.0\n"
NPM = "npm error code E404\nnpm error 404 no such package\nnpm error A complete log is in: /x.log\n"


@rows(
    ("stderr", "line"),
    [
        pytest.param(NODE, "Error: Cannot find module 'x'", id="Node.js"),
        pytest.param(NPM, "npm error 404 no such package", id="npm"),
        pytest.param("Traceback:\n  File x\nKeyError: 1\n", "KeyError: 1", id="Python"),
        pytest.param("listening\ndone\n", "done", id="no error"),
    ],
)
def test_of_stderr_the_last_error_is_told(stderr: str, line: str) -> None:
    assert with_last_line("it exited", stderr) == f'it exited: "{line}"'


def find_error(command: str) -> UnavailableError:
    """Why a program cannot be found."""
    with pytest.raises(UnavailableError) as caught:
        on_this_machine(ServerName("git"), StdioTransport(command), {"PATH": "/nowhere"})
    return caught.value


@pytest.mark.requirement("HEA-10")
@rows(
    ("error", "step"),
    [
        (find_error("uvx"), "pip install uv"),
        (find_error("no-such-program"), "discovery health git"),
        (
            NeedsConfigError("git", [MissingValue("env.T", "NOPE", "${NOPE} is not set")], NOWHERE),
            "discovery secrets set",
        ),
        (UnavailableError("git", FailureKind.EXITED, "it exited"), "discovery health git"),
        (NeedsAuthError("git", "HTTP 401"), "discovery health git"),
        (UntrustedServerError("git", "untrusted"), "discovery review servers"),
    ],
    ids=["installable", "missing", "variable", "exited", "login", "untrusted"],
)
def test_the_next_step_repairs_what_it_stands_beside(error: UnavailableError, step: str) -> None:
    failure = Failure(
        error.code, error.message, error.hint, NOW, stderr="boom", detail="PATH is /x"
    )
    view = view_of(make_settings("git"), make_part("git", listed_at=None, failure=failure))
    [server] = health(view, now=NOW)

    assert next_command(server) == step
    assert "discovery refresh" not in run("health", recalled=view).stdout
    if error.kind is not FailureKind.UNTRUSTED:
        assert "; then `discovery refresh git`" in run("health", "git", recalled=view).stdout
