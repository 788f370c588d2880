"""The search lab as tests use it: a configuration, a request, a change."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from playwright.sync_api import Page, expect

from tests.factories import make_definition
from tests.told import Told

if TYPE_CHECKING:
    from pathlib import Path

    from discovery_engine._util.json import JSONObject
    from tests.e2e.serving import Home
    from tests.page.conftest import Opened

TOOLS = {
    "hub": [
        ("open_issue", "Open an issue."),
        ("list_issues", "List the issues of a repository."),
        ("delete_issue", "Delete an issue for good."),
    ],
    "desk": [
        ("open_dossier", "Open a dossier about somebody, in a project of the office."),
        ("list_dossiers", "List dossiers."),
    ],
}
FILE = """\
# What agents may use.
servers: {SERVERS}
toolRules:
  # nothing that deletes
  - pattern: "*delete*"
    enabled: false
views:
  desks:
    servers: [desk]
    rules:
      - pattern: list_dossiers
        enabled: false
"""


def write_config(home: Home) -> Path:
    """A configuration with comments, as an owner writes one."""
    servers: JSONObject = {}
    for name, tools in TOOLS.items():
        folder = home.folder / name
        folder.mkdir()
        told = Told.beside(folder, *(make_definition(*tool) for tool in tools))
        command, *args = told.command
        servers[name] = {"command": command, "args": args}
    path = home.folder / "discovery.yaml"
    path.write_text(FILE.replace("{SERVERS}", json.dumps(servers)), "utf-8")
    return path


def ask(opened: Opened, request: str, view: str = "") -> Page:
    """The lab with the answer to a request, once all servers are listed."""
    opened.go("tools")
    expect(opened.page.get_by_text("5 of 5 tools")).to_be_visible()
    opened.go(f"search?q={request.replace(' ', '+')}{f'&view={view}' if view else ''}")
    expect(opened.page.get_by_role("heading", name="What the agent reads")).to_be_visible()
    expect(opened.page.get_by_role("textbox", name="Tool rules")).to_be_visible()
    return opened.page


def edit(page: Page, section: str, text: str) -> None:
    tabs = page.get_by_role("group", name="What to change")
    tabs.get_by_role("button", name=re.compile(f"^{section}(?! of)")).click()
    page.get_by_role("textbox", name=section).fill(text)


def save(page: Page) -> None:
    page.get_by_role("button", name="Save …").click()
    page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved. The file before is")).to_be_visible()
