"""Another page in the same browser, and a gateway that goes and comes back: specs/page.md."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import gateway
from tests.page.test_page import settled
from tests.servers.web_server import WebAnswer, WebRequest, web_server

# What a page of another origin can try; each answers with what it read, or why it could not.
ATTACKS = """async (gateway) => {
  const text = (answer) => answer.text();
  const json = { "content-type": "application/json" };
  const tried = {
    read: () => fetch(`${gateway}/api/status`, { credentials: "include" }).then(text),
    blind: () => fetch(`${gateway}/api/servers/good`,
      { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }).then(text),
    write: () => fetch(`${gateway}/api/secrets/good%2FTOKEN`,
      { method: "PUT", credentials: "include", headers: json, body: '{"value": "x"}' }).then(text),
    session: () => fetch(`${gateway}/session`,
      { method: "DELETE", credentials: "include" }).then(text),
    script: () => import(`${gateway}/page/app.js`).then(() => "ran"),
    beacon: async () => { navigator.sendBeacon(`${gateway}/api/reload`, "{}"); return ""; },
    socket: () => new Promise((resolve) => {
      const socket = new WebSocket(gateway.replace("http", "ws") + "/events");
      socket.onmessage = (message) => resolve(message.data);
      socket.onclose = () => resolve("");
    }),
    image: () => new Promise((resolve) => {
      const image = new Image();
      image.onload = () => resolve("loaded");
      image.onerror = () => resolve("");
      image.src = `${gateway}/page/icon.svg`;
    }),
    frame: () => new Promise((resolve) => {
      const frame = document.createElement("iframe");
      frame.onload = () => {
        try { resolve(frame.contentDocument?.body?.innerText || ""); } catch { resolve(""); }
      };
      frame.src = gateway;
      document.body.append(frame);
    }),
    form: () => new Promise((resolve) => {
      const frame = Object.assign(document.createElement("iframe"), { name: "target" });
      document.body.append(frame);
      frame.onload = () => resolve("");
      const form = Object.assign(document.createElement("form"),
        { method: "POST", target: "target", enctype: "text/plain" });
      form.action = `${gateway}/api/servers/good`;
      form.innerHTML = '<input name="{&quot;a&quot;:&quot;" value="&quot;}">';
      document.body.append(form);
      form.submit();
    }),
    window: async () => {
      const opened = window.open(gateway);
      for (let turn = 0; turn < 100 && !opened.closed; turn += 1) {
        try {
          if (opened.document.body?.innerText) return opened.document.body.innerText;
        } catch { break; }
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      opened.postMessage({ type: "state" }, "*");
      return "";
    },
  };
  const found = {};
  for (const [name, run] of Object.entries(tried)) found[name] = await run().catch(() => "");
  return found;
}"""


@pytest.mark.requirement("API-10", "SRV-11")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_another_page_of_the_same_browser_reads_and_changes_nothing(
    home: Home, chromium: Browser, host: str
) -> None:
    """A page of another port of this host has the cookie; one of another name has not."""
    asked: list[WebRequest] = []

    def answer(request: WebRequest) -> WebAnswer:
        asked.append(request)
        return WebAnswer(b"<!doctype html><body>", headers={"content-type": "text/html"})

    home.write({"good": fault_entry()})
    with gateway(home) as served, served.opened(chromium) as opened, web_server(answer) as other:
        before = home.config.read_text("utf-8")
        page = opened.page
        port = other.port
        attacker = page.context.new_page()
        attacker.goto(f"http://{host}:{port}/")
        assert ("cookie" in asked[0].headers) == (host == "127.0.0.1")
        found: dict[str, Any] = attacker.evaluate(ATTACKS, served.origin)
        assert {name: text for name, text in found.items() if text} == {}
        attacker.close()
        assert home.config.read_text("utf-8") == before
        for area in ("servers/good", "settings"):
            opened.go(area)
            settled(page)
        expect(page.get_by_text("No secret is stored yet.")).to_be_visible()
        opened.go("servers/good")
        expect(page.get_by_role("button", name="Disable")).to_be_visible()
        page.reload()
        expect(page.get_by_text("Connected")).to_be_visible()  # its session has not been ended
