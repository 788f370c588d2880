"""Answers that are late, or never come: specs/page.md."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, WebSocketRoute, expect

from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import Gateway, gateway


def asked(served: Gateway, home: Home, method: str, path: str, body: Any = None) -> Any:
    """What a program is answered, beside the page."""
    data = None if body is None else json.dumps(body).encode()
    headers = {**home.authorization, "content-type": "application/json"}
    request = Request(f"{served.origin}/api{path}", data, headers, method=method)
    with urlopen(request) as answer:
        return json.load(answer)


@pytest.mark.requirement("PAGE-6")
def test_a_form_keeps_what_was_typed_while_the_gateway_cannot_be_reached_and_is_loaded_anew_after(
    home: Home, chromium: Browser
) -> None:
    home.write({"good": fault_entry(), "other": fault_entry()})
    sockets: list[WebSocketRoute] = []

    def connect(socket: WebSocketRoute) -> None:
        socket.connect_to_server()
        sockets.append(socket)

    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        page.route_web_socket("**/events*", connect)
        page.reload()
        opened.go("tools/good/echo")
        page.get_by_label("text").fill("kept")
        details = "**/api/servers/good/tools/echo?*"
        page.route(details, lambda route: route.abort())
        with page.expect_event("requestfailed"):
            asked(served, home, "POST", "/servers/other", {"action": "disable"})
        expect(page.get_by_label("text")).to_have_value("kept")
        expect(page.get_by_role("alert")).to_have_count(0)
        page.unroute(details)
        with page.expect_response(details):
            sockets[-1].close()
        expect(page.get_by_text("Connected")).to_be_visible()
        expect(page.get_by_label("text")).to_have_value("kept")
        opened.faults[:] = [one for one in opened.faults if "ERR_FAILED" not in one]
