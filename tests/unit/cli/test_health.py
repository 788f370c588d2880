"""`discovery health`, on views made for the purpose."""

from __future__ import annotations

import pytest

from discovery_engine.catalog import DroppedTool, Failure
from discovery_engine.config.settings import StdioTransport
from discovery_engine.diagnostics import Origin
from discovery_engine.doctor.next_steps import next_command
from discovery_engine.errors import (
    FailureKind,
    MissingValue,
    NeedsAuthError,
    NeedsConfigError,
    UnavailableError,
    UntrustedServerError,
)
from discovery_engine.runtime.health import health
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, SessionStats, StateInfo
from discovery_engine.upstream.stdio.executable import on_this_machine
from discovery_engine.view.status import ServerReport
from discovery_engine.view.view import View
from tests.factories import (
    make_part,
    make_problem,
    make_server,
    make_settings,
)
from tests.rows import rows
from tests.unit.cli.backends import NOW, FakeEngine, run, usual_view, view_of

NOWHERE = Origin("")


def find_error(command: str) -> UnavailableError:
    """Why a program cannot be found."""
    with pytest.raises(UnavailableError) as caught:
        on_this_machine(ServerName("git"), StdioTransport(command), {"PATH": "/nowhere"})
    return caught.value


DOWN = Failure(
    "SERVER_CONNECTION_ERROR",
    "server 'down' is unavailable: it exited",
    "",
    NOW - 5,
    began=NOW - 90,
    stderr="reading the settings\nno licence",
)
WRONG = make_problem(Origin("d.yaml", 3), "servers.wrong.command", "must be text", "quote it")


def fleet() -> View:
    settings = make_settings(
        *("down", "good", "odd"),
        make_server("off", enabled=False),
        make_server("wrong", problem=WRONG),
    )
    good = make_part("good", "a", listed_at=NOW - 60)
    odd = make_part("odd", "a", listed_at=NOW - 60, dropped=(DroppedTool("b", "no name"),))
    return view_of(settings, make_part("down", listed_at=None, failure=DOWN), good, odd)


@pytest.mark.requirement("HEA-10")
def test_every_server_has_a_row_with_what_to_do_the_sick_ones_first() -> None:
    done = run("health", recalled=fleet())

    assert [" ".join(line.split()) for line in done.stdout.splitlines()] == [
        "SERVER STATE SINCE NEXT STEP REASON",
        '✗ down failing 1 min discovery health down it exited: "no licence"',
        "✗ odd idle 1 min discovery health odd 1 tool, 1 unusable",
        "✗ wrong needs_config discovery config validate servers.wrong.command: must be text",
        "✓ good idle 1 min 1 tool",
    ]
    assert done.stderr.splitlines() == [
        "4 servers, 1 disabled (--all), 3 problems",
        "`discovery health down` shows details",
    ]
    assert done.exit_code == 7


@pytest.mark.requirement("HEA-11")
def test_what_was_seen_of_a_session_is_reported() -> None:
    engine = Watched(usual_view(), seen=busy())

    done = run("health", "--online", "time", engine=engine)

    assert done.stdout.splitlines() == [
        "✗  time  crash-looping for 20 s",
        "  reason          it died",
        "  next step       fix the error in its stderr, below; then `discovery refresh time`",
        "  next try        in 1 min",
        "  listed          2 tools, 1 min ago",
        "  session         process 17",
        "  protocol        2026-07-28",
        "  so far          3 calls, 1 failure, 4 restarts, 2 lines of invalid output",
        '  invalid output  "Welcome!"',
        "  stderr (last lines):",
        "    | help",
    ]


def busy() -> StateInfo:
    stats = SessionStats(
        calls=3,
        failures=1,
        restarts=4,
        garbage=2,
        samples=("Welcome!",),
        stderr="help",
        pid=17,
        protocol_version="2026-07-28",
    )
    return StateInfo(
        ServerState.CRASH_LOOPING, "it died", seconds=20.0, next_try=100.0, stats=stats
    )


class Watched(FakeEngine):
    """An engine that sees how `time` fares."""

    def __init__(self, view: View, *, seen: StateInfo) -> None:
        super().__init__(view)
        self.seen = seen

    async def health(self, _: object = None) -> tuple[ServerReport, ...]:
        time = ServerName("time")
        live = {time: StateInfo(self.seen.state, self.seen.reason, self.seen.stats.stderr)}
        view = view_of(self.view.settings, *self.view.catalog.parts.values(), live=live)
        return health(view, {time: self.seen}, now=NOW)


@pytest.mark.requirement("HEA-18")
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
        (UntrustedServerError("git", "untrusted"), "discovery trust"),
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
