"""Servers that are added and changed on the page: specs/page.md."""

from __future__ import annotations

import pytest
import yaml
from playwright.sync_api import Browser, Locator, expect

from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import Opened, gateway
from tests.page.test_page import violations

SECRET = "sk-live-abcdefghijklmnop1234567890"
SHOW = "Show what would be written"


def whole(opened: Opened) -> None:
    for width in (360, 1400):
        opened.page.set_viewport_size({"width": width, "height": 900})
        assert violations(opened.page) == [], width
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def fill(form: Locator, fields: dict[str, str]) -> None:
    for name, text in fields.items():
        form.get_by_role("textbox", name=name).fill(text)


@pytest.mark.requirement("PAGE-41", "PAGE-2")
def test_a_server_is_added_after_the_difference_was_shown_and_its_secret_is_a_reference(
    home: Home, chromium: Browser
) -> None:
    home.write({"good": fault_entry()})
    before = home.config.read_text("utf-8")
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("servers")
        page.get_by_text("Add a server").click()
        form = page.locator(".adding")
        fill(form, {"Name": "a b", "Program": "x", "Other settings": "{"})
        expect(form.get_by_text("It is not JSON")).to_be_visible()
        expect(form.get_by_role("button", name=SHOW)).to_be_disabled()
        fill(form, {"Other settings": '{"timeouts": {"call": -1}}'})
        form.get_by_role("button", name=SHOW).click()
        name = form.locator(".field", has=page.get_by_role("textbox", name="Name"))
        expect(name).to_contain_text("cannot be used for a server")
        fill(form, {"Name": "new"})
        form.get_by_role("button", name="Ask again").click()
        others = form.locator(".field", has=page.get_by_role("textbox", name="Other settings"))
        expect(others).to_contain_text("must be greater than 0")
        expect(others.get_by_role("textbox")).to_have_attribute("aria-invalid", "true")
        whole(opened)

        entry = fault_entry()
        arguments = "\n".join(map(str, entry["args"]))
        fill(form, {"Program": str(entry["command"]), "Arguments": arguments})
        fill(form, {"Environment": f"API_KEY={SECRET}\nCOLOUR=a=b", "Other settings": ""})
        form.get_by_role("button", name="Ask again").click()
        expect(form.locator(".diff")).to_contain_text('"API_KEY": "${secret:new/API_KEY}"')
        expect(form.locator(".diff")).not_to_contain_text(SECRET)
        assert home.config.read_text("utf-8") == before
        whole(opened)
        form.get_by_role("button", name="Add", exact=True).click()
        expect(form.get_by_text("Added as")).to_be_visible()
        expect(page.locator(".servers tbody tr", has_text="new")).to_contain_text("ready")
        opened.faults[:] = [one for one in opened.faults if "status of 4" not in one]

    written = home.config.read_text("utf-8")
    assert SECRET not in written
    environment = {"API_KEY": "${secret:new/API_KEY}", "COLOUR": "a=b"}
    assert yaml.safe_load(written)["servers"]["new"]["env"] == environment


@pytest.mark.requirement("PAGE-41")
def test_an_entry_is_changed_where_it_differs_and_a_hidden_value_is_not_written_over(
    home: Home, chromium: Browser
) -> None:
    odd = "a line\nand another"
    entry = fault_entry(env={"API_KEY": SECRET, "COLOUR": "red"}, description=odd, tags=["mine"])
    home.write({"good": entry})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("servers/good/configuration")
        dialog = page.get_by_role("dialog", name="good", exact=True)
        dialog.get_by_role("button", name="Change it").click()
        form = dialog.locator("form").first
        assert SECRET not in page.content()
        variables = form.get_by_role("textbox", name="Environment")
        shown = variables.input_value()
        expect(form.get_by_text("Nothing is changed yet.")).to_be_visible()
        expect(form.get_by_role("button", name=SHOW)).to_be_disabled()
        variables.fill(shown.replace("API_KEY", "OTHER"))
        expect(form.get_by_text("stands for a value that is not shown")).to_be_visible()
        expect(form.get_by_role("button", name=SHOW)).to_be_disabled()
        variables.fill(f"{shown}\nSHADE=blue")
        form.get_by_role("button", name=SHOW).click()
        expect(dialog.locator(".diff")).to_contain_text('"SHADE": "blue"')
        expect(dialog.locator(".diff")).not_to_contain_text(SECRET)
        whole(opened)
        dialog.get_by_role("button", name="Save", exact=True).click()
        expect(dialog.get_by_text("Saved. The file before")).to_be_visible()

    after = yaml.safe_load(home.config.read_text("utf-8"))["servers"]["good"]
    reference = "${secret:good/API_KEY}"
    assert after["env"] == {"API_KEY": reference, "COLOUR": "red", "SHADE": "blue"}
    assert (after["description"], after["tags"]) == (odd, ["mine"])
