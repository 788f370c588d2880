"""The search lab in a real browser: why a tool is found, and what a change would do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Response, expect

from tests.e2e.serving import Home
from tests.factories import make_definition
from tests.page.conftest import gateway
from tests.page.lab import ask, edit, save
from tests.page.test_page import THEMES, settled, violations
from tests.told import Told


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
def test_a_file_that_was_changed_meanwhile_is_not_written_and_planned_anew(
    home: Home, config: Path, chromium: Browser
) -> None:
    with gateway(home) as served, served.opened(chromium) as opened:
        page = ask(opened, "open an issue")
        edit(page, "Overrides", "- pattern: open_issue\n  tags: [mine]\n")
        page.get_by_role("button", name="Save …").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("+- pattern: open_issue")
        meanwhile = config.read_text("utf-8") + "# meanwhile\n"
        config.write_text(meanwhile, "utf-8")
        # The page may just read the rules, since the gateway noticed the change.
        with page.expect_response(_is_save) as answered:
            dialog.get_by_role("button", name="Save", exact=True).click()
        assert answered.value.status == 409
        expect(page.get_by_text("PLAN_CHANGED")).to_be_visible()
        assert config.read_text("utf-8") == meanwhile
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("textbox", name="Overrides")).to_have_value(
            "- pattern: open_issue\n  tags: [mine]\n"
        )
        save(page)
        opened.faults[:] = [one for one in opened.faults if "409" not in one]

    assert "# meanwhile" in config.read_text("utf-8")
    assert "mine" in config.read_text("utf-8")


@pytest.mark.requirement("PAGE-22")
@pytest.mark.parametrize("button", ["Find it by this request", "Synonym"])
def test_the_right_tool_is_second_and_after_a_change_from_the_page_first(
    home: Home, config: Path, chromium: Browser, button: str
) -> None:
    with gateway(home) as served, served.opened(chromium) as opened:
        page = ask(opened, "open a complaint")
        hits = page.locator(".hits > li")
        expect(hits.nth(0)).to_contain_text("hub:open_issue")
        right = hits.filter(has_text="desk:open_dossier")
        right.get_by_text("Why, and what could be changed").click()
        expect(right).to_contain_text("It does not mention complaint")
        right.get_by_role("button", name=button).click()
        expect(page.get_by_role("row").filter(has_text="desk:open_dossier").first).to_contain_text(
            "1 ▲"
        )
        expect(right).to_contain_text("▲ 2 → 1")
        save(page)
        expect(hits.nth(0)).to_contain_text("desk:open_dossier")

    written = yaml.safe_load(config.read_text("utf-8"))
    if button == "Synonym":
        assert written["search"] == {"synonyms": [["complaint", "dossier"]]}
    else:
        [override] = written["overrides"]
        assert override["examples"] == ["open a complaint"]
    assert config.read_text("utf-8").startswith("# What agents may use.\n")


@pytest.mark.requirement("PAGE-23")
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


@pytest.mark.requirement("PAGE-2", "PAGE-21")
@THEMES
def test_the_lab_is_accessible_and_whole_at_any_width_while_a_change_is_planned(
    home: Home, config: Path, chromium: Browser, theme: str
) -> None:
    narrow = {"width": 360, "height": 700}
    with (
        gateway(home) as served,
        served.opened(chromium, color_scheme=theme, viewport=narrow) as opened,
    ):
        page = ask(opened, "delete an issue")
        edit(page, "Synonyms", "- [delete, list]\n")
        expect(page.get_by_text("confidence").first).to_be_visible()
        settled(page)
        for width in (360, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            assert violations(page) == [], width
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        edit(page, "Synonyms", "- [delete\n")
        expect(page.get_by_text("close the bracket")).to_be_visible()
        assert violations(page) == []
        page.get_by_text("Copy it as YAML").click()
        expect(page.get_by_text("search:\n  synonyms:\n    - [delete")).to_be_visible()


@pytest.mark.requirement("PAGE-24")
def test_markup_in_tools_rules_and_queries_is_text_in_the_lab(
    home: Home, config: Path, chromium: Browser
) -> None:
    evil = "<img src=x onerror=alert(1)>"
    Told(home.folder / "hub" / "told.json").says(
        make_definition("open_issue", f"{evil} opens an issue", title=evil)
    )
    with gateway(home) as served, served.opened(chromium) as opened:
        opened.go("search?q=open+an+issue")
        page = opened.page
        expect(page.locator(".hits")).to_contain_text("onerror")
        edit(page, "Overrides", f"- pattern: open_issue\n  name: '{evil}'\n  tags: [x]\n")
        expect(page.get_by_role("alert")).to_be_visible()
        edit(page, "Tool rules", f"- pattern: '{evil}'\n  enabled: false\n")
        assert page.locator("main img").count() == 0


@pytest.mark.requirement("PAGE-13")
def test_the_settings_show_a_configuration_that_was_changed_after_it_was_read_again(
    home: Home, config: Path, chromium: Browser
) -> None:
    with gateway(home) as served, served.opened(chromium) as opened:
        opened.go("settings")
        page = opened.page
        page.get_by_role("button", name="Read it again").click()
        expect(page.get_by_text("Read.", exact=True)).to_be_visible()
        config.write_text(
            config.read_text("utf-8") + "overrides:\n  - {pattern: open_issue, tags: [novel]}\n"
        )
        page.get_by_text("What is in force; secrets are redacted").click()
        expect(page.locator("section", has_text="What is in force").locator("pre")).to_contain_text(
            "novel"
        )


@pytest.mark.requirement("PAGE-36")
@THEMES
def test_what_was_found_stands_before_what_is_down_and_bars_have_a_measure(
    home: Home, config: Path, chromium: Browser, theme: str
) -> None:
    servers = config.read_text("utf-8").replace(
        "servers: {", 'servers: {"gone": {"command": "no-such-program"}, '
    )
    config.write_text(servers, "utf-8")
    with gateway(home) as served, served.opened(chromium, color_scheme=theme) as opened:
        page = ask(opened, "open an issue")
        down = page.get_by_text("1 server is missing from this answer")
        expect(down).to_be_visible()
        why = page.locator(".outages").get_by_text("is not on the PATH")
        expect(why).to_be_hidden()
        found = page.locator(".hits").bounding_box()
        folded = down.bounding_box()
        assert found
        assert folded
        assert found["y"] < folded["y"]
        down.click()
        expect(why).to_be_visible()
        expect(page.locator(".legend")).to_contain_text("relative to the best hit")
        assert violations(page) == []


@pytest.mark.requirement("PAGE-36")
def test_a_change_of_synonyms_is_planned_in_words_and_an_empty_section_has_an_example(
    home: Home, config: Path, chromium: Browser
) -> None:
    with gateway(home) as served, served.opened(chromium) as opened:
        page = ask(opened, "open an issue")
        for section in ("Server rules", "Overrides", "Synonyms"):
            tabs = page.get_by_role("group", name="What to change")
            tabs.get_by_role("button", name=section).click()
            field = page.get_by_role("textbox", name=section)
            expect(field).to_have_value("")
            assert field.get_attribute("placeholder")
        expect(field).to_have_attribute("placeholder", "- [refund, money back]")
        edit(page, "Synonyms", "- [refund, money back]\n")
        effect = page.locator(".effect")
        expect(effect).to_contain_text("[refund, money back] mean the same")
        expect(effect).not_to_contain_text("settings")
        save(page)
        edit(page, "Synonyms", "")
        expect(effect).to_contain_text("[refund, money back] no longer mean the same")


def _is_save(response: Response) -> bool:
    return response.url.endswith("/api/rules") and response.request.method != "GET"
