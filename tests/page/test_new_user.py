"""A new user adds, mends and removes servers, and reads why: specs/page.md."""

from __future__ import annotations

import json

import pytest
import yaml
from playwright.sync_api import Browser, Locator, expect

from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import Opened, gateway
from tests.page.test_server_entries import SHOW, fill, whole

COMMENTED = """\
# ours
servers:
  good:
    # the one of the team
    command: {command}  # of this machine
    args: {args}
    env:
      LEVEL: info  # louder
  other:
    command: {command}
    args: {args}
"""


def write_commented(home: Home) -> str:
    entry = {key: json.dumps(value) for key, value in fault_entry().items()}
    text = COMMENTED.format(**entry)
    home.config.write_text(text, "utf-8")
    return text


def adding(opened: Opened) -> Locator:
    opened.go("servers")
    opened.page.get_by_text("Add a server").click()
    return opened.page.locator(".adding")


@pytest.mark.requirement("PAGE-41")
def test_a_server_is_removed_after_the_difference_was_shown(home: Home, chromium: Browser) -> None:
    before = write_commented(home)
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("servers/other/configuration")
        dialog = page.get_by_role("dialog", name="other", exact=True)
        dialog.get_by_role("button", name="Remove it").click()
        expect(dialog.locator(".diff .removed").first).to_contain_text("other:")
        assert home.config.read_text("utf-8") == before
        whole(opened)
        dialog.get_by_role("button", name="Remove", exact=True).click()
        expect(dialog.get_by_text("other is removed.")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(".servers tbody tr")).to_have_count(1)

    assert home.config.read_text("utf-8") == before[: before.index("  other:")]
    assert home.config.with_name("discovery.yaml.bak").read_text("utf-8") == before


@pytest.mark.requirement("PAGE-3")
def test_a_program_that_is_not_there_is_said_before_and_after_and_mended_from_the_overview(
    home: Home, chromium: Browser
) -> None:
    home.write({})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        form = adding(opened)
        fill(form, {"Name": "new", "Program": "no-such-program"})
        form.get_by_role("button", name=SHOW).click()
        expect(form.locator(".warnings")).to_contain_text("'no-such-program' is not on the PATH")
        expect(form.locator(".warnings")).to_contain_text("install it")
        form.get_by_role("button", name="Add", exact=True).click()
        standing = form.locator(".standing")
        expect(standing).to_contain_text("failing")
        expect(standing).to_contain_text("is not on the PATH")
        expect(standing.locator(".good")).to_have_count(0)
        whole(opened)

        opened.go("")
        page.get_by_role("link", name="Change its entry").click()
        dialog = page.get_by_role("dialog", name="new", exact=True)
        entry = fault_entry()
        fill(dialog, {"Program": str(entry["command"])})
        fill(dialog, {"Arguments": "\n".join(map(str, entry["args"]))})
        dialog.get_by_role("button", name=SHOW).click()
        dialog.get_by_role("button", name="Save", exact=True).click()
        expect(dialog.locator(".standing")).to_contain_text("ready")
        opened.go("")
        expect(page.get_by_text("Nothing. Every server answers")).to_be_visible()


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
