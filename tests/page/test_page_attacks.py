"""Attacks on the page, in a real browser, judged by what they did: specs/threats.md."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.serving import FAULT_SERVER, Home
from tests.page.conftest import Opened, gateway
from tests.page.test_page import settled
from tests.servers.markup_server import MARKUP, OUT, SCRIPT, text, world
from tests.servers.mcp_registry_server import listed, registry_server

ENTRY = "io.github.odd/markup"
PARTS = ["", "tools", "resources", "prompts", "review", "configuration", "secrets", "metrics"]
PARTS += ["stderr", "events", "export"]
ODD_TOOL = quote(world()["tools"][5]["name"], safe="")

# What stands in the page that is none of its own, or that a reader would not see.
STRANGE = r"""() => {
  const found = [];
  if (window.owned !== undefined || {}.polluted !== undefined) found.push("a script ran");
  const unseen = /(?![\n\t\r])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}\u034f\u2800]|\p{VS}/u;
  for (const one of document.querySelectorAll("body *")) {
    for (const { name, value } of one.attributes) {
      const isOwnStyle = name === "style" && one.closest(".uplot");
      const isOfBytes = /^data:(image\/(png|gif|jpeg|webp)|audio\/)/.test(value);
      if (/^on|^srcdoc$|^style$|^action$/.test(name) && !isOwnStyle) found.push(name);
      if (name === "href" && !value.startsWith("#")) found.push(value);
      if (name === "src" && !isOfBytes) found.push(value);
      if (/^(title|alt|placeholder|aria-label)$/.test(name) && unseen.test(value)) found.push(name);
    }
    const isForeign = /^(script|iframe|object|embed|style|link|base|meta)$/i.test(one.tagName);
    if (isForeign) found.push(one.tagName);
  }
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    if (unseen.test(texts.currentNode.data)) found.push(texts.currentNode.data);
  }
  return found;
}""".replace(r"\p{VS}", r"[\ufe00-\ufe0d\u{e0100}-\u{e01ef}]")


@contextmanager
def hostile(home: Home) -> Iterator[None]:
    """A gateway's home with a server and a marketplace that have markup in all of their fields."""
    file = home.folder / "world.json"
    file.write_text(json.dumps(world()), "utf-8")
    program = str(FAULT_SERVER.with_name("markup_server.py"))
    server = {
        "command": sys.executable,
        "args": ["-I", "-S", program, str(file)],
        "description": text("description"),
        "tags": [MARKUP],
    }
    inputs = [
        {
            "name": "ODD_KEY",
            "description": text("input"),
            "choices": [MARKUP, SCRIPT],
            "placeholder": MARKUP,
            "isRequired": True,
        }
    ]
    entry = listed(
        ENTRY,
        description=text("description")[:100],
        title=MARKUP[:80],
        websiteUrl=SCRIPT,
        repository={"url": SCRIPT, "source": MARKUP, "subfolder": MARKUP},
        icons=[{"src": f"{OUT}.png"}],
        status="deprecated",
        message=text("status"),
        packages=[],
        remotes=[{"type": "streamable-http", "url": "https://odd.example/mcp", "headers": inputs}],
    )
    unusable = listed("io.github.odd/unusable", version=MARKUP, title=text("title"))
    with registry_server(entry, unusable) as registry:
        source = {"type": "mcp-registry", "id": "here", "url": registry.url}
        home.write({"odd": server}, marketplace={"sources": [source]})
        yield


def look(opened: Opened, area: str) -> None:
    """Open an area with all that it has to unfold; nothing strange may stand in it."""
    opened.go(area)
    unstrange(opened.page, area)


def unstrange(page: Page, area: str) -> None:
    settled(page)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    settled(page)
    assert page.evaluate(STRANGE) == [], area


@contextmanager
def watched(opened: Opened) -> Iterator[None]:
    """No dialog is shown, no window is opened and nothing is downloaded meanwhile."""
    page = opened.page
    page.on("dialog", lambda one: (opened.faults.append(f"a dialog: {one.message}"), one.dismiss()))
    page.on("popup", lambda one: opened.faults.append(f"a window: {one.url}"))
    page.on("download", lambda one: opened.faults.append(f"a download: {one.url}"))
    yield
    # The browser reports a refused request as an error of its own.
    opened.faults[:] = [one for one in opened.faults if "status of" not in one]


