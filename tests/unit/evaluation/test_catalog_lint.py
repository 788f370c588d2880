from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.catalog import Entry, OfferingEntry
from discovery_engine.evaluation.catalog_lint import CatalogFinding, lint_catalog, pattern_of
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.rules.ruleset import ToolRules
from tests.factories import (
    chain,
    make_entry,
    make_offering_entry,
    make_part,
    make_server,
    make_settings,
    make_tool,
)
from tests.rows import rows
from tests.unit.evaluation.runs import view_of

TEXT = {"type": "string"}


def lint(*entries: Entry, **settings: object) -> tuple[CatalogFinding, ...]:
    servers = sorted({entry.tool.server for entry in entries})
    parts = [make_part(s, *(e for e in entries if e.tool.server == s)) for s in servers]
    made = make_settings(*(make_server(s, **settings) for s in servers))
    return lint_catalog(view_of(*parts, settings=made)).findings


def schema(*required: str, **properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.requirement("EVA-40")
def test_a_name_that_an_answer_cannot_hold_is_crowded() -> None:
    said = [
        "apples",
        "pears",
        "plums",
        "grapes",
        "figs",
        "dates",
        "limes",
        "kiwis",
        "mangos",
        "melons",
        "berries",
    ]
    entries = [
        make_entry("find", f"server-{i:02}", description=f"Looks for {fruit} everywhere.")
        for i, fruit in enumerate(said)
    ]

    [finding] = [f for f in lint(*entries) if f.code == "TOOL_NAME_CROWDED"]

    assert len(finding.tools) == 11
    assert finding.overrides[0] == {"pattern": "server-00:find", "name": "server-00_find"}


@pytest.mark.requirement("EVA-40")
@rows(("description", "said"), [("", "is empty"), ("Creates issues.", "has no more than its name")])
def test_a_description_says_more_than_the_name(description: str, said: str) -> None:
    takes = schema(repoName={**TEXT, "description": "Where"})

    [finding] = lint(make_entry("create_issue", "hub", description=description, inputSchema=takes))

    assert finding.message == f"the description of hub:create_issue {said}"
    drafted = "Create issue in hub. Takes repo name."
    assert finding.overrides == ({"pattern": "hub:create_issue", "description": drafted},)


@pytest.mark.requirement("EVA-40")
@rows(
    ("large", "overrides"),
    [
        pytest.param({"enum": ["x" * 9000]}, ({"mode": "x" * 9000},), id="its first choice"),
        pytest.param({"default": 3, "title": "x" * 9000}, ({"mode": 3},), id="its default"),
        pytest.param({"type": "array", "title": "x" * 9000}, ({"mode": []},), id="nothing of it"),
        pytest.param({"title": "x" * 9000}, (), id="of any type"),
        pytest.param({"default": "${x", "title": "x" * 9000}, (), id="what would be a reference"),
    ],
)
def test_a_large_schema_is_repaired_by_pinning_its_largest_optional_argument(
    large: dict[str, object], overrides: tuple[dict[str, object], ...]
) -> None:
    takes = schema("id", mode=large, id={**TEXT, "description": "Which"}, other=TEXT)

    [finding] = lint(make_entry("ping", "a", description="Knock gently.", inputSchema=takes))

    assert finding.code == "TOOL_SCHEMA_LARGE"
    assert "of them for mode" in finding.message
    assert tuple(override["arguments"] for override in finding.overrides) == overrides


@pytest.mark.requirement("EVA-40", "THR-10")
def test_a_schema_that_is_too_costly_to_check_is_for_its_author_to_change() -> None:
    takes = chain("allOf", links=30)

    [finding] = lint(make_entry("ping", "a", description="Knock gently.", inputSchema=takes))

    assert (finding.code, finding.overrides) == ("TOOL_SCHEMA_COSTLY", ())
    assert "more than 2,000 ways through it" in finding.message


@pytest.mark.requirement("EVA-40")
def test_of_a_large_catalog_some_tools_are_searched_for_and_it_reports_it() -> None:
    part = make_part(
        "a", *(make_entry(f"t{i}", "a", description=f"Do {i} things") for i in range(9))
    )

    some, each = lint_catalog(view_of(part), searches=4), lint_catalog(view_of(part))

    assert (some.searched, some.searchable) == (4, 9)
    assert (each.searched, each.searchable) == (9, 9)


@pytest.mark.requirement("EVA-40")
@given(
    st.text(st.sampled_from("ab*?[]{}\\!/@+(),-.:|^$"), min_size=1, max_size=6),
    st.text(st.sampled_from("ab*?[]{}\\!/@+(),-.|^$"), min_size=1, max_size=6),
)
def test_the_pattern_of_an_override_matches_the_tool(server: str, name: str) -> None:
    pattern = pattern_of(make_tool(name, server))

    found = ToolRules([Rule((pattern,), tags=("found",))]).verdicts(
        [make_tool(name, server), make_tool(f"{name}x", server)], Verdict()
    )

    assert [verdict.tags for verdict in found] == [("found",), ()]


def lint_offerings(*entries: OfferingEntry) -> tuple[CatalogFinding, ...]:
    part = make_part("docs", offerings=entries)
    return lint_catalog(view_of(part, settings=make_settings(make_server("docs")))).findings


@pytest.mark.requirement("SRV-90")
def test_members_that_clients_do_not_get_are_named() -> None:
    odd = {"title": None, "annotations": {"readOnlyHint": "yes"}, "icons": [5], "_meta": []}
    tool = make_tool("add_row", description="Add a row to a table.", **odd)
    [of_tool] = [one for one in lint(make_entry(tool)) if one.code == "DEFINITION_INVALID"]
    [of_resource] = lint_offerings(make_offering_entry("file:///a", description="A", size="12"))

    assert of_tool.message == (
        "github:add_row has members that are not valid:"
        " _meta, annotations.readOnlyHint, icons, 1 more"
    )
    assert of_tool.tools == (tool.key,)
    assert of_resource.message == "resource 'docs:file:///a' has members that are not valid: size"
