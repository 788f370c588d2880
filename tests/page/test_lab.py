"""The search lab in a real browser: why a tool is found, and what a change would do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.serving import Home
from tests.page.conftest import gateway
from tests.page.lab import ask, edit, write_config
from tests.postgres import PostgresServer


@pytest.mark.requirement("PAGE-20")
def test_the_lab_shows_the_thresholds_what_is_hidden_by_which_rule_and_what_the_agent_reads(
    home: Home, config: Path, chromium: Browser
) -> None:
    with gateway(home) as served, served.opened(chromium) as opened:
        page = ask(opened, "delete an issue")
        expect(page.get_by_role("img", name="shown from 15 % on")).to_be_visible()
        expect(page.get_by_role("img", name="Relevance").first).to_be_visible()
        hidden = page.get_by_role("listitem").filter(has_text="would be the first")
        expect(hidden).to_contain_text("hub:delete_issue")
        expect(hidden).to_contain_text(f"rule 1 ({config.name}:5:5)")
        expect(page.locator("pre.agent")).to_contain_text("1 tool that matches is disabled")
        expect(page.get_by_text("tokens of at most 180")).to_be_visible()
        hidden.get_by_role("switch", name="hub:delete_issue for agents").press("Enter")
        expect(page.get_by_role("dialog").locator(".diff")).to_contain_text("hub:delete_issue")
        page.get_by_role("button", name="Cancel").press("Enter")
        hidden.get_by_role("button", name="Show the rule").click()
        expect(page.get_by_role("textbox", name="Tool rules")).to_be_focused()
        assert page.evaluate("getSelection().toString()") == '- pattern: "*delete*"'

        page = ask(opened, "list dossiers", "desks")
        view = page.get_by_role("listitem").filter(has_text="would be the first")
        expect(view).to_contain_text("The view desks hides it: rule 1 (discovery.yaml:11:9)")


@pytest.mark.requirement("PAGE-21")
def test_rules_show_what_they_would_do_and_are_saved_after_the_difference_was_shown(
    home: Home, config: Path, chromium: Browser
) -> None:
    before = config.read_text("utf-8")
    with gateway(home) as served, served.opened(chromium) as opened:
        page = ask(opened, "open an issue")
        edit(page, "Tool rules", "# ours\n- pattern: open_issue\n  enabld: false\n")
        page.get_by_role("button", name="Tool rules, line 3, column 3").click()
        expect(page.get_by_role("textbox", name="Tool rules")).to_be_focused()
        expect(page.get_by_text("did you mean 'enabled'?")).to_be_visible()
        expect(page.get_by_role("button", name="Save …")).to_have_count(0)
        edit(page, "Tool rules", "# ours\n- pattern: open_issue\n  enabled: false\n")
        expect(page.get_by_text("1 tool appears; 1 tool vanishes")).to_be_visible()
        expect(page.get_by_text("▼ 1 → not found")).to_be_visible()
        row = page.get_by_role("row").filter(has_text="hub:delete_issue")
        expect(row).to_contain_text("▲")
        assert config.read_text("utf-8") == before
        opened.go("servers")
        opened.go("search?q=open+an+issue")
        expect(page.get_by_role("textbox", name="Tool rules")).to_have_value(
            "# ours\n- pattern: open_issue\n  enabled: false\n"
        )
        page.get_by_role("button", name="Save …").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("-# nothing that deletes")
        expect(dialog).to_contain_text("+- pattern: open_issue")
        expect(dialog).not_to_contain_text("servers:")
        dialog.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Saved. The file before is")).to_be_visible()
        expect(page.locator(".hits")).not_to_contain_text("hub:open_issue")

    after = config.read_text("utf-8")
    old = '  # nothing that deletes\n  - pattern: "*delete*"\n    enabled: false\n'
    assert after == before.replace(old, "  # ours\n  - pattern: open_issue\n    enabled: false\n")
    assert config.with_name("discovery.yaml.bak").read_text("utf-8") == before


@pytest.mark.requirement("PAGE-21")
def test_queries_are_saved_with_the_right_tool_and_a_change_shows_how_they_move(
    home: Home, config: Path, chromium: Browser
) -> None:
    with gateway(home) as served, served.opened(chromium) as opened:
        page = ask(opened, "open an issue")
        page.get_by_text("Save this query").click()
        page.get_by_role("checkbox", name="hub:open_issue").check()
        page.get_by_role("button", name="Save the query").click()
        expect(page.get_by_text("1 of 1 query served.")).to_be_visible()
        case = page.locator(".case")
        edit(page, "Tool rules", "- pattern: open_issue\n  enabled: false\n")
        expect(case).to_contain_text("gone")
        edit(page, "Tool rules", "- pattern: list_*\n  enabled: false\n")
        expect(page.get_by_text("1 → 1 of 1 query served; none moves")).to_be_visible()
        page.get_by_role("button", name="Undo all changes").click()
        case.get_by_role("button", name="Remove …").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove it").click()
        expect(page.get_by_text("None yet.")).to_be_visible()

    assert config.with_name("discovery-queries.yaml").exists()


@pytest.mark.requirement("PAGE-21", "PAGE-30")
def test_rules_of_a_shared_registry_are_saved_there_and_hold_on_another_gateway(
    tmp_path: Path,
    chromium: Browser,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REGISTRY", postgres_server.create_database())
    homes = [Home(tmp_path / name) for name in ("one", "other")]
    texts = [_shared(home) for home in homes]
    with (
        gateway(homes[0]) as one,
        gateway(homes[1]) as other,
        one.opened(chromium) as here,
        other.opened(chromium) as there,
    ):
        page = ask(here, "open an issue")
        edit(page, "Tool rules", "- pattern: open_issue\n  enabled: false\n")
        page.get_by_role("button", name="Save …").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("kept in the registry, and used at once by all")
        expect(dialog).not_to_contain_text(str(homes[0].config))
        dialog.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_text("Saved for all gateways of this configuration.")).to_be_visible()
        here.go("tools")
        page.get_by_role("switch", name="hub:list_issues for agents").press("Enter")
        expect(page.get_by_role("dialog")).to_contain_text("the registry, for all")
        page.get_by_role("button", name="Disable", exact=True).click()
        there.go("tools")
        for tool in ("hub:open_issue", "hub:list_issues"):
            switch = there.page.get_by_role("switch", name=f"{tool} for agents")
            expect(switch).not_to_be_checked()
        there.go("tools/hub/open_issue")
        expect(there.page.get_by_role("dialog")).to_contain_text("registry:")
        there.go("search?q=open+an+issue")
        rules = there.page.get_by_role("textbox", name="Tool rules")
        expect(rules).to_have_value(re.compile("hub:list_issues(.|\\n)*open_issue"))
        there.go("logs")
        expect(there.page.get_by_text("Calls of this machine alone")).to_be_visible()
    assert [home.config.read_text("utf-8") for home in homes] == texts


def _shared(home: Home) -> str:
    home.folder.mkdir()
    config = write_config(home)
    text = f"name: shared\nregistry: {{url: '${{REGISTRY}}'}}\n{config.read_text('utf-8')}"
    config.write_text(text, "utf-8")
    return text
