"""Installing on the page, with real npm packages of an index on this machine: specs/page.md."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import gateway
from tests.page.test_page import violations
from tests.servers.mcp_registry_server import OFFICIAL, RegistryServer, listed, registry_server
from tests.servers.package_index import PackageIndex, package_index
from tests.servers.package_servers import node_server

pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]

FILES = "io.github.acme/files"
SECRET = "hunter-hunter-2"
CALL = """async () => (await fetch("/api/servers/files/tools/environment/call", {
  method: "POST", headers: {"content-type": "application/json"}, body: '{"arguments": {}}',
})).json()"""
SYNC = """() => fetch("/api/marketplace/sync", {
  method: "POST", headers: {"content-type": "application/json"}, body: '{"force": true}',
})"""
LONG = 90_000  # milliseconds: npm starts several times on a busy machine


@dataclass
class Shop:
    home: Home
    registry: RegistryServer
    index: PackageIndex

    def publish(self, version: str, *inputs: dict[str, Any]) -> None:
        self.index.add_npm("@acme/files", version, script=node_server(version))
        key = {"name": "FILES_KEY", "isRequired": True, "isSecret": True, "description": "A key."}
        package = {
            "registryType": "npm",
            "identifier": "@acme/files",
            "version": version,
            "environmentVariables": [key, *inputs],
        }
        for one in self.registry.entries:
            one["_meta"][OFFICIAL]["isLatest"] = False
        day = float(len(self.registry.entries))
        self.registry.entries.append(listed(FILES, version=version, packages=[package], day=day))
        shutil.rmtree(self.home.folder / "npm-cache", ignore_errors=True)


@pytest.fixture
def shop(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with package_index() as index, registry_server() as registry:
        for name, value in index.environ(home.folder).items():
            monkeypatch.setenv(name, value)
        source = {"type": "mcp-registry", "id": "team", "url": registry.url}
        home.write({"good": fault_entry()}, marketplace={"sources": [source]})
        made = Shop(home, registry, index)
        made.publish("1.0.0")
        yield made


def entry(page: Page) -> Locator:
    return page.get_by_role("dialog", name=FILES)


@pytest.mark.requirement("PAGE-32")
def test_a_server_is_installed_with_its_secret_called_updated_set_back_and_removed(
    shop: Shop, chromium: Browser
) -> None:
    with gateway(shop.home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("marketplace/io.github.acme%2Ffiles")
        dialog = entry(page)
        dialog.get_by_role("button", name="Install …").click(timeout=LONG)
        key = dialog.get_by_label("FILES_KEY")
        expect(key).to_have_attribute("type", "password", timeout=LONG)
        expect(dialog.get_by_role("button", name="Install", exact=True)).to_be_disabled()
        key.fill(SECRET)
        dialog.get_by_role("button", name="Show the plan").click()
        install = dialog.get_by_role("button", name="Install", exact=True)
        expect(install).to_be_enabled(timeout=LONG)
        expect(dialog.locator("form pre").first).to_have_text("npx -y @acme/files@1.0.0")
        expect(dialog.locator("form")).to_contain_text("files/FILES_KEY")
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            assert violations(page) == []
        install.click()
        expect(dialog.get_by_text("Installed as")).to_be_visible(timeout=LONG)
        assert SECRET not in page.content()

        answer = page.evaluate(CALL)
        seen = json.loads(answer["result"]["content"][0]["text"])
        assert (seen["version"], seen["env"]["FILES_KEY"]) == ("1.0.0", SECRET)

        shop.publish("2.0.0", {"name": "REGION", "isRequired": True})
        page.evaluate(SYNC)
        opened.go("marketplace")
        page.get_by_role("button", name="Look for updates").click()
        installed = page.get_by_role("region", name="Installed servers")
        expect(installed).to_contain_text("2.0.0", timeout=LONG)
        installed.get_by_role("button", name="Update …").click()
        installed.get_by_label("REGION").fill("eu", timeout=LONG)
        installed.get_by_role("button", name="Show the plan").click()
        update = installed.get_by_role("button", name="Update", exact=True)
        expect(update).to_be_enabled(timeout=LONG)
        assert violations(page) == []
        update.click()
        expect(installed.get_by_text("Done")).to_be_visible(timeout=LONG)

        installed.get_by_role("button", name="Go back …").click()
        back = installed.get_by_role("button", name="Go back", exact=True)
        expect(installed).to_contain_text("2.0.0 → 1.0.0", timeout=LONG)
        back.click()
        expect(installed.get_by_text("Done")).to_be_visible(timeout=LONG)
        installed.get_by_role("button", name="Uninstall …").click()
        installed.get_by_role("button", name="Uninstall", exact=True).click(timeout=LONG)
        expect(installed.get_by_text("None was installed")).to_be_visible(timeout=LONG)
        assert '"files"' not in shop.home.config.read_text("utf-8").partition("marketplace")[0]
