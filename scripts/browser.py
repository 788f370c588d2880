"""Find the browser that tests of the page use, or bring one.

    python scripts/browser.py

A Chromium of the system comes first; then Debian's package, for root alone; then what Playwright
downloads. Without any the tests of the page are skipped, and this says why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FAILED = ROOT / ".tools" / "browser.failed"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_TIME_LIMIT = 600  # seconds for a download


def find() -> str | None:
    """The path of a browser; None if there is none."""
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def bring() -> str | None:
    """The path of a browser, installed first if need be; None if none can be."""
    if (found := find()) or FAILED.exists():
        return found
    print("== bringing a browser", file=sys.stderr, flush=True)
    for command in _commands():
        try:
            subprocess.run(command, check=True, timeout=_TIME_LIMIT, stdout=sys.stderr)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"   {error}", file=sys.stderr)
        if found := find():
            return found
    FAILED.parent.mkdir(exist_ok=True)
    FAILED.touch()
    return None


def _commands() -> list[list[str]]:
    commands = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        install = ["apt-get", "install", "-y", "-q", "chromium", "fonts-dejavu-core"]
        commands = [["apt-get", "update", "-q"], install, *commands]
    return commands


if __name__ == "__main__" and bring() is None:
    print("   left out: the page is not tried, since there is no browser", file=sys.stderr)
