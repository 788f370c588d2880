"""What a new user meets first, and how the page mends it: specs/page.md."""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.serving import Home, fault_entry
from tests.oauth import oauth_world
from tests.page.conftest import gateway
from tests.page.test_page import violations


class FoundHome(Home):
    """A configuration that is found in the folder, not named: its owner has to approve it."""

    @property
    def environ(self) -> dict[str, str]:
        own = {"DISCOVERY_DATA_DIR": str(self.folder / "data"), "HOME": str(self.folder)}
        return {**os.environ, **own}


@pytest.mark.requirement("PAGE-3")
def test_servers_that_wait_are_shown_in_full_and_approved_on_the_page(
    home: Home, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISCOVERY_CONFIG", raising=False)
    found = FoundHome(home.folder)
    found.write({"good": fault_entry(env={"COLOUR": "<b>blue</b>"}), "other": fault_entry()})
    with gateway(found) as served, served.opened(chromium) as opened:
        page = opened.page
        waiting = page.get_by_role("region", name="Waits for your approval")
        expect(waiting.locator("li")).to_have_count(2)
        expect(waiting).to_contain_text("fault_server.py")
        expect(waiting).to_contain_text("COLOUR=")
        assert violations(page) == []
        waiting.get_by_role("button", name="Approve good").click()
        expect(waiting.locator("ul.entries > li")).to_have_count(1)
        waiting.get_by_role("button", name="Approve other").click()
        expect(waiting).not_to_be_visible()
        opened.go("servers")
        expect(page.get_by_role("row", name="good")).to_contain_text("ready")


@pytest.mark.requirement("PAGE-3", "AUT-1")
def test_a_server_that_wants_a_login_is_logged_in_to_on_the_overview_after_one_was_cancelled(
    home: Home, chromium: Browser
) -> None:
    with oauth_world() as world:
        home.write({"files": {"url": world.resource}})
        with gateway(home) as served, served.opened(chromium) as opened:
            attention = opened.page.locator(".attention")
            attention.get_by_role("button", name="Log in").click()
            cancel = attention.get_by_role("button", name="Cancel")
            cancel.click()
            expect(cancel).to_have_count(0)
            assert opened.faults.pop().endswith("409 (Conflict)")
            attention.get_by_role("button", name="Log in").click()
            address = attention.locator(".command code").inner_text()
            assert address.startswith(world.issuer)
            world.visit(address)
            expect(attention.get_by_role("link", name="files")).to_have_count(0)
            opened.go("servers/files")
            expect(opened.page.locator("dialog .lead")).to_contain_text("ready")
