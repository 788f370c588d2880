from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from discovery_engine.catalog import DroppedTool, Failure
from discovery_engine.config.settings import ServerSettings
from discovery_engine.engine.doctor import checks
from discovery_engine.engine.health import health
from discovery_engine.errors import FailureKind, Origin, UnavailableError
from discovery_engine.rules.rule import Verdict
from tests.factories import (
    chain,
    make_entry,
    make_part,
    make_problem,
    make_server,
    make_settings,
    make_tool,
)
from tests.rows import rows
from tests.unit.cli.backends import view_of

CHANGED = Verdict(enabled=False, reason="changed")
FAILED = Failure("X", "server 'git' is unavailable: it exited", "mend it", 0)


def fine(_: ServerSettings) -> None:
    """Everything that the server needs is there."""


def missing(server: ServerSettings) -> None:
    raise UnavailableError(server.name, FailureKind.NOT_FOUND, "no program", hint="get it")


@rows(
    ("settings", "part", "try_out", "check"),
    [
        pytest.param({}, None, fine, ("good", "can be tried", ""), id="never asked"),
        pytest.param({}, make_part("git", "a"), fine, ("good", "1 tool", ""), id="listed"),
        pytest.param({"enabled": False}, None, missing, ("good", "disabled", ""), id="disabled"),
        pytest.param(
            {},
            make_part("git", verdict=Verdict(enabled=False)),
            missing,
            ("good", "disabled", ""),
            id="disabled by a rule",
        ),
        pytest.param(
            {},
            None,
            missing,
            ("problem", "no program", "get it; then `discovery refresh git`"),
            id="no program",
        ),
        pytest.param(
            {"problem": make_problem(Origin("f", 2), "command", "must be text", "quote it")},
            None,
            fine,
            ("problem", "f:2:0: command: must be text", "quote it"),
            id="broken entry",
        ),
        pytest.param(
            {},
            make_part("git", failure=FAILED),
            fine,
            ("problem", "it exited", "mend it; then `discovery refresh git`"),
            id="failed",
        ),
        pytest.param(
            {"is_untrusted_origin": True},
            make_part("git", verdict=Verdict(enabled=False, reason="untrusted")),
            missing,
            (
                "problem",
                "the owner has not approved it yet",
                "`discovery review servers` shows what would be started and asks for approval",
            ),
            id="untrusted",
        ),
        pytest.param(
            {},
            make_part("git", replace(make_entry("a", "git"), verdict=CHANGED)),
            fine,
            ("note", "1 tool", "`discovery review git` shows why"),
            id="tools that wait for review",
        ),
        pytest.param(
            {},
            make_part("git", "a", dropped=(DroppedTool("b", "no name"),)),
            fine,
            ("problem", "1 tool; 1 unusable: b (no name)", "only its author can change that"),
            id="tools that cannot be used",
        ),
    ],
)
def test_a_server_is_judged_without_being_started(settings, part, try_out, check) -> None:
    server = make_server("git", **settings)
    parts = [part] if part else []
    [one] = health(view_of(make_settings(server), *parts), now=10.0)

    found = checks.server(server, one, try_out)

    assert (found.level, found.message.partition(";")[0], found.hint) == (
        check[0],
        check[1].partition(";")[0],
        check[2],
    )


@rows(("mode", "level"), [(0o100600, "good"), (0o100640, "problem"), (None, "good")])
def test_what_is_remembered_is_for_its_owner_alone(mode: int | None, level: str) -> None:
    assert checks.registry(Path("registry.db"), mode, None).level == level


@pytest.mark.requirement("EVA-40", "THR-10")
def test_schemas_that_are_too_costly_to_check_are_named() -> None:
    takes = chain("allOf", links=30)
    costly = [make_tool(f"t{n}", "a", inputSchema=takes) for n in range(7)]

    assert checks.schemas([make_tool("plain", "a")]) == []
    [check] = checks.schemas([make_tool("plain", "a"), *costly])
    assert check.level == "note"
    assert check.message.endswith("unchecked: a:t0, a:t1, a:t2, a:t3, a:t4 and 2 more")