def accept(opened: Opened) -> None:
    """Accept what was withheld for its suspicious texts, after a look."""
    page = opened.page
    look(opened, "servers/odd/review")
    page.get_by_role("button", name="Accept all").click()
    page.get_by_role("button", name="Accept it").click()
    expect(page.get_by_text("Nothing waits for review")).to_be_visible()


def call(opened: Opened, tool: str) -> None:
    opened.go(f"tools/odd/{tool}")
    form = opened.page.get_by_role("region", name="Try it")
    form.get_by_role("button", name="Call", exact=True).click()
    again = form.get_by_role("button", name="Call anyway")
    running = form.locator(".outcome")
    expect(again.or_(running).first).to_be_visible()
    if again.is_visible():
        again.click()
    expect(running).to_be_visible()
    if tool not in ("ask", "progress"):
        expect(form.locator(".running")).to_have_count(0)


@pytest.mark.requirement("PAGE-7")
def test_markup_and_hidden_characters_of_a_server_act_nowhere_and_are_shown(
    home: Home, chromium: Browser
) -> None:
    with hostile(home), gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        with watched(opened):
            accept(opened)
            for tool in ("plain", "fail", "wrong", ODD_TOOL, "a%20b", "progress"):
                call(opened, tool)
                unstrange(page, tool)
                if tool == "plain":
                    raw = page.locator(".outcome").get_by_role("button", name="Raw")
                    raw.click()
                    unstrange(page, "raw")
            expect(page.locator(".running .note")).to_contain_text("progress")
            unstrange(page, "progress")
            page.get_by_role("button", name="Cancel").click()
            (home.folder / "world.json.done").touch()
            call(opened, "ask")
            question = page.get_by_role("form", name="Question of odd")
            expect(question).to_contain_text("question")
            unstrange(page, "question")
            question.get_by_role("button", name="Decline").click()
            expect(page.get_by_text("The tool answered:")).to_be_visible()
            for area in ("", "servers", "tools", "search?q=about+markup", "logs", "metrics"):
                look(opened, area)
            for part in PARTS:
                look(opened, f"servers/odd/{part}")
            opened.go("servers/odd/resources")
            # All at once: one that was read has another name, and the others another place.
            reads = page.get_by_role("button", name="Read", exact=True)
            expect(reads.nth(2)).to_be_visible()
            reads.evaluate_all("buttons => buttons.forEach((one) => one.click())")
            expect(page.get_by_role("button", name="Read again").nth(2)).to_be_visible()
            unstrange(page, "resources")
            opened.go("servers/odd/prompts")
            page.get_by_role("button", name="Get its messages").click()
            expect(page.locator(".messages li").first).to_be_visible()
            unstrange(page, "prompts")
            opened.go("logs")
            for row in range(page.locator("tbody a").count()):
                page.locator("tbody a").nth(row).click()
                expect(page.get_by_role("dialog")).to_be_visible()
                unstrange(page, "entry of the log")
                page.keyboard.press("Escape")


@pytest.mark.requirement("PAGE-7")
def test_markup_of_a_marketplace_acts_nowhere_and_is_shown(home: Home, chromium: Browser) -> None:
    with hostile(home), gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        with watched(opened):
            look(opened, "marketplace")
            expect(page.locator(".entries li").first).to_be_visible()
            unstrange(page, "entries")
            look(opened, "marketplace/io.github.odd%2Fmarkup")
            dialog = page.get_by_role("dialog", name=ENTRY)
            expect(dialog).to_contain_text("javascript:window.owned")
            dialog.get_by_role("button", name="Install …").click()
            expect(
                dialog.get_by_label("ODD_KEY").or_(dialog.get_by_role("alert")).first
            ).to_be_visible()
            unstrange(page, "plan")
            look(opened, "settings")


def test_no_module_of_the_page_has_a_way_from_text_to_markup_or_code() -> None:
    from scripts.page_modules import FOLDER

    ways = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|\beval\(|new Function"
        r"|createObjectURL|window\.open|location\.(assign|replace)|location(\.href)? = |setHTML"
    )
    own = [one for one in FOLDER.parent.rglob("*.js") if FOLDER not in one.parents]
    assert own
    found = {one.name: [match[0] for match in ways.finditer(one.read_text("utf-8"))] for one in own}
    assert {name: ways for name, ways in found.items() if ways} == {"logs.js": ["createObjectURL"]}
    # The export of the log is saved, as a type that no browser renders.
    logs = next(one for one in own if one.name == "logs.js").read_text("utf-8")
    (saved,) = (line for line in logs.splitlines() if "createObjectURL" in line)
    assert saved.endswith('{ type: "application/x-ndjson" }));')
