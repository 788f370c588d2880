"""Take the pictures of the README and the site, or of every area of the page.

    python scripts/screenshots.py           four, into docs/pictures
    python scripts/screenshots.py FOLDER    every area, in both themes and at three widths

It needs a browser and the real servers, which `make servers` brings. Look at the pictures then.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import browser  # noqa: E402
from tests.e2e.serving import REAL_SERVERS, Home  # noqa: E402
from tests.page.conftest import NO_NETWORK, gateway  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
SIZE = {"width": 1300, "height": 800}
WIDTHS = (360, 1280, 1920)
AREAS = {
    "call": "logs/2",
    "overview": "",
    "servers": "servers",
    "server": "servers/time",
    "tools": "tools",
    "tool": "tools/time/convert_time",
    "search-lab": "search?q=create+a+branch",
    "connect": "connect",
    "marketplace": "marketplace",
    "logs": "logs",
    "metrics": "metrics",
    "settings": "settings",
}
SETTLED = 2000  # milliseconds after which an area shows all that it has
RULES = [{"pattern": "git_reset", "enabled": False}]
VIEWS = {"readers": {"servers": ["time"]}}
TRIED = '- pattern: "git_create_*"\n  enabled: false\n'
CALL = """async (zone) => { await fetch("/api/servers/time/tools/get_current_time/call", {
  method: "POST", headers: {"content-type": "application/json"},
  body: JSON.stringify({arguments: {timezone: zone}}),
}); }"""


def write(home: Home) -> None:
    servers = {
        "time": {"command": str(REAL_SERVERS / "time" / "bin" / "mcp-server-time")},
        "git": {"command": str(REAL_SERVERS / "git" / "bin" / "mcp-server-git"), "tags": ["code"]},
        "calendar": {"command": "calendar-server"},
    }
    home.config.write_text(
        json.dumps({"servers": servers, "toolRules": RULES, "views": VIEWS}, indent=2),
        encoding="utf-8",
    )


def take_lab(page: Page, origin: str) -> None:
    page.goto(f"{origin}/#/search?q=create+a+branch")
    page.locator("textarea").first.fill(TRIED)
    page.wait_for_timeout(4000)
    page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
    page.screenshot(path=PICTURES / "search-lab.png")


def make_calls(page: Page) -> None:
    for number in range(40):
        page.evaluate(CALL, "Asia/Tokyo" if number % 9 else "Nowhere")


def take_overview(page: Page, origin: str) -> None:
    make_calls(page)
    page.emulate_media(color_scheme="dark")
    page.goto(f"{origin}/#/")
    page.wait_for_timeout(7000)
    page.screenshot(path=PICTURES / "overview.png")


def take(page: Page, origin: str, area: str, path: Path) -> None:
    page.goto(f"{origin}/#/{AREAS[area]}")
    page.wait_for_timeout(SETTLED)
    page.screenshot(path=path)


def take_all(page: Page, origin: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    make_calls(page)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            for area in AREAS:
                take(page, origin, area, folder / f"{area}-{theme}-{width}.png")


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        os.environ["HOME"] = folder  # no file of a client of this machine is in a picture
        for name in (".cursor", ".claude"):
            (Path(folder) / name).mkdir()
        (Path(folder) / ".cursor" / "mcp.json").write_text(
            '{"mcpServers": {"notes": {"command": "notes-server"}}}', "utf-8"
        )
        write(home)
        with gateway(home) as served, sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=browser.find(), args=NO_NETWORK)
            page = chromium.new_page(viewport=SIZE)
            page.goto(f"{served.origin}/?code={served.code}")
            page.get_by_text("Connected", exact=True).wait_for()
            page.wait_for_timeout(5000)
            if sys.argv[1:]:
                take_all(page, served.origin, Path(sys.argv[1]))
                return
            take_lab(page, served.origin)
            take(page, served.origin, "tools", PICTURES / "tools.png")
            take_overview(page, served.origin)
            take(page, served.origin, "connect", PICTURES / "connect.png")


if __name__ == "__main__":
    main()
