"""A new user adds, mends and removes servers, and reads why: specs/page.md."""

from __future__ import annotations

import json

import pytest
import yaml
from playwright.sync_api import Browser, Locator, expect

from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import Opened, gateway
from tests.page.test_server_entries import SHOW, whole


def adding(opened: Opened) -> Locator:
    opened.go("servers")
    opened.page.get_by_text("Add a server").click()
    return opened.page.locator(".adding")


@pytest.mark.requirement("PAGE-41")
def test_a_pasted_block_of_another_client_fills_the_form(home: Home, chromium: Browser) -> None:
    home.write({})
    entry = fault_entry()
    block = {"mcpServers": {"one": {"type": "stdio", **entry}, "two": entry, "three": {}}}
    with gateway(home) as served, served.opened(chromium) as opened:
        form = adding(opened)
        form.get_by_text("Paste a block of another client").click()
        area = form.get_by_role("textbox", name="The block of")
        read = form.locator(".paste form").get_by_role("button", name="Fill in the form with it")
        area.fill("npx mail")
        read.click()
        expect(form.get_by_role("alert")).to_contain_text('a whole block is {"mcpServers"')
        area.fill(json.dumps(block))
        read.click()
        found = form.locator(".paste li")
        expect(found).to_have_count(3)
        expect(found.nth(2)).to_contain_text("It cannot be used: it has no command")
        whole(opened)
        for number, name in enumerate(("one", "two")):
            found.nth(number).get_by_role("button", name="Fill in the form with it").click()
            expect(form.get_by_role("textbox", name="Name")).to_have_value(name)
            form.get_by_role("button", name=SHOW).click()
            form.get_by_role("button", name="Add", exact=True).click()
            expect(form.locator(".standing")).to_contain_text("ready")
        expect(found.nth(0)).to_contain_text("a server of this name is configured")
        opened.faults[:] = [one for one in opened.faults if "status of 4" not in one]
    servers = yaml.safe_load(home.config.read_text("utf-8"))["servers"]
    assert servers == {"one": entry, "two": entry}
