"""A real browser, and a gateway with a page in it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from scripts import browser
from tests import kinds
from tests.e2e.serving import Home
from tests.page.lab import write_config

NO_NETWORK = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_PATIENCE = 60_000  # milliseconds: on a busy machine a browser may stand still for long
expect.set_options(timeout=_PATIENCE)
_DRAW = """async () => {
  // An address is shown in the frame after it was opened, and what it shows begins to load then.
  for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
  await new Promise((resolve) => setTimeout(resolve));
}"""
_ADDRESS = re.compile(rb"page at (http://[^/]+)/\?code=(\S+)")


@pytest.fixture
def chromium() -> Iterator[Browser]:
    # One for each test: while it is there, no other event loop can run in this process.
    path = browser.find()
    if path is None:
        pytest.skip("there is no browser; `make servers` brings one where it can")
    kinds.count("browsers")
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=path, args=NO_NETWORK)


@dataclass
class Opened:
    """A page that was opened with the printed address, and all that went wrong in it."""

    page: Page
    origin: str
    faults: list[str] = field(default_factory=list)

    def go(self, area: str) -> None:
        """Open an area; nothing of the one before is there any more."""
        self.page.goto(f"{self.origin}/#/{area}")
        draw(self.page)

    def watch(self) -> None:
        page = self.page
        page.on(
            "console", lambda one: self.faults.append(one.text) if one.type == "error" else None
        )
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", lambda one: self._check(one.url))

    def _check(self, url: str) -> None:
        own = self.origin, self.origin.replace("http", "ws", 1), "data:", "blob:"
        if not url.startswith(own):
            self.faults.append(f"a request to {url}")


@dataclass
class Gateway:
    process: subprocess.Popen[bytes]
    origin: str
    code: str

    @contextmanager
    def opened(self, chromium: Browser, **context: object) -> Iterator[Opened]:
        """A browser that opened the printed address; nothing may have gone wrong at the end."""
        made: BrowserContext = chromium.new_context(**context)
        made.set_default_timeout(2 * _PATIENCE)
        try:
            opened = Opened(made.new_page(), self.origin)
            opened.watch()
            opened.page.goto(f"{self.origin}/?code={self.code}")
            opened.page.get_by_text("Connected", exact=True).wait_for()
            yield opened
            assert opened.faults == []
        finally:
            made.close()


def draw(page: Page) -> None:
    """Wait until the page shows what was last asked for; that may still be loading."""
    page.evaluate(_DRAW)


@contextmanager
def gateway(home: Home, port: int = 0) -> Iterator[Gateway]:
    command = [sys.executable, "-m", "discovery_cli", "serve", "--http", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        command, env={**home.environ, **os.environ, **home.environ}, cwd=home.folder, stderr=-1
    ) as process:
        try:
            yield Gateway(process, *_address(process))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            if process.stderr is not None:
                sys.stderr.write(process.stderr.read().decode())  # shown if the test fails


def _address(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    assert process.stderr is not None
    for line in process.stderr:
        if found := _ADDRESS.match(line):
            return found[1].decode(), found[2].decode()
        if line.startswith(b"note: only the API"):
            pytest.skip("the modules of the page are missing; npm brings them")
    raise AssertionError(f"it ended with {process.wait()}")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def config(home: Home) -> Path:
    """A configuration with comments, as an owner writes one."""
    return write_config(home)
