"""The area of the refresh queue: specs/fleet.md."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import gateway
from tests.page.test_page import violations

FILLED = """
import anyio
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.engine import open_engine
from discovery_engine.store.fleet.refresh_job import RefreshTarget

async def fill():
    async with open_engine("discovery.yaml") as engine:
        store, scope = engine._core.store, catalog_key_of(engine.settings)
        store.plan_refreshes(scope, [RefreshTarget("good")])
        [job] = store.claim_refreshes(scope, "worker-1", limit=1, lease=600)
        store.fail_refresh(job.claim, "X", "it <b>exits</b> at once", retry_in=None)
        store.plan_refreshes(scope, [RefreshTarget("good"), RefreshTarget("held")])
        store.claim_refreshes(scope, "worker-2", limit=1, lease=600)

anyio.run(fill)
"""


@pytest.mark.requirement("FLT-31", "PAGE-3")
def test_the_page_shows_the_queue_and_has_a_dead_server_tried_again(
    home: Home, chromium: Browser
) -> None:
    entries: dict[str, Any] = {"good": fault_entry(), "held": fault_entry()}
    home.write(entries)
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("fleet")
        expect(page.get_by_text("The queue is empty")).to_be_visible()
        asked = home.folder / "fill.py"
        asked.write_text(FILLED, "utf-8")
        subprocess.run([sys.executable, str(asked)], env=home.environ, cwd=home.folder, check=True)
        page.get_by_role("button", name="Look again").click()
        failed = page.get_by_role("region", name="Failed")
        expect(failed).to_contain_text("it <b>exits</b> at once")
        expect(page.get_by_role("region", name="Being listed now")).to_contain_text("worker-2")
        assert violations(page) == []
        opened.go("")
        dead = page.locator("ul.attention li", has_text="tried by no worker any more")
        expect(dead).to_contain_text("good")
        dead.get_by_role("link").click()
        page.get_by_role("button", name="Try again: good").click()
        expect(failed).to_contain_text("waits to be tried again")
