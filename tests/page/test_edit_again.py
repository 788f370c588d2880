"""Forms after they were sent: another edit, another server, another token: specs/page.md."""

from __future__ import annotations

import re

import httpx2
import pytest
import yaml
from playwright.sync_api import Browser, expect

from discovery_server.http.wrong_tokens import AT_ONCE
from tests.e2e.serving import Home, fault_entry
from tests.page.conftest import gateway
from tests.page.test_page import THEMES, violations
from tests.page.test_server_entries import SECRET, SHOW, fill

WRONG = "No token of this gateway, or a revoked one"
QUICKEST = """
    const observer = new MutationObserver(() => {
      const button = document.querySelector("button");
      if (!button || sessionStorage.sent) return;
      sessionStorage.sent = "once";
      document.querySelector("#token").value = "wrong";
      button.click();
    });
    observer.observe(document, { childList: true, subtree: true });
    """
"""Sends the form as soon as there is one."""


@pytest.mark.requirement("PAGE-41")
def test_after_a_save_the_next_edit_is_a_new_plan_of_the_entry_as_it_is_then(
    home: Home, chromium: Browser
) -> None:
    home.write({"good": fault_entry(description="first")})
    with gateway(home) as served, served.opened(chromium) as opened:
        opened.go("servers/good/configuration")
        dialog = opened.page.get_by_role("dialog", name="good", exact=True)
        dialog.get_by_role("button", name="Change it").click()
        form = dialog.locator("form").first
        saved, show = (
            dialog.get_by_text("Saved. The file before"),
            form.get_by_role("button", name=SHOW),
        )
        save = dialog.get_by_role("button", name="Save", exact=True)
        fill(form, {"Environment": f"API_KEY={SECRET}"})
        show.click()
        save.click()
        expect(saved).to_be_visible()
        variables = form.get_by_role("textbox", name="Environment")
        expect(variables).to_have_value("API_KEY=${secret:good/API_KEY}")
        expect(show).to_have_count(0)

        fill(form, {"Environment": f"{variables.input_value()}\nSHADE=blue"})
        expect(saved).to_have_count(0)
        show.click()
        expect(dialog.locator(".diff")).to_contain_text('"SHADE": "blue"')
        fill(form, {"Arguments": "other"})
        expect(save).to_be_disabled()
        expect(dialog.get_by_text("This is the plan without what was changed")).to_be_visible()
        fill(form, {"Arguments": "\n".join(map(str, fault_entry()["args"]))})
        save.click()
        expect(saved).to_be_visible()

    after = yaml.safe_load(home.config.read_text("utf-8"))["servers"]["good"]
    assert after["env"] == {"API_KEY": "${secret:good/API_KEY}", "SHADE": "blue"}
    assert after["args"] == fault_entry()["args"]


@pytest.mark.requirement("PAGE-41")
def test_after_a_server_was_added_the_form_is_empty_for_the_next(
    home: Home, chromium: Browser
) -> None:
    home.write({})
    entry = fault_entry()
    arguments = "\n".join(map(str, entry["args"]))
    with gateway(home) as served, served.opened(chromium) as opened:
        opened.go("servers")
        opened.page.get_by_text("Add a server").click()
        form = opened.page.locator(".adding")
        for name in ("one", "two"):
            fill(form, {"Name": name})
            expect(form.get_by_text("Added as")).to_have_count(0)
            expect(form.get_by_text("It needs a program or an address.")).to_be_visible()
            fill(form, {"Program": str(entry["command"]), "Arguments": arguments})
            form.get_by_role("button", name=SHOW).click()
            form.get_by_role("button", name="Add", exact=True).click()
            expect(form.get_by_role("link", name=name)).to_be_visible()
            for box in form.get_by_role("textbox").all():
                expect(box).to_have_value("")
    assert list(yaml.safe_load(home.config.read_text("utf-8"))["servers"]) == ["one", "two"]


