"""`discovery health`, on views made for the purpose."""

from __future__ import annotations

import json
from typing import Any

import pytest

from discovery_engine.catalog import DroppedTool, Failure
from discovery_engine.config.settings import StdioTransport
from discovery_engine.diagnostics import Origin
from discovery_engine.doctor.next_steps import advice, next_command
from discovery_engine.errors import (
    FailureKind,
    MissingValue,
    NeedsAuthError,
    NeedsConfigError,
    UnavailableError,
    UntrustedServerError,
)
from discovery_engine.rules.rule import Verdict
from discovery_engine.runtime.health import health
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, SessionStats, StateInfo
from discovery_engine.upstream.stdio.executable import on_this_machine
from discovery_engine.view.status import ServerReport
from discovery_engine.view.view import View
from tests.factories import (
    make_entry,
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


@pytest.mark.requirement("HEA-11")
def test_a_server_that_was_never_asked_is_neither_healthy_nor_to_be_repaired() -> None:
    view = view_of(make_settings("new"), make_part("new", listed_at=None))

    assert run("health", "new", recalled=view).stdout.splitlines() == [
        "…  new  pending",
        "  next step  `discovery refresh new` asks it",
        "  listed     never",
    ]
    assert "…  new     pending" in run("health", recalled=view).stdout


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


@pytest.mark.requirement("HEA-10")
def test_all_is_well() -> None:
    done = run("health", recalled=usual_view())

    assert done.exit_code == 0
    assert done.stderr == "2 servers, 0 problems\n"


def test_disabled_servers_are_shown_on_request() -> None:
    every, named = run("health", "--all", recalled=fleet()), run("health", "off", recalled=fleet())

    assert "off" in every.stdout
    assert named.stdout.splitlines()[0].split() == ["✓", "off", "disabled"]
    assert named.exit_code == 0


@pytest.mark.requirement("HEA-11")
def test_a_server_that_is_named_is_shown_in_full() -> None:
    done = run("health", "DOWN", recalled=fleet())

    assert done.stdout.splitlines() == [
        "✗  down  failing for 1 min",
        "  reason     it exited",
        "  next step  fix the error in its stderr, below; then `discovery refresh down`",
        "  listed     never",
        "  stderr (last lines):",
        "    | reading the settings",
        "    | no licence",
    ]
    assert done.exit_code == 7


def test_no_server_at_all_is_well() -> None:
    done = run("health", recalled=view_of(make_settings()))

    assert (done.stdout, done.exit_code) == ("", 0)


def test_a_server_that_is_not_there_is_an_error() -> None:
    assert run("health", "dawn", recalled=fleet()).exit_code == 2


@pytest.mark.requirement("HEA-12")
def test_online_asks_the_servers_that_may_be_asked() -> None:
    engine = FakeEngine(fleet())

    run("health", "--online", engine=engine)
    run("health", "--online", "good", engine=engine)

    assert engine.asked == [["down", "good", "odd"], ["good"]]


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


@pytest.mark.requirement("HEA-13")
def test_json_has_every_fact_of_every_server() -> None:
    [down, *_] = json.loads(run("health", "--json", recalled=fleet()).stdout)["servers"]
    [time] = json.loads(
        run(
            "health", "--json", "--online", "time", engine=Watched(usual_view(), seen=busy())
        ).stdout
    )["servers"]

    assert (down["status"], down["is_well"], down["since"]) == ("failing", False, NOW - 90)
    assert (down["code"], time["code"]) == ("SERVER_CONNECTION_ERROR", "SERVER_CONNECTION_ERROR")
    assert (down["next_step"], down["session"]) == ("discovery health down", None)
    assert down["stderr"] == "reading the settings\nno licence"
    assert time["session"]["counters"]["restarts"] == 4
    assert time["session"]["invalid_output"] == ["Welcome!"]
    assert time["next_try"] == NOW + 100


@pytest.mark.requirement("HEA-6")
def test_a_list_and_a_check_show_the_last_lines_of_stderr() -> None:
    words = "\n".join(f"line {n}" for n in range(9))
    failure = Failure("X", "gone", "", NOW, stderr=words)
    view = view_of(make_settings("down"), make_part("down", failure=failure))

    listed = run("list", "--status", recalled=view)
    checked = run("doctor", engine=FakeEngine(view))

    assert "line 3" not in listed.stderr + checked.stdout
    assert "  stderr (last lines):\n    | line 4\n" in listed.stderr
    assert "line 8" in listed.stderr


@rows(
    ("fields", "part", "command", "words"),
    [
        pytest.param({}, {}, "", "", id="well"),
        pytest.param(
            {"problem": WRONG},
            {},
            "discovery config validate",
            "quote it; then `discovery config validate`",
            id="its entry is wrong",
        ),
        pytest.param(
            {},
            {"failure": Failure("SERVER_NEEDS_CONFIG", "TOKEN is not set", "set it", NOW)},
            "discovery health git",
            "set it; then `discovery refresh git`",
            id="a value is missing",
        ),
        pytest.param(
            {},
            {"failure": Failure("SERVER_NEEDS_AUTH", "401", "log in", NOW)},
            "discovery health git",
            "log in; then `discovery refresh git`",
            id="a login is missing",
        ),
        pytest.param(
            {},
            {"failure": DOWN},
            "discovery health git",
            "`discovery refresh git` tries it again",
            id="nobody knows better",
        ),
        pytest.param(
            {"is_untrusted_origin": True},
            {"verdict": Verdict(enabled=False, reason="untrusted")},
            "discovery trust",
            "`discovery trust` shows what would be started and asks for approval",
            id="nobody approved it",
        ),
        pytest.param({}, {"listed_at": None}, "discovery refresh git", None, id="never asked"),
    ],
)
def test_there_is_a_next_step(
    fields: dict[str, Any], part: dict[str, Any], command: str, words: str | None
) -> None:
    server = only(make_server("git", **fields), **part)

    assert next_command(server) == command
    assert words is None or advice(server) == words


def test_tools_that_wait_are_reviewed() -> None:
    entry = make_entry("a", "git")
    changed = Verdict(enabled=False, reason="changed")
    view = view_of(make_settings("git"), make_part("git", type(entry)(entry.tool, changed)))
    [server] = health(view, now=NOW)

    assert next_command(server) == "discovery review git"


def only(server: Any, **part: Any) -> ServerReport:
    [found] = health(view_of(make_settings(server), make_part("git", **part)), now=NOW)
    return found


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
