"""The page in a real browser: specs/page.md."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from discovery_engine.store.call_log.log_database import FILE as LOG_FILE
from discovery_server.surfaces import HOSTS, OTHER_HOSTS
from tests.e2e.serving import FAULT_SERVER, Home, fault_entry
from tests.page.conftest import Gateway, Opened, draw, gateway
from tests.servers.mcp_registry_server import listed, registry_server

THEMES = pytest.mark.parametrize("theme", ["light", "dark"])
AREAS = [
    "",
    "servers",
    "servers/good",
    "tools",
    "tools/good/echo",
    "search?q=echo+a+text",
    "connect",
    "logs",
    "metrics",
    "metrics?minutes=1440",
    "settings",
]
ASKING = """
import anyio
from discovery_engine.engine import open_engine

async def ask():
    async with open_engine("discovery.yaml") as engine:
        await engine.requests.submit("deactivate", "good", client="agent")

anyio.run(ask)
"""
WEATHER = "io.github.demo/weather"
SOLD = ["marketplace", "marketplace/io.github.demo%2Fweather?q=weather"]
RULES = [{"pattern": "pid", "enabled": False}]


def write(home: Home, **sections: Any) -> None:
    missing = {"command": "no-such-program"}
    home.write({"good": fault_entry(), "missing": missing}, toolRules=RULES, **sections)


@contextmanager
def marketplace(home: Home, *entries: Any) -> Iterator[None]:
    """A registry with a server that is at an address."""
    remote = {"type": "streamable-http", "url": "https://weather.example.com/mcp"}
    markup = "Weather <b>of</b> today"
    weather = listed(WEATHER, description=markup, packages=[], remotes=[remote])
    with registry_server(weather, *entries) as registry:
        source = {"type": "mcp-registry", "id": "here", "url": registry.url}
        write(home, marketplace={"sources": [source]})
        yield


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]


def settled(page: Page) -> None:
    """Wait until the page shows what was last asked for, and nothing of it is loading."""
    draw(page)
    page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")


@pytest.mark.landing
@pytest.mark.requirement("PAGE-1")
def test_the_printed_address_opens_the_page_once(home: Home, chromium: Browser) -> None:
    write(home)
    with gateway(home) as served:
        with served.opened(chromium) as opened:
            assert opened.page.url == f"{served.origin}/"
            cookie = opened.page.context.cookies()[0]
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
            assert opened.page.evaluate("document.cookie") == ""
        again = chromium.new_page()
        again.goto(f"{served.origin}/?code={served.code}")
        expect(again.get_by_label("Token")).to_be_visible()
        token = (home.folder / "data" / "http-token").read_text("ascii").strip()
        again.get_by_label("Token").fill("wrong")
        again.get_by_role("button", name="Open").click()
        expect(again.locator("#refused")).to_contain_text("No token of this gateway")
        again.get_by_label("Token").fill(token)
        again.get_by_role("button", name="Open").click()
        expect(again.get_by_text("Connected")).to_be_visible()
        again.context.close()


@pytest.mark.requirement("PAGE-6", "API-14")
def test_a_browser_stays_signed_in_after_a_restart_and_another_signs_in_by_a_link(
    home: Home, chromium: Browser
) -> None:
    write(home)
    with gateway(home) as served, served.opened(chromium) as opened:
        port = int(served.origin.rpartition(":")[2])
        served.process.send_signal(signal.SIGTERM)
        expect(opened.page.get_by_text("Connection lost")).to_be_visible()
        with gateway(home, port):
            expect(opened.page.get_by_text("Connected")).to_be_visible()
            opened.page.reload()
            expect(opened.page.get_by_text("Connected")).to_be_visible()
            command = [sys.executable, "-m", "discovery_cli", "token", "link"]
            link = subprocess.run(command, env=home.environ, check=True, stdout=-1, text=True)
            for text in ("Connected", "Token"):  # the link is valid once
                other = chromium.new_page()
                other.goto(link.stdout.strip())
                expect(other.get_by_text(text, exact=True)).to_be_visible()
                other.context.close()
        opened.faults.clear()  # the browser reports each try to reach the gateway as an error


@pytest.mark.requirement("PAGE-2")
@THEMES
def test_every_area_is_accessible_and_whole_in_both_themes(
    home: Home, chromium: Browser, theme: str
) -> None:
    with (
        marketplace(home),
        gateway(home) as served,
        served.opened(chromium, color_scheme=theme) as opened,
    ):
        for area in [*AREAS, *SOLD]:
            opened.go(area)
            settled(opened.page)
            assert violations(opened.page) == [], area


@pytest.mark.requirement("PAGE-2")
def test_nothing_is_cut_at_360_pixels(home: Home, chromium: Browser) -> None:
    narrow = {"width": 360, "height": 700}
    with (
        marketplace(home),
        gateway(home) as served,
        served.opened(chromium, viewport=narrow) as opened,
    ):
        for area in [*AREAS, *SOLD]:
            opened.go(area)
            settled(opened.page)
            assert opened.page.evaluate("document.documentElement.scrollWidth") <= 360, area


@pytest.mark.requirement("PAGE-3")
def test_the_overview_names_what_needs_attention_with_the_next_step(
    home: Home, chromium: Browser
) -> None:
    entries = {"missing": {"command": "no-such-program"}, "held": fault_entry(trust="quarantine")}
    died = {"command": "/bin/sh", "args": ["-c", "echo no module >&2; exit 1"]}
    hook = {"url": "https://hooks.example.com/x", "secret": "${NOBODY_SET}"}
    home.write({**entries, "died": died}, webhooks={"ops": hook})
    with gateway(home) as served, served.opened(chromium) as opened:
        attention = opened.page.get_by_role("region", name="Needs attention")
        unsent = attention.locator("li", has_text="Webhook ops")
        expect(unsent).to_contain_text("${NOBODY_SET} is not set")
        expect(unsent).to_contain_text("discovery webhooks retry ops")
        held = attention.locator("li", has_text="wait for your review")
        expect(held.get_by_role("link")).to_have_attribute("href", "#/servers/held/review")
        expect(opened.page.locator("#main").get_by_text("2 with problems")).to_be_visible()
        item = opened.page.locator("li", has=opened.page.get_by_role("link", name="missing"))
        expect(item).to_contain_text("is not on the PATH")
        expect(item).to_contain_text("Install it")
        expect(attention.locator("li", has_text="died")).to_contain_text("no module")
        item.get_by_role("link", name="missing").click()
        expect(opened.page.get_by_role("dialog", name="missing")).to_be_visible()
        opened.page.keyboard.press("Escape")
        expect(opened.page).to_have_url(f"{served.origin}/#/servers")


@pytest.mark.landing
@pytest.mark.requirement("PAGE-5")
def test_a_tool_is_tried_by_keyboard_alone_and_a_rule_says_why_another_is_off(
    home: Home, chromium: Browser
) -> None:
    write(home)
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("tools/good/echo")
        page.get_by_label("text").focus()
        page.keyboard.type("from the page")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_text("The tool answered:")).to_be_visible()
        expect(page.locator("dialog")).to_contain_text("from the page")
        opened.go("tools/good/pid")
        expect(page.locator("dialog")).to_contain_text("decides: disabled")
        page.get_by_role("button", name="Call", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("TOOL_DISABLED")
        # The browser reports the refused call as an error of its own.
        assert [fault for fault in opened.faults if "409" not in fault] == []
        opened.faults.clear()


def call(opened: Opened, tool: str, **arguments: Any) -> None:
    address = f"{opened.origin}/api/servers/good/tools/{tool}/call"
    opened.page.evaluate(
        """([address, body]) => fetch(address, {
            method: "POST", headers: {"content-type": "application/json"}, body })""",
        [address, json.dumps({"arguments": arguments})],
    )


@pytest.mark.requirement("PAGE-10", "PAGE-3", "HEA-30")
def test_calls_of_all_processes_appear_as_they_happen_and_open_in_full(
    home: Home, chromium: Browser
) -> None:
    program, database = fault_entry(), home.folder / "database"
    start = ['test -e "$0" || exit 3; exec "$@"', str(database), program["command"]]
    home.write({"good": {"command": "/bin/sh", "args": ["-c", *start, *program["args"]]}})
    database.touch()
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("logs")
        expect(page.get_by_text("Nothing was called yet")).to_be_visible()
        call(opened, "echo", text="<b>first</b>")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_role("button", name="Pause").click()
        call(opened, "echo", text="second")
        expect(page.get_by_text("Paused; 1 further call")).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_label("Text").fill("first")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_role("link", name="good:echo").press("Enter")
        expect(page.get_by_role("dialog", name="good:echo")).to_contain_text("<b>first</b>")
        page.reload()
        expect(page.get_by_role("dialog", name="good:echo")).to_contain_text("<b>first</b>")
        page.keyboard.press("Escape")
        expect(page).to_have_url(f"{served.origin}/#/logs?text=first")
        opened.go("")
        database.unlink()
        command = [sys.executable, "-m", "discovery_cli", "execute", "good:echo", "text=elsewhere"]
        failed = subprocess.run(command, env=home.environ, check=False, capture_output=True)
        assert failed.returncode
        calls = page.get_by_role("region", name="Last calls")
        # By whether the shell exits before the call is in its pipe.
        failure = re.compile("SERVER_CONNECTION_ERROR|TOOL_OUTCOME_UNKNOWN")
        expect(calls.get_by_text(failure)).to_be_visible()
        ill = page.get_by_role("region", name="Needs attention")
        expect(ill.locator("li", has=page.get_by_role("link", name="good"))).to_be_visible()


@pytest.mark.requirement("PAGE-10", "PAGE-3")
def test_a_call_that_an_agent_makes_elsewhere_is_seen_while_it_runs_and_while_it_asks(
    home: Home, chromium: Browser
) -> None:
    done = home.folder / "done"
    program = str(FAULT_SERVER.with_name("asking_server.py"))
    asks = {"command": sys.executable, "args": ["-I", "-S", program, "asks", "--era", "legacy"]}
    home.write({"slow": fault_entry("awaits_file"), "asks": asks})
    with home.process() as agent, gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        assert agent.stdin is not None
        for message in conversation(("slow", str(done)), ("asks", "")):
            agent.stdin.write(json.dumps(message).encode() + b"\n")
        agent.stdin.flush()
        runs = page.get_by_role("region", name="Running now")
        row = runs.locator("tr", has=page.get_by_role("link", name="slow:echo"))
        expect(row).to_contain_text("an agent")
        expect(row).to_contain_text(re.compile(r"\d s$"))
        attention = page.get_by_role("region", name="Needs attention")
        question = attention.locator("li", has=page.get_by_role("link", name="asks:echo"))
        expect(question).to_contain_text("Who are you?")
        expect(question).to_contain_text("Answer it in an agent.")
        assert violations(page) == []
        done.touch()
        last = page.get_by_role("region", name="Last calls")
        expect(last.get_by_role("link", name="slow:echo")).to_be_visible()
        expect(row).to_have_count(0)
        last.get_by_role("link", name="an agent").click()
        expect(page.get_by_label("Text")).to_have_value("an agent")
        expect(page.locator("main > div tbody tr")).to_have_count(1)
        expect(runs.get_by_role("link")).to_have_text(["asks:echo", "an agent"])
        agent.stdin.close()
        expect(runs).to_have_count(0)


def conversation(*calls: tuple[str, str]) -> Iterator[dict[str, Any]]:
    """What a client sends that answers no question, for calls of `echo`."""
    started: dict[str, Any] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "an agent", "version": "1"},
    }
    yield {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": started}
    yield {"jsonrpc": "2.0", "method": "notifications/initialized"}
    for number, (server, text) in enumerate(calls, 1):
        arguments = {"tool": f"{server}:echo", "arguments": {"text": text}}
        params = {
            "name": "execute_tool",
            "arguments": arguments,
            "_meta": {"progressToken": number},
        }
        yield {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.requirement("PAGE-2")
def test_the_overview_uses_the_width_of_a_very_wide_screen(home: Home, chromium: Browser) -> None:
    write(home)
    size = {"width": 3840, "height": 1400}
    with gateway(home) as served, served.opened(chromium, viewport=size) as opened:
        page = opened.page
        attention = page.get_by_role("region", name="Needs attention")
        expect(attention.get_by_role("link", name="missing")).to_be_visible()
        hour = page.get_by_role("region", name="The last hour")
        first, second = (
            region.evaluate("(one) => [one.getBoundingClientRect().right, one.offsetTop]")
            for region in (attention, hour)
        )

        assert first[1] == second[1]
        assert second[0] > 3700


@pytest.mark.requirement("PAGE-10")
def test_the_filters_of_the_log_follow_the_address(home: Home, chromium: Browser) -> None:
    write(home)
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        pressed = page.locator(".chips [aria-pressed=true], .tabs [aria-pressed=true]")
        opened.go("logs?status=error&server=good")
        expect(pressed).to_have_text(["Failed", "good", "Calls"])
        opened.go("logs?kind=stderr")
        expect(pressed).to_have_text(["Any outcome", "Every server", "Output of servers"])
        page.go_back()
        expect(pressed).to_have_text(["Failed", "good", "Calls"])
        page.get_by_role("button", name="Every server").press("Enter")
        expect(page).to_have_url(f"{served.origin}/#/logs?status=error")
        assert violations(page) == []


@pytest.mark.requirement("PAGE-10")
def test_a_call_of_the_log_has_its_story_is_exported_and_called_again(
    home: Home, chromium: Browser
) -> None:
    program = fault_entry()
    start = ["-c", 'printf "line %s\\n" 1 2 3 >&2; exec "$@"', "sh", program["command"]]
    home.write({"good": {"command": "/bin/sh", "args": [*start, *program["args"]]}})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        call(opened, "echo", text="once")
        opened.go("logs?kind=stderr")
        page.get_by_text("3 lines:").click()
        expect(page.locator("tbody tr").get_by_text("line 1\nline 2\nline 3")).to_be_visible()
        page.get_by_role("button", name="Calls").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        [line] = download.value.path().read_text("utf-8").splitlines()
        assert json.loads(line)["arguments"] == {"text": "once"}
        page.get_by_role("link", name="good:echo").press("Enter")
        story = page.get_by_role("table", name="What happened")
        expect(story.locator("tr").first).to_contain_text("Requested by")
        expect(story.locator("tr").last).to_contain_text("ok")
        assert violations(page) == []
        page.get_by_role("link", name="Call it again …").press("Enter")
        expect(page.get_by_label("text")).to_have_value("once")
        page.get_by_role("button", name="Call", exact=True).press("Enter")
        expect(page.get_by_text("The tool answered:")).to_be_visible()


@pytest.mark.requirement("PAGE-10")
def test_an_export_has_the_newest_ten_thousand_entries_and_says_so(
    home: Home, chromium: Browser
) -> None:
    home.write({"good": fault_entry()})
    command = [sys.executable, "-m", "discovery_cli", "execute", "good:echo", "text=one"]
    subprocess.run(command, env=home.environ, check=True, stdout=-1)
    with sqlite3.connect(home.folder / "data" / LOG_FILE) as log:
        names = [name for _, name, *_ in log.execute("PRAGMA table_info(entries)") if name != "id"]
        columns = ", ".join(names)
        copies = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10049)"
        log.execute(f"{copies} INSERT INTO entries ({columns}) SELECT {columns} FROM entries, n")
    with gateway(home) as served, served.opened(chromium) as opened:
        opened.go("logs")
        with opened.page.expect_download() as download:
            opened.page.get_by_role("button", name="Export").click()
        lines = download.value.path().read_text("utf-8").splitlines()
        assert [json.loads(line)["id"] for line in lines] == list(range(51, 10_051))
        said = "Only the newest 10,000 entries were saved"
        expect(opened.page.get_by_text(said)).to_be_visible()


@pytest.mark.requirement("PAGE-10")
def test_the_story_of_a_call_says_that_another_one_ran_at_the_same_time(
    home: Home, chromium: Browser
) -> None:
    file = home.folder / "file"
    home.write({"good": fault_entry("awaits_file")})
    with gateway(home) as served, served.opened(chromium) as opened:
        address = f"{opened.origin}/api/servers/good/tools/echo/call"
        arguments = {"text": str(file)}
        bodies = [json.dumps({"arguments": arguments, "call_id": name}) for name in ("a", "b")]
        opened.page.evaluate(
            """([address, bodies]) => {
                const kind = { method: "POST", headers: { "content-type": "application/json" } };
                const made = bodies.map((body) => fetch(address, { ...kind, body }));
                window.both = Promise.all(made).then(() => true);
            }""",
            [address, bodies],
        )
        file.touch()
        opened.page.evaluate("window.both")
        opened.go("logs")
        opened.page.get_by_role("link", name="good:echo").last.press("Enter")
        story = opened.page.get_by_role("dialog")
        expect(story).to_contain_text("1 other call of good ran at the same time")


@pytest.mark.requirement("PAGE-11")
def test_metrics_count_calls_as_they_happen_and_reset_errors(home: Home, chromium: Browser) -> None:
    write(home)
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("metrics")
        expect(page.get_by_text("No call was counted yet")).to_be_visible()
        call(opened, "echo", text="first")
        call(opened, "pid")
        refused = page.locator("tr.group", has_text="unknown or disabled tools")
        expect(refused).to_contain_text("▲ 1")
        expect(page.get_by_role("img", name="good 1 call, 0 errors")).to_be_visible()
        sizes = page.get_by_role("listitem").filter(has_text=re.compile(r"\d tokens?, "))
        expect(sizes.filter(has_text="good:echo")).to_contain_text("1 call")
        assert violations(page) == []
        refused.get_by_role("button", name="Reset").click()
        page.get_by_role("button", name="Reset", exact=True).click()
        expect(refused).not_to_contain_text("▲")
        page.get_by_role("link", name="echo", exact=True).click()
        expect(page.locator("tbody tr")).to_have_count(1)
        opened.go("servers/good/metrics")
        expect(page.locator("tbody tr", has_text="echo").locator("td.when")).to_contain_text("ago")
        # The browser reports the refused call as an error of its own.
        assert [fault for fault in opened.faults if "409" not in fault] == []
        opened.faults.clear()


@pytest.mark.requirement("PAGE-14")
def test_a_client_is_connected_as_shown_and_its_file_is_restored_to_the_byte(
    home: Home, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home.folder))
    file = home.folder / ".cursor" / "mcp.json"
    file.parent.mkdir()
    text = '{"mcpServers": {"own": {"command": "own-server"}}}'
    file.write_text(text, "utf-8")
    home.write({})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        expect(page.get_by_text("Cursor has 1 server")).to_be_visible()
        assert violations(page) == []
        page.get_by_role("link", name="Connect a client").click()
        page.get_by_role("button", name="Connect Cursor …").press("Enter")
        dialog = page.get_by_role("dialog", name="Connect Cursor?")
        expect(dialog.locator(".diff")).to_contain_text('"discovery"')
        assert violations(page) == []
        assert file.read_text("utf-8") == text
        dialog.get_by_role("button", name="Connect").press("Enter")
        expect(page.get_by_text("● connected", exact=True)).to_be_visible()
        entry = json.loads(file.read_text("utf-8"))["mcpServers"]["discovery"]
        assert entry["args"][-1] == "serve"
        page.get_by_role("button", name="Disconnect Cursor …").press("Enter")
        expect(page.get_by_role("dialog").locator(".diff")).to_contain_text('"discovery"')
        page.get_by_role("button", name="Disconnect", exact=True).press("Enter")
        expect(page.get_by_text("○ not connected")).to_be_visible()
        assert file.read_text("utf-8") == text


@pytest.mark.requirement("PAGE-14")
def test_a_table_has_what_each_client_gets_and_sets_it_as_shown(
    home: Home, chromium: Browser
) -> None:
    home.config.write_text("# mine\nserver: {mode: meta} # for now\nservers: {}\n", "utf-8")
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("connect")
        table = page.get_by_role("region", name="Which tools each client gets")
        for host in (*HOSTS.values(), OTHER_HOSTS):
            row = table.get_by_role("row", name=host.title)
            expect(row).to_contain_text("the meta-tools")
            expect(row).to_contain_text("calls search_tools")
        assert violations(page) == []
        choice = page.get_by_label("A client gets")
        choice.select_option("auto")
        dialog = page.get_by_role("dialog", name="Give each client what suits it?")
        expect(dialog.locator(".diff .added")).to_have_text("+server: {mode: auto} # for now")
        assert "meta" in home.config.read_text("utf-8")
        assert violations(page) == []
        dialog.get_by_role("button", name="Cancel").press("Enter")
        expect(choice).to_have_value("meta")
        choice.select_option("auto")
        page.get_by_role("button", name="Save").click()
        codex = table.get_by_role("row", name="Codex")
        expect(codex).to_contain_text("all tools")
        expect(codex).to_contain_text(HOSTS["codex-mcp-client"].reason)
        expect(table.get_by_role("row", name="Any other")).to_contain_text("the meta-tools")
        expect(choice).to_have_value("auto")
        after = "# mine\nserver: {mode: auto} # for now\nservers: {}\n"
        assert home.config.read_text("utf-8") == after


@pytest.mark.requirement("PAGE-3")
def test_what_an_agent_asks_for_is_shown_where_there_is_no_server_yet(
    home: Home, chromium: Browser
) -> None:
    home.write({})
    asked = home.folder / "asked.py"
    entry = '"sync", "", {}'
    asked.write_text(ASKING.replace('"deactivate", "good"', entry), "utf-8")
    subprocess.run([sys.executable, str(asked)], env=home.environ, cwd=home.folder, check=True)
    with gateway(home) as served, served.opened(chromium) as opened:
        expect(opened.page.get_by_role("link", name="1 request of an agent waits")).to_be_visible()


@pytest.mark.requirement("PAGE-3", "PAGE-14", "API-22")
def test_a_first_visit_uses_the_servers_of_a_client_connects_it_and_sees_a_call(
    home: Home, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home.folder))
    file = home.folder / ".cursor" / "mcp.json"
    file.parent.mkdir()
    good = fault_entry(env={"TOKEN": "ghp_" + "a1B2c3D4e5" * 4, "REGION": "${env:REGION}"})
    file.write_text(json.dumps({"mcpServers": {"good": good, "bad": {}}}), "utf-8")
    home.write({})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        page.get_by_role("button", name="Use the servers of Cursor …").press("Enter")
        dialog = page.get_by_role("dialog", name="Use the servers of Cursor?")
        expect(dialog.locator(".diff")).to_contain_text("${secret:good/TOKEN}")
        expect(dialog).to_contain_text("bad: has neither a command to start nor a url")
        assert violations(page) == []
        dialog.get_by_role("button", name="Use them").press("Enter")
        page.get_by_label("REGION").fill("eu")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Every server answers")).to_be_visible()
        opened.go("connect")
        page.get_by_role("button", name="Connect Cursor …").press("Enter")
        page.get_by_role("button", name="Connect", exact=True).click()
        expect(page.get_by_text("● connected", exact=True)).to_be_visible()
        opened.go("")
        command = [sys.executable, "-m", "discovery_cli", "execute", "good:echo", "text=hello"]
        subprocess.run(command, env=home.environ, check=True, stdout=-1)
        calls = page.get_by_role("region", name="Last calls")
        calls.get_by_role("link", name="good:echo").click()
        switch = page.get_by_role("dialog").get_by_role("switch", name="good:echo for agents")
        switch.press("Enter")
        expect(page.locator(".diff")).to_contain_text("good:echo")
        page.get_by_role("button", name="Disable", exact=True).press("Enter")
        expect(switch).not_to_be_checked()
        assert violations(page) == []


@pytest.mark.requirement("PAGE-3")
def test_a_first_visit_tries_the_demo_and_removes_it(home: Home, chromium: Browser) -> None:
    home.write({})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        page.get_by_role("button", name="Use the servers of the demo …").press("Enter")
        dialog = page.get_by_role("dialog", name="Use the servers of the demo?")
        expect(dialog.locator(".diff")).to_have_count(3)
        assert violations(page) == []
        dialog.get_by_role("button", name="Use them").press("Enter")
        expect(page.get_by_text("30 enabled")).to_be_visible()
        opened.go("search?q=when are all guests free")
        expect(page.get_by_role("link", name="calendar:find_free_time").first).to_be_visible()
        opened.go("servers")
        page.get_by_role("button", name="Remove the demo …").press("Enter")
        dialog = page.get_by_role("dialog", name="Remove the demo?")
        expect(dialog.locator(".diff")).to_have_count(3)
        assert violations(page) == []
        dialog.get_by_role("button", name="Remove").press("Enter")
        expect(page.get_by_text("No server is configured.")).to_be_visible()


@pytest.mark.requirement("PAGE-3")
def test_a_missing_value_is_entered_on_the_overview_and_the_server_connects(
    home: Home, chromium: Browser
) -> None:
    home.write({"good": fault_entry(env={"API_KEY": "${API_KEY}"})})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        page.get_by_label("API_KEY").fill("s3cr3t-value")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Every server answers")).to_be_visible()
        assert "s3cr3t" not in page.content()
        opened.go("servers")
        expect(page.get_by_role("row", name="good")).to_contain_text("ready")


@pytest.mark.requirement("PAGE-30")
def test_a_tool_is_switched_off_and_on_by_a_rule_that_is_shown_first(
    home: Home, chromium: Browser, config: Path
) -> None:
    before = config.read_text("utf-8")
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("tools?state=enabled")
        switch = page.get_by_role("switch", name="hub:open_issue for agents")
        switch.press("Enter")
        dialog = page.get_by_role("dialog", name="Disable hub:open_issue for agents?")
        expect(dialog.locator(".diff")).to_contain_text("hub:open_issue")
        assert violations(page) == []
        assert config.read_text("utf-8") == before
        dialog.get_by_role("button", name="Disable").press("Enter")
        expect(switch).to_have_count(0)  # the filter shows what is enabled
        page.get_by_role("link", name="All 5").press("Enter")
        expect(switch).not_to_be_checked()
        switch.press("Enter")
        expect(page.get_by_role("dialog").locator(".diff")).to_contain_text("hub:open_issue")
        page.get_by_role("button", name="Enable", exact=True).press("Enter")
        expect(switch).to_be_checked()
        assert config.read_text("utf-8") == before


@pytest.mark.requirement("PAGE-30")
def test_a_rule_makes_an_exception_for_a_tool_that_is_switched_on_and_others_stay(
    home: Home, chromium: Browser
) -> None:
    write(home)
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("tools")
        switch = page.get_by_role("switch", name="good:pid for agents")
        expect(switch).not_to_be_checked()
        switch.press("Enter")
        expect(page.get_by_role("dialog").locator(".diff")).to_contain_text('"!good:pid"')
        page.get_by_role("button", name="Enable", exact=True).press("Enter")
        expect(switch).to_be_checked()
        expect(page.get_by_role("switch", name="good:echo for agents")).to_be_checked()


@pytest.mark.requirement("PAGE-13", "PAGE-20")
def test_settings_say_what_each_view_and_team_sees_and_a_request_is_tried_as_one(
    home: Home, chromium: Browser
) -> None:
    servers = {"good": fault_entry(), "payroll": fault_entry(visibleTo="team:finance")}
    rules = [{"pattern": "good:pid", "visibleTo": "team:ops"}]
    home.write(servers, toolRules=rules, views={"readers": {"servers": ["good"]}})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("settings")
        rows = page.get_by_role("region", name="Who sees what")
        expect(rows.get_by_role("row", name="team:finance")).to_contain_text("good, payroll")
        expect(rows.get_by_role("row", name="readers")).to_contain_text("good")
        assert violations(page) == []
        page.get_by_role("link", name="Try a request as readers").press("Enter")
        client = page.get_by_label("As a client of")
        expect(client.locator("option:checked")).to_have_text("the view readers")
        page.get_by_label("Request").fill("echo a text")
        expect(page.get_by_role("link", name="good:echo").first).to_be_visible()
        opened.go("settings")
        expect(rows.get_by_role("row", name="team:ops")).not_to_contain_text("payroll")
        page.get_by_role("link", name="Try a request as team:ops").press("Enter")
        page.get_by_label("Request").fill("echo a text")
        hidden = page.get_by_role("listitem").filter(has_text="payroll:echo")
        expect(hidden).to_contain_text("visibleTo reserves it for others")
        page.get_by_label("Request").fill("process id, pid")
        expect(page.get_by_role("link", name="good:pid").first).to_be_visible()
        client.select_option(label="team:finance")
        expect(page.get_by_role("link", name="payroll:pid").first).to_be_visible()
        expect(page.get_by_text("its rank for a client that sees everything")).to_be_visible()
        expect(page.locator(".hits li").first).to_contain_text("2 → 1")
        hidden = page.get_by_role("listitem").filter(has_text="good:pid")
        expect(hidden).to_contain_text("visibleTo reserves it for others")
        assert violations(page) == []


@pytest.mark.requirement("PAGE-2")
def test_the_palette_leads_to_areas_servers_and_tools_and_changes_the_theme(
    home: Home, chromium: Browser
) -> None:
    write(home)
    with gateway(home) as served, served.opened(chromium, color_scheme="light") as opened:
        page = opened.page
        for words, address in (("good:echo", "tools/good/echo"), ("area metr", "metrics")):
            opened.go("")
            page.keyboard.press("Control+k")
            palette = page.get_by_role("dialog", name="Go to")
            palette.get_by_role("combobox").fill(words)
            expect(palette.get_by_role("option")).to_have_count(1)
            assert violations(page) == []
            page.keyboard.press("Enter")
            expect(page).to_have_url(f"{served.origin}/#/{address}")
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Go to").fill("theme dark")
        page.keyboard.press("Enter")
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()


@pytest.mark.requirement("PAGE-13")
def test_settings_store_secrets_without_showing_them_and_decide_about_requests(
    home: Home, chromium: Browser
) -> None:
    write(home)
    asked = home.folder / "asked.py"
    asked.write_text(ASKING, "utf-8")
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        subprocess.run([sys.executable, str(asked)], env=home.environ, cwd=home.folder, check=True)
        opened.go("servers")
        opened.go("")
        page.get_by_role("link", name="1 request of an agent waits").click()
        expect(page.get_by_text("Switches the server good off.")).to_be_visible()
        page.get_by_role("button", name="Accept …").click()
        accept = page.get_by_role("button", name="Accept", exact=True)
        expect(accept).to_be_enabled()
        assert violations(page) == []
        accept.click()
        expect(page.get_by_text("No request is waiting")).to_be_visible()
        page.get_by_label("Name").fill("good/TOKEN")
        page.get_by_label("Value").fill("s3cr3t-value")
        page.keyboard.press("Enter")
        expect(page.get_by_text("good/TOKEN is stored.")).to_be_visible()
        assert "s3cr3t" not in page.content()
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Delete it").click()
        expect(page.get_by_text("No secret is stored yet.")).to_be_visible()
        opened.go("servers")
        expect(page.get_by_role("row", name="good")).to_contain_text("disabled")


@pytest.mark.requirement("PAGE-13")
def test_an_access_token_is_made_limited_and_revoked(home: Home, chromium: Browser) -> None:
    write(home)
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("settings")
        page.get_by_label("For the client").fill("laptop")
        page.get_by_label("Servers").fill("good")
        page.keyboard.press("Enter")
        code = page.get_by_role("status").locator("code")
        expect(code).to_contain_text("discovery_")
        token = {"Authorization": f"Bearer {code.inner_text()}"}
        assert violations(page) == []
        with urlopen(Request(f"{served.origin}/api/servers", headers=token)) as answer:
            assert [one["name"] for one in json.load(answer)["servers"]] == ["good"]
        page.get_by_role("button", name="Revoke …").press("Enter")
        page.get_by_role("button", name="Revoke", exact=True).press("Enter")
        expect(page.get_by_text("There is no token yet.")).to_be_visible()
        assert refused(served, "/api/servers", **token) == 401


@pytest.mark.requirement("PAGE-29")
def test_a_server_is_switched_and_shows_resources_and_prompts(
    home: Home, chromium: Browser
) -> None:
    world = home.folder / "world.json"
    prompt = {"name": "review", "description": "<b>Review</b>", "arguments": [{"name": "text"}]}
    resource = {"uri": "file:///readme", "name": "readme"}
    tool = {"name": "look", "inputSchema": {"type": "object"}}
    world.write_text(json.dumps({"tools": [tool], "resources": [resource], "prompts": [prompt]}))
    program = str(FAULT_SERVER.with_name("offering_server.py"))
    offers = {"command": sys.executable, "args": ["-I", "-S", program, str(world)]}
    home.write({"offers": offers})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("servers/offers")
        dialog = page.get_by_role("dialog", name="offers")
        dialog.get_by_role("link", name="Resources").press("Enter")
        dialog.get_by_role("button", name="Read").press("Enter")
        expect(dialog.get_by_role("status")).to_contain_text("file:///readme")
        dialog.get_by_role("link", name="Prompts").press("Enter")
        expect(dialog).to_contain_text("<b>Review</b>")
        dialog.get_by_label("text").fill("a text")
        dialog.get_by_role("button", name="Get its messages").press("Enter")
        expect(dialog.locator(".messages")).to_contain_text('"text": "a text"')
        assert violations(page) == []
        dialog.get_by_role("link", name="State").press("Enter")
        dialog.get_by_role("button", name="Disable").press("Enter")
        expect(dialog).to_contain_text("disabled")
        dialog.get_by_role("button", name="Enable").press("Enter")
        expect(dialog.get_by_role("button", name="Disable")).to_be_visible()
        expect(dialog).to_contain_text(re.compile("ready|idle"))


def refused(served: Gateway, path: str, **headers: str) -> int:
    try:
        with urlopen(Request(served.origin + path, headers=headers)) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


@pytest.mark.requirement("PAGE-8")
def test_without_a_session_only_the_form_is_served_and_no_path_leads_elsewhere(home: Home) -> None:
    write(home)
    with gateway(home) as served:
        assert refused(served, "/") == 401
        names = (
            "app.js",
            "modules/preact.js",
            "modules.json",
            "../page_app.py",
            "%2e%2e/page_app.py",
        )
        for name in (*names, "..%2fpage_app.py", "/etc/passwd", "static/app.js", ""):
            assert refused(served, f"/page/{name}") == 404, name
        with urlopen(served.origin + "/page/style.css") as style:
            assert style.headers["x-content-type-options"] == "nosniff"
        try:
            urlopen(served.origin)
        except HTTPError as error:
            policy = error.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.requirement("PAGE-9")
def test_modules_of_other_projects_are_pinned_without_an_address() -> None:
    from scripts.page_modules import FOLDER, MANIFEST

    manifest = json.loads(MANIFEST.read_text("utf-8"))
    assert "http" not in MANIFEST.read_text("utf-8")
    for package in manifest["packages"]:
        assert package["integrity"].startswith("sha512-")
        assert package["licence"]
        assert all(len(file["sha256"]) == 64 for file in package["files"])
    assert not os.path.relpath(FOLDER, MANIFEST.parent).startswith("..")


@pytest.mark.requirement("PAGE-9")
def test_the_whole_page_takes_at_most_160_kilobytes_compressed() -> None:
    from scripts.page_modules import FOLDER

    files = [file for file in FOLDER.parent.rglob("*") if file.suffix in {".js", ".css", ".html"}]
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) <= 160_000