@pytest.mark.requirement("PAGE-41", "PAGE-2")
@THEMES
def test_what_cannot_be_sent_is_said_at_its_field_and_beside_a_button_that_looks_disabled(
    home: Home, chromium: Browser, theme: str
) -> None:
    home.write({})
    with gateway(home) as served, served.opened(chromium, color_scheme=theme) as opened:
        page = opened.page
        opened.go("servers")
        page.get_by_text("Add a server").click()
        form = page.locator(".adding")

        def at(name: str, *texts: str) -> None:
            field = form.locator(".field", has=page.get_by_role("textbox", name=name))
            expect(field.locator(".wrong")).to_have_text(texts)
            expect(field.get_by_role("textbox")).to_have_attribute("aria-invalid", "true")

        entry = fault_entry()
        fill(form, {"Name": "new", "Program": str(entry["command"])})
        fill(form, {"Arguments": "\n".join(map(str, entry["args"]))})
        form.get_by_role("button", name=SHOW).click()
        add = form.get_by_role("button", name="Add", exact=True)
        expect(add).to_be_enabled()
        colour = "one => getComputedStyle(one).backgroundColor"
        strong = add.evaluate(colour)
        fill(form, {"Name": " ", "Environment": "A=1\n\nFOO\n=x\nB=", "Headers": "Accept"})
        at("Name", "Write a name.")
        at("Environment", "Line 3 is not NAME=value: FOO", "Line 4 is not NAME=value: =x")
        at("Headers", "Line 1 is not Name: value: Accept")
        again = form.get_by_role("button", name="Show the plan with these values")
        expect(again).to_be_disabled()
        expect(add).to_be_disabled()
        expect(form.get_by_text("First mend what is marked above.")).to_be_visible()
        assert add.evaluate(colour) != strong
        assert violations(page) == []
        fill(form, {"Name": "new", "Environment": "A=1\nB=", "Headers": ""})
        again.click()
        add.click()
        expect(form.get_by_text("Added as")).to_be_visible()
    written = yaml.safe_load(home.config.read_text("utf-8"))["servers"]["new"]
    assert written["env"] == {"A": "1", "B": ""}


@pytest.mark.requirement("PAGE-1", "PAGE-2")
@THEMES
def test_a_refused_token_leads_to_the_form_with_what_is_wrong(
    home: Home, chromium: Browser, theme: str
) -> None:
    home.write({})
    with gateway(home) as served:
        page = chromium.new_page(color_scheme=theme)
        page.goto(f"{served.origin}/#/metrics")
        token, button = page.get_by_label("Token"), page.get_by_role("button", name="Open")

        origin = {"origin": served.origin}

        def send(value: str) -> int:
            token.fill(value)
            with page.expect_response("**/session") as answer:
                button.click()
            expect(token).to_have_value("")  # the answer is a form of its own
            return answer.value.status

        expect(page.locator("#refused")).to_have_text("")
        for number in range(2):
            assert send(f"wrong {number}") == 401
            expect(page.locator("#refused")).to_have_text(re.compile(WRONG))
        status = 401
        while status == 401:  # a slow browser is given its tries back meanwhile
            for number in range(AT_ONCE):
                guess = {"token": f"guess {number}"}
                httpx2.post(f"{served.origin}/session", data=guess, headers=origin)
            status = send("wrong again")
        assert status == 429
        expect(page.get_by_role("alert")).to_contain_text("Too many wrong tokens")
        expect(page).to_have_url(f"{served.origin}/#/metrics")
        assert violations(page) == []
        token.fill((home.folder / "data" / "http-token").read_text("ascii").strip())
        button.click()
        expect(page.get_by_role("heading", name="Metrics")).to_be_visible()
        page.context.close()


@pytest.mark.requirement("PAGE-1")
def test_a_token_that_is_sent_at_once_does_not_lose_the_place(
    home: Home, chromium: Browser
) -> None:
    home.write({})
    with gateway(home) as served:
        page = chromium.new_page()
        page.add_init_script(QUICKEST)
        page.goto(f"{served.origin}/#/metrics", wait_until="commit")
        expect(page.locator("#refused")).to_have_text(re.compile(WRONG))
        expect(page).to_have_url(f"{served.origin}/#/metrics")
        page.context.close()


@pytest.mark.requirement("PAGE-1")
def test_a_program_whose_token_is_refused_gets_json(home: Home) -> None:
    home.write({})
    with gateway(home) as served:
        kinds = []
        for accepted in ("*/*", "text/html,*/*;q=0.8"):
            headers = {"origin": served.origin, "accept": accepted}
            url, form = f"{served.origin}/session", {"token": "<b>wrong"}
            answer = httpx2.post(url, data=form, headers=headers)
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
            kinds.append(answer.headers["content-type"])
            assert ("content-security-policy" in answer.headers) == (accepted != "*/*")
    assert kinds == ["application/json", "text/html; charset=utf-8"]
