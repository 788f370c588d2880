"""Answers that are late, or never come: specs/page.md."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page, Route, WebSocketRoute, expect

from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import Gateway, gateway
from tests.page.lab import ask, edit, save

if TYPE_CHECKING:
    from collections.abc import Iterator

OVERRIDE = "- pattern: open_issue\n  tags: [mine]\n"


@contextmanager
def held_plans(page: Page) -> Iterator[None]:
    """While plans of rules wait for their answer."""
    waiting: list[Route] = []
    is_over = False

    def hold(route: Route) -> None:
        sent = route.request.post_data or ""
        if is_over or not sent or '"digest"' in sent:
            route.continue_()
        else:
            waiting.append(route)

    page.route("**/api/rules", hold)
    yield
    is_over = True
    for route in waiting:
        route.continue_()
    page.unroute("**/api/rules", hold)


def asked(served: Gateway, home: Home, method: str, path: str, body: Any = None) -> Any:
    """What a program is answered, beside the page."""
    data = None if body is None else json.dumps(body).encode()
    headers = {**home.authorization, "content-type": "application/json"}
    request = Request(f"{served.origin}/api{path}", data, headers, method=method)
    with urlopen(request) as answer:
        return json.load(answer)


@pytest.mark.requirement("PAGE-6")
def test_a_plan_of_an_older_file_is_not_saved_while_it_is_planned_anew(
    home: Home, config: Path, chromium: Browser
) -> None:
    with gateway(home) as served, served.opened(chromium) as opened:
        page = ask(opened, "open an issue")
        edit(page, "Overrides", OVERRIDE)
        opener = page.get_by_role("button", name="Save …")
        opener.click()
        dialog = page.get_by_role("dialog")
        button = dialog.get_by_role("button", name="Save", exact=True)
        config.write_text(config.read_text("utf-8") + "# meanwhile\n", "utf-8")
        with held_plans(page), page.expect_request("**/api/rules"):
            button.click()
            expect(dialog.get_by_text("PLAN_CHANGED")).to_be_visible()
            expect(button).to_be_disabled()
            dialog.get_by_role("button", name="Cancel").click()
            expect(opener).to_be_disabled()
        save(page)
        opened.faults[:] = [one for one in opened.faults if "409" not in one]

    assert "# meanwhile" in config.read_text("utf-8")
    assert "mine" in config.read_text("utf-8")


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
