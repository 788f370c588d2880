"""The site of the documentation, in a browser."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from scripts import docs

THEIRS = "landmark-unique"  # the theme has no name for the bar with the button that copies a block


def test_site_is_read_on_a_phone_in_the_dark_and_by_a_screen_reader(
    tmp_path: Path, chromium: Browser
) -> None:
    assert docs.main(tmp_path / "site") == 0
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / "site")
    addresses: list[str] = []
    faults: list[str] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        origin = f"http://127.0.0.1:{server.server_port}"
        for scheme in ("light", "dark"):
            page = chromium.new_page(color_scheme=scheme, viewport={"width": 360, "height": 900})
            page.on("request", lambda request: addresses.append(request.url))
            for path in ("", "start/connect/", "guides/rules/", "reference/configuration/"):
                page.goto(f"{origin}/{path}")
                violations = [row["id"] for row in Axe().run(page).response["violations"]]
                faults += [f"{scheme} {path} {name}" for name in violations if name != THEIRS]
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    faults.append(f"{path} is wider than the screen")
        server.shutdown()

    assert faults == []
    assert {address for address in addresses if not address.startswith(origin)} == set()
