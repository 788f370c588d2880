from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from discovery_engine.catalog import DroppedTool, Failure
from discovery_engine.config.settings import ServerSettings
from discovery_engine.config.sources import ClientFile
from discovery_engine.diagnostics import Diagnostic, Origin
from discovery_engine.doctor import checks
from discovery_engine.doctor.checks import Check
from discovery_engine.errors import FailureKind, RegistryError, UnavailableError
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.runtime.health import health
from tests.factories import (
    make_catalog,
    make_entry,
    make_part,
    make_problem,
    make_server,
    make_settings,
    make_tool,
)
from tests.rows import rows
from tests.unit.cli.backends import view_of
from tests.unit.tools.validation.test_evaluation import chain

CHANGED = Verdict(enabled=False, reason="changed")
FAILED = Failure("X", "server 'git' is unavailable: it exited", "mend it", 0)


def fine(_: ServerSettings) -> None:
    """Everything that the server needs is there."""


def missing(server: ServerSettings) -> None:
    raise UnavailableError(server.name, FailureKind.NOT_FOUND, "no program", hint="get it")


@rows(("python", "level"), [((3, 10, 9), "problem"), ((3, 11, 0), "good"), ((4, 0, 0), "good")])
def test_an_old_python_is_a_problem(python: tuple[int, int, int], level: str) -> None:
    assert checks.runtime(python, "3.40").level == level


def test_a_configuration_is_counted_and_its_warnings_are_notes() -> None:
    broken = make_problem(Origin("f", 1), "servers.a", "wrong")
    warning = make_problem(Origin("f"), "", "odd", "look", code="CONFIG_EXPOSED")
    settings = make_settings(
        make_server("a", problem=broken), path="f", warnings=(broken, warning), tool_rules=(Rule(),)
    )

    assert list(checks.configuration(settings)) == [
        Check.passed("configuration", "f: 1 server, 1 tool rule"),
        Check("CONFIG_EXPOSED", "f: odd", "look", "configuration", Origin("f")),
    ]


def test_a_configuration_without_a_server_is_a_note_with_a_next_step() -> None:
    [check] = checks.configuration(make_settings(path="f"))

    assert (check.level, check.message) == ("note", "f: 0 servers, 0 tool rules")
    assert check.hint.startswith("`discovery add NAME -- COMMAND` adds a server")


def test_no_configuration_is_a_note_if_there_is_no_server_either() -> None:
    [none] = checks.configuration(make_settings())
    [some] = checks.configuration(make_settings("a"))
    off, _ = checks.configuration(make_settings(enabled=False))

    assert (none.level, none.hint) == ("note", "`discovery init` writes one")
    assert (some.level, off.level) == ("good", "note")


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
                "`discovery trust` shows what would be started and asks for approval",
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


def test_the_last_lines_of_stderr_of_a_program_go_with_its_check() -> None:
    part = make_part("git", failure=replace(FAILED, stderr="No licence"))
    [one] = health(view_of(make_settings("git"), part), now=10.0)

    assert checks.server(make_server("git"), one, fine).stderr == "No licence"


def test_rules_without_effect_are_notes() -> None:
    finding = Diagnostic("RULE_UNMATCHED", "rule 1 matches no tool", "check it")

    note = Check("RULE_UNMATCHED", "rule 1 matches no tool", "check it", "rules")
    assert checks.effects("rules", [finding]) == [note]
    assert checks.effects("rules", []) == [Check.passed("rules", "each has an effect")]


def test_the_oldest_knowledge_of_an_enabled_server_counts() -> None:
    off = make_part("off", listed_at=1, verdict=Verdict(enabled=False))
    catalog = make_catalog(make_part("a", "t", listed_at=900), make_part("b", listed_at=500), off)

    assert checks.age(catalog, ttl=600, now=1000).level == "good"
    assert checks.age(catalog, ttl=400, now=1000) == Check(
        "REGISTRY_OUTDATED",
        "1 tool, the oldest listed 8 min ago",
        "`discovery refresh` lists them again",
        "cache",
    )
    assert checks.age(make_catalog(off), ttl=1, now=1).level == "note"


@rows(("mode", "level"), [(0o100600, "good"), (0o100640, "problem"), (None, "good")])
def test_what_is_remembered_is_for_its_owner_alone(mode: int | None, level: str) -> None:
    assert checks.registry(Path("registry.db"), mode, None).level == level


def test_a_registry_that_cannot_be_used_is_a_problem() -> None:
    check = checks.registry(Path("registry.db"), None, RegistryError("it is full", hint="empty it"))

    assert (check.level, check.message, check.hint) == ("problem", "it is full", "empty it")


def test_client_files_that_are_not_used_are_named_once() -> None:
    file = ClientFile("cursor", "Cursor", "/a", "user")
    files = [file, replace(file, path="/b"), ClientFile("zed", "Zed", "/c", "user")]

    assert "files of Cursor are there" in checks.clients(files, ["zed"]).message
    assert checks.clients(files, ["zed", "cursor"]).hint == ""


@pytest.mark.requirement("EVA-40", "THR-10")
def test_schemas_that_are_too_costly_to_check_are_named() -> None:
    takes = chain("allOf", links=30)
    costly = [make_tool(f"t{n}", "a", inputSchema=takes) for n in range(7)]

    assert checks.schemas([make_tool("plain", "a")]) == []
    [check] = checks.schemas([make_tool("plain", "a"), *costly])
    assert check.level == "note"
    assert check.message.endswith("unchecked: a:t0, a:t1, a:t2, a:t3, a:t4 and 2 more")
