"""The servers on the page, and one of them in full, in a real browser: specs/page.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import Opened, gateway
from tests.page.test_page import violations
from tests.page.test_trying import program

PARTS = ["tools", "resources", "prompts", "review", "configuration"]
PARTS += ["secrets", "metrics", "stderr", "events", "export"]


def told(home: Home, **description: Any) -> Path:
    """A server whose only tool is as it is told."""
    file = home.folder / "told.json"
    tool = {"name": "look", "inputSchema": {"type": "object"}, **description}
    file.write_text(json.dumps({"instructions": "", "pages": [[tool]]}), "utf-8")
    return file


def write(home: Home) -> None:
    file = told(home, description="Looks at a file and returns it.")
    servers = {
        "told": program("told_server.py", str(file)),
        "good": fault_entry(tags=["<b>tag</b>"], env={"KEY": "${secret:good/KEY}"}),
        "missing": {"command": "no-such-program"},
    }
    home.write(servers)


@contextmanager
def opened_page(home: Home, chromium: Browser, **context: Any) -> Iterator[Opened]:
    write(home)
    (home.folder / "data").mkdir(exist_ok=True)
    with gateway(home) as served, served.opened(chromium, **context) as opened:
        yield opened


@pytest.mark.requirement("PAGE-29")
def test_servers_are_filtered_and_sorted_and_that_is_part_of_the_address(
    home: Home, chromium: Browser
) -> None:
    with opened_page(home, chromium) as opened:
        page = opened.page
        opened.go("servers")
        rows = page.locator(".servers tbody tr")
        expect(rows).to_have_count(3)
        page.get_by_role("button", name="State").press("Enter")
        expect(rows.first).to_contain_text("missing")
        assert page.url.endswith("#/servers?sort=state")
        expect(rows.first).to_contain_text(re.compile(r"\d (s|min) ago"))
        page.keyboard.press("/")
        page.keyboard.type("<b>tag")
        expect(rows).to_have_count(1)
        expect(rows.first).to_contain_text("<b>tag</b>")
        page.reload()
        expect(rows).to_have_count(1)
        page.get_by_role("link", name="good").press("Enter")
        expect(page.get_by_role("dialog", name="good")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("link", name="good")).to_be_focused()


@pytest.mark.requirement("PAGE-29")
def test_a_changed_tool_is_reviewed_word_by_word_and_accepted_as_shown(
    home: Home, chromium: Browser
) -> None:
    with opened_page(home, chromium) as opened:
        page = opened.page
        opened.go("servers/told")
        dialog = page.get_by_role("dialog", name="told", exact=True)
        expect(dialog.locator(".facts dd").first).to_have_text("1")
        told(home, description="Looks at every file and returns <b>it</b>.")
        dialog.get_by_role("button", name="List its tools again").click()
        dialog.get_by_role("link", name="1 wait for review").click()
        expect(dialog.locator("del").first).to_have_text("a")
        expect(dialog.locator("ins").first).to_have_text("every")
        expect(dialog).to_contain_text("<b>it</b>")
        assert violations(page) == []
        dialog.get_by_role("button", name="Accept all").press("Enter")
        page.get_by_role("button", name="Accept it").press("Enter")
        expect(dialog).to_contain_text("Nothing waits for review")


@pytest.mark.requirement("PAGE-29")
def test_a_server_is_tried_for_a_while_after_it_was_shown_and_ends(
    home: Home, chromium: Browser
) -> None:
    with opened_page(home, chromium) as opened:
        page = opened.page
        opened.go("servers")
        page.get_by_text("Try a server for a while").click()
        page.get_by_label("Its entry").fill(json.dumps(fault_entry()))
        page.get_by_role("button", name="Show what would run").click()
        expect(page.locator(".transient pre")).to_contain_text("fault_server.py ok")
        assert violations(page) == []
        page.get_by_role("button", name="Start it").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        dialog.get_by_role("link", name="Tools").click()
        dialog.get_by_role("link", name="echo").click()
        form = page.get_by_role("region", name="Try it")
        form.get_by_label("text").fill("for a while")
        form.get_by_role("button", name="Call", exact=True).click()
        expect(form.locator(".outcome")).to_contain_text("for a while")
        opened.go("servers")
        page.get_by_role("button", name="End it").click()
        expect(page.get_by_role("button", name="End it")).to_have_count(0)
