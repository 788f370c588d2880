"""A new user adds, mends and removes servers, and reads why: specs/page.md."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import Opened, gateway
from tests.page.lab import ask, edit
from tests.page.test_page import THEMES, settled, violations
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


def field(form: Locator, page: Page, name: str) -> Locator:
    return form.locator(".field", has=page.get_by_role("textbox", name=name, exact=True))


@pytest.mark.requirement("PAGE-42")
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


@pytest.mark.requirement("PAGE-42")
def test_a_server_of_another_client_says_where_it_is_removed(home: Home, chromium: Browser) -> None:
    theirs = home.folder / "theirs.json"
    theirs.write_text(json.dumps({"mcpServers": {"mail": fault_entry()}}), "utf-8")
    home.write({}, sources=[{"type": "custom", "path": str(theirs)}])
    with gateway(home) as served, served.opened(chromium) as opened:
        opened.go("servers/mail/configuration")
        dialog = opened.page.get_by_role("dialog", name="mail", exact=True)
        dialog.get_by_role("button", name="Remove it").click()
        alert = dialog.get_by_role("alert")
        expect(alert).to_contain_text("comes from this file")
        expect(alert).to_contain_text("remove it there")
        opened.faults[:] = [one for one in opened.faults if "status of 4" not in one]
    assert "mail" in theirs.read_text("utf-8")


@pytest.mark.requirement("PAGE-41", "CFG-50")
def test_a_change_on_the_page_keeps_the_comments_within_the_entry(
    home: Home, chromium: Browser
) -> None:
    before = write_commented(home)
    with gateway(home) as served, served.opened(chromium) as opened:
        opened.go("servers/good/configuration")
        dialog = opened.page.get_by_role("dialog", name="good", exact=True)
        dialog.get_by_role("button", name="Change it").click()
        form = dialog.locator("form").first
        fill(form, {"Environment": ""})
        form.get_by_role("button", name=SHOW).click()
        expect(dialog.get_by_text("this comment of the file goes")).to_contain_text("# louder")
        expect(dialog.locator(".diff")).to_contain_text("servers: good:")
        fill(form, {"Environment": "LEVEL=warning"})
        dialog.get_by_role("button", name="Show the plan with these values").click()
        expect(dialog.get_by_text("this comment of the file goes")).to_have_count(0)
        dialog.get_by_role("button", name="Save", exact=True).click()
        expect(dialog.locator(".standing")).to_contain_text("ready")

    assert home.config.read_text("utf-8") == before.replace("LEVEL: info", "LEVEL: warning")


@pytest.mark.requirement("PAGE-43", "PAGE-44", "API-63")
@THEMES
def test_a_program_that_is_not_there_is_said_before_and_after_and_mended_from_the_overview(
    home: Home, chromium: Browser, theme: str
) -> None:
    home.write({})
    with gateway(home) as served, served.opened(chromium, color_scheme=theme) as opened:
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


@pytest.mark.requirement("PAGE-44")
def test_an_entry_that_cannot_be_read_is_one_item_and_is_written_anew(
    home: Home, chromium: Browser
) -> None:
    home.write({"odd": {"commnd": "x"}})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        attention = page.locator("ul.attention > li")
        expect(attention).to_have_count(1)
        expect(attention).to_contain_text("unknown key 'commnd'")
        page.get_by_role("link", name="Change its entry").click()
        dialog = page.get_by_role("dialog", name="odd", exact=True)
        expect(dialog.get_by_text("takes the place of the whole entry")).to_be_visible()
        entry = fault_entry()
        fill(dialog, {"Program": str(entry["command"])})
        fill(dialog, {"Arguments": "\n".join(map(str, entry["args"]))})
        dialog.get_by_role("button", name=SHOW).click()
        dialog.get_by_role("button", name="Save", exact=True).click()
        expect(dialog.locator(".standing")).to_contain_text("ready")
    assert yaml.safe_load(home.config.read_text("utf-8"))["servers"]["odd"] == fault_entry()


@pytest.mark.requirement("PAGE-45")
def test_mistakes_are_in_words_of_the_form_at_their_fields(home: Home, chromium: Browser) -> None:
    home.write({})
    with gateway(home) as served, served.opened(chromium) as opened:
        page, form = opened.page, adding(opened)
        fill(form, {"Name": "new", "Program": "npx -y mail"})
        form.get_by_role("button", name=SHOW).click()
        program = field(form, page, "Program")
        expect(program).to_contain_text("put the arguments under “Arguments”")
        fill(form, {"Program": "", "Other settings": '{"command": ["npx"]}'})
        others = field(form, page, "Other settings")
        expect(others).to_contain_text("command belongs into the field “Program”")
        fill(form, {"Other settings": '{"cwd": 5, "url": "https://a.example"}'})
        expect(others).to_contain_text("cwd must be text")
        fill(form, {"Other settings": '{"timeouts": {"call": -1}}', "Program": "x"})
        form.get_by_role("button", name="Ask again").click()
        expect(others).to_contain_text("timeouts.call must be greater than 0")
        fill(form, {"Other settings": '{"mcpServers": {}}'})
        expect(others).to_contain_text("paste it into the field for it")
        assert "entry." not in form.inner_text()
        assert violations(page) == []
        opened.faults[:] = [one for one in opened.faults if "status of 4" not in one]


@pytest.mark.requirement("PAGE-45", "API-64")
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


@pytest.mark.requirement("PAGE-46")
def test_while_the_gateway_is_away_lists_stay_and_it_is_said_once(
    home: Home, chromium: Browser
) -> None:
    home.write({"good": fault_entry()})
    context = chromium.new_context()
    page = context.new_page()
    with gateway(home) as served:
        page.goto(f"{served.origin}/?code={served.code}")
        page.get_by_text("Connected").wait_for()
        page.goto(f"{served.origin}/#/tools")
        expect(page.get_by_text("3 of 3 tools")).to_be_visible()
        page.goto(f"{served.origin}/#/search")
        settled(page)
        served.process.send_signal(signal.SIGKILL)
        served.process.wait()
        away = page.get_by_text("The gateway cannot be reached")
        expect(away).to_have_count(1)
        expect(page.get_by_role("alert")).to_have_count(0)
        page.goto(f"{served.origin}/#/search?q=echo")
        expect(page.get_by_label("Request")).to_have_value("echo")
        expect(page.get_by_role("alert")).to_have_count(0)
        page.goto(f"{served.origin}/#/tools")
        expect(page.get_by_text("3 of 3 tools")).to_be_visible()
        expect(page.get_by_role("link", name="good:echo")).to_be_visible()
        expect(away).to_have_count(1)
        assert violations(page) == []
    context.close()


@pytest.mark.requirement("PAGE-47")
def test_a_change_that_is_saved_has_the_keys_above_its_lines(
    home: Home, config: Path, chromium: Browser
) -> None:
    with gateway(home) as served, served.opened(chromium) as opened:
        page = ask(opened, "open an issue")
        edit(page, "Tool rules", '- pattern: "*delete*"\n  enabled: false\n- tags: [x]\n')
        page.get_by_role("button", name="Save …").click()
        diff = page.get_by_role("dialog").locator(".diff")
        expect(diff.locator(".place").last).to_contain_text("toolRules:")
        expect(diff).not_to_contain_text("@@")


@pytest.mark.requirement("PAGE-47")
def test_a_hit_names_the_request_that_it_was_found_by_once(home: Home, chromium: Browser) -> None:
    request = "repeat what the parrot says"
    overrides = [{"pattern": "good:echo", "examples": [request, "say it"]}]
    home.write({"good": fault_entry()}, overrides=overrides)
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("tools")
        expect(page.get_by_text("3 of 3 tools")).to_be_visible()
        opened.go("search?q=repeat+the+parrot")
        why = page.locator(".hits li").first
        expect(why).to_contain_text(f"the nearest is “{request}”")
        shares = why.locator(".shares tr", has_text="an example of a request for it")
        expect(shares).to_have_count(1)
        expect(shares).to_contain_text("'parrot'")
        expect(shares).to_contain_text("'repeat'")


BROKEN_WORDS = """() => [...document.querySelectorAll('thead th, .word, .tags, .tag')]
.filter((cell) => {
  const range = document.createRange();
  for (const text of [...cell.childNodes].filter((one) => one.nodeType === 3)) {
    for (const found of text.data.matchAll(/[\\w-]{1,12}/g)) {
      range.setStart(text, found.index);
      range.setEnd(text, found.index + found[0].length);
      const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
      if (lines.size > 1 && !found[0].includes('-')) return true;
    }
  }
  return false;
}).map((cell) => cell.textContent)"""


@pytest.mark.requirement("PAGE-48")
@pytest.mark.parametrize("width", [360, 900, 1280])
def test_short_words_of_a_column_are_whole(home: Home, chromium: Browser, width: int) -> None:
    long = "a-server-with-a-name-that-takes-much-room"
    rule = {"pattern": "*", "tags": ["office", "read-only"], "enabled": True}
    program = fault_entry()
    start = ['echo "$0" >&2; exec "$@"', 40 * "a long line ", program["command"]]
    loud = {"command": "/bin/sh", "args": ["-c", *start, *program["args"]]}
    home.write({long: loud, "good": fault_entry()}, toolRules=[rule])
    size = {"width": width, "height": 900}
    with gateway(home) as served, served.opened(chromium, viewport=size) as opened:
        page = opened.page
        command = [sys.executable, "-m", "discovery_cli", "execute", f"{long}:echo", "text=x"]
        subprocess.run(command, env=home.environ, check=True, capture_output=True)
        for area in ("tools", "logs", "servers", "metrics"):
            opened.go(area)
            expect(page.get_by_role("link", name=long).first).to_be_attached()
            settled(page)
            assert page.evaluate(BROKEN_WORDS) == [], area
            assert page.evaluate("document.documentElement.scrollWidth") <= width, area


@pytest.mark.requirement("PAGE-49")
def test_empty_areas_and_commands_say_what_is_so(home: Home, chromium: Browser) -> None:
    home.write({"good": fault_entry()})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        calls = page.get_by_role("region", name="Last calls")
        expect(calls).to_contain_text("Try a tool")
        expect(calls).not_to_contain_text("earlier ones")
        opened.go("tools/good/echo")
        page.get_by_label("text").fill("x")
        page.get_by_role("button", name="Call", exact=True).click()
        expect(page.locator(".outcome")).to_contain_text("The tool answered")
        page.get_by_text("The same call as a command").click()
        command = page.locator(".commands .command code").first
        expect(command).to_contain_text(f"discovery --config {home.config} execute good:echo")
        opened.go("metrics")
        expect(page.get_by_text("There is no chart of cache hits")).to_be_visible()
        page.reload()
        opened.go("")
        expect(calls).to_contain_text("good:echo")
