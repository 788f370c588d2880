"""The commands that read, answered from a view made by hand."""

from __future__ import annotations

import pytest

from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.view import View
from tests.unit.cli.backends import NOW, FakeEngine, nothing_known, run, usual_view, view_of

DOWN = Failure("SERVER_CONNECTION_ERROR", "server 'down' is unavailable: it exited", "mend it", NOW)


def test_inspect_shows_a_tool_with_its_arguments() -> None:
    done = run("inspect", "github:create_issue", recalled=usual_view())

    assert done.stdout.splitlines() == [
        "✓  github:create_issue  enabled",
        "  | Create an issue in a repository. It is numbered.",
        "  tags    write",
        "  claims  readOnlyHint: false",
        "  title   string   required  What it is about",
        "  labels  any[]    optional",
        "  urgent  boolean  optional",
        "  example: discovery execute github:create_issue title=...",
    ]


def half_known() -> View:
    """The view in which `time` is known, and `github` never was listed."""
    usual = usual_view()
    parts = {**usual.catalog.parts, ServerName("github"): ServerPart(ServerName("github"))}
    return view_of(usual.settings, *parts.values())


@pytest.mark.requirement("CLI-42")
@pytest.mark.parametrize("command", ["why", "inspect"])
def test_a_tool_that_no_known_server_has_is_looked_for_in_the_others_for_a_while(
    command: str,
) -> None:
    engine = FakeEngine(half_known(), after=usual_view())
    slow = FakeEngine(nothing_known(usual_view()), after=half_known())

    found = run(command, "delete_issue", recalled=half_known(), engine=engine)
    not_found = run(command, "delete_issue", recalled=slow.view, engine=slow)

    assert (found.exit_code, engine.asked) == (0, [["github"]])
    assert slow.max_wait == 10.0
    assert not_found.exit_code == 2
    assert "may have a tool of that name, too: github" in not_found.stderr


@pytest.mark.requirement("CLI-29")
@pytest.mark.parametrize(("words", "max_wait"), [(["list"], 10.0), (["tools", "time"], None)])
def test_a_slow_server_is_waited_for_where_the_question_is_of_it(
    words: list[str], max_wait: float | None
) -> None:
    unknown = nothing_known(usual_view())
    engine = FakeEngine(unknown, after=usual_view())

    run(*words, recalled=unknown, engine=engine)

    assert engine.max_wait == max_wait


@pytest.mark.requirement("CLI-29")
def test_a_slow_server_is_a_note_if_others_are_known() -> None:
    usual = usual_view()
    parts = {**usual.catalog.parts, ServerName("time"): ServerPart(ServerName("time"))}
    live = {
        ServerName("time"): StateInfo(
            ServerState.STARTING, starting_for=12.9, stderr="Resolving\nDownloading \x1b[1m40 %"
        )
    }
    slow = view_of(usual.settings, *parts.values(), live=live)

    done = run("search", "issue", recalled=slow, engine=FakeEngine(slow))
    without = run("search", "zyzzyva", recalled=slow, engine=FakeEngine(slow))

    assert (done.exit_code, without.exit_code) == (0, 5)
    assert "create_issue" in done.stdout
    assert (
        'note: time: starting, 12 s, "Downloading 40 %"; `discovery refresh time` waits for it\n'
    ) in done.stderr
