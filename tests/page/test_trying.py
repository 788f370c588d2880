"""A tool is tried on the page, with a form, in a real browser: specs/page.md."""

from __future__ import annotations

import base64
import json
import re
import shlex
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.e2e.serving import FAULT_SERVER, Home, fault_entry
from tests.page.conftest import Opened, gateway
from tests.page.test_page import violations

PLACE = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
ISSUE = {
    "type": "object",
    "required": ["title", "priority", "place"],
    "properties": {
        "title": {"type": "string", "minLength": 3, "description": "<b>What</b> it is about"},
        "priority": {"enum": ["low", "<i>high</i>"]},
        "count": {"type": "integer", "maximum": 50, "default": 10},
        "due": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "public": {"type": "boolean"},
        "labels": {"type": "array", "uniqueItems": True, "items": {"enum": ["bug", "new"]}},
        "steps": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "place": PLACE,
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "who": {
            "oneOf": [
                {"title": "A person", **PLACE, "required": []},
                {"title": "A number", "type": "integer"},
            ]
        },
        "file": {"type": "string", "contentEncoding": "base64"},
        "extra": {"type": "object", "patternProperties": {"^x": {}}},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def program(name: str, *arguments: str) -> dict[str, Any]:
    path = str(FAULT_SERVER.with_name(name))
    return {"command": sys.executable, "args": ["-I", "-S", path, *arguments]}


def asking(mode: str) -> dict[str, Any]:
    return program("asking_server.py", mode, "--era", "legacy")


def write_tracker(home: Home) -> None:
    world = home.folder / "world.json"
    tool = {"name": "create", "description": "Creates", "inputSchema": ISSUE}
    world.write_text(json.dumps({"tools": [tool]}))
    home.write({"tracker": program("offering_server.py", str(world))})


def answer_of(dialog: Locator) -> Any:
    shown = dialog.locator(".outcome pre").first
    shown.wait_for()
    return json.loads(shown.inner_text())


@pytest.mark.requirement("PAGE-25")
def test_a_form_is_filled_in_and_what_was_typed_is_sent(home: Home, chromium: Browser) -> None:
    write_tracker(home)
    utc = {"timezone_id": "Etc/UTC"}
    with gateway(home) as served, served.opened(chromium, **utc) as opened:
        page = opened.page
        opened.go("tools/tracker/create")
        dialog = page.get_by_role("dialog", name="tracker:create")
        form = dialog.get_by_role("region", name="Try it")
        form.get_by_label("title").fill("ab")
        expect(form).to_contain_text("must have at least 3 characters")
        form.get_by_role("button", name="Call", exact=True).click()
        expect(form.get_by_label("city")).to_be_focused()
        expect(form).to_contain_text("3 arguments look wrong")
        assert violations(page) == []
        form.get_by_label("title").fill("A title\nof two lines")
        form.get_by_label("priority").select_option("<i>high</i>")
        form.get_by_label("city").fill("Naples")
        form.get_by_label("count").fill("51")
        expect(form).to_contain_text("must be 50 or less")
        form.get_by_label("count").fill("7")
        form.get_by_label("due").fill("2026-11-23")
        form.get_by_label("at", exact=False).and_(form.locator("[type=datetime-local]")).fill(
            "2026-11-23T10:00:00"
        )
        form.get_by_label("public").select_option("no (false)")
        form.get_by_role("button", name="Add labels").click()
        form.get_by_label("new", exact=True).check()
        form.get_by_role("button", name="Add steps").click()
        form.get_by_label("Item 1", exact=True).fill("first")
        form.get_by_role("button", name="Add an item").click()
        form.get_by_label("Item 2", exact=True).fill("second")
        form.get_by_label("note").locator("..").get_by_role("button", name="Set to null").click()
        form.get_by_role("button", name="Add who").click()
        form.get_by_label("Which").select_option("A number")
        form.get_by_label("Value", exact=True).fill("42")
        form.locator("[type=file]").set_input_files(
            {"name": "a.bin", "mimeType": "application/octet-stream", "buffer": b"\x00\xffbytes"}
        )
        form.get_by_label("extra").fill('{"x": [1')
        form.get_by_role("button", name="Call", exact=True).click()
        expect(form).to_contain_text("is not JSON")
        form.get_by_label("extra").fill('{"x": [1]}')
        form.get_by_role("button", name="Add headers").click()
        form.get_by_label("Name of a further one").fill("accept")
        form.get_by_role("button", name="Add", exact=True).click()
        form.get_by_label("accept").fill("*/*")
        assert violations(page) == []
        form.get_by_role("button", name="Call", exact=True).click()
        expect(page.get_by_text("The tool answered:")).to_be_visible()
        assert answer_of(dialog) == {
            "title": "A title\nof two lines",
            "priority": "<i>high</i>",
            "place": {"city": "Naples"},
            "count": 7,
            "due": "2026-11-23",
            "at": "2026-11-23T10:00:00Z",
            "public": False,
            "labels": ["new"],
            "steps": ["first", "second"],
            "note": None,
            "who": 42,
            "file": base64.b64encode(b"\x00\xffbytes").decode(),
            "extra": {"x": [1]},
            "headers": {"accept": "*/*"},
        }


@pytest.mark.requirement("PAGE-27")
def test_a_call_is_kept_under_a_name_and_shown_as_commands_that_make_it(
    home: Home, chromium: Browser
) -> None:
    home.write({"good": fault_entry()})
    given = 'it\'s "$HOME" `id` \\ !x\nü'
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("tools/good/echo")
        form = page.get_by_role("region", name="Try it")
        form.get_by_label("text").fill(given)
        form.get_by_text("Presets").click()
        form.get_by_label("Name").fill("quotes")
        form.get_by_role("button", name="Save").click()
        expect(form.get_by_role("button", name="Save over it")).to_be_visible()
        page.reload()
        form.get_by_label("Use").select_option("quotes")
        expect(form.get_by_label("text")).to_have_value(given)
        form.get_by_text("The same call as a command").click()
        execute, curl = (one.inner_text() for one in form.locator(".command code").all())
        form.get_by_role("button", name="Delete").click()
        expect(form.get_by_label("Use")).to_have_count(0)
        token = (home.folder / "data" / "http-token").read_text("ascii").strip()
        environment = {**home.environ, "DISCOVERY_TOKEN": token}
        words = shlex.split(execute)
        file = str(home.folder / "discovery.yaml")
        assert words[:-1] == ["discovery", "--config", file, "execute", "good:echo", "--args"]
        assert json.loads(words[-1]) == {"text": given}
        answers = [
            subprocess.run(
                ["/bin/sh", "-c", line],
                env=environment,
                cwd=home.folder,
                stdout=subprocess.PIPE,
                check=True,
            )
            for line in (
                curl.replace("curl", "curl -s", 1),
                execute.replace("discovery", f"{sys.executable} -m discovery_cli --json", 1),
            )
        ]
    texts = [json.loads(one.stdout)["result"]["content"][0]["text"] for one in answers]
    assert all(json.loads(text) == {"text": given} or text == given for text in texts)


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


SCRIPT = "<svg xmlns='http://www.w3.org/2000/svg' onload='document.title=`owned`'/>"
CONTENT = [
    {"type": "text", "text": '{"a": 1}'},
    {"type": "text", "text": "<img src=//elsewhere.example/x> \u202eright\u200b"},
    {"type": "image", "mimeType": "image/png", "data": base64.b64encode(png()).decode()},
    {
        "type": "image",
        "mimeType": "image/svg+xml",
        "data": base64.b64encode(SCRIPT.encode()).decode(),
    },
    {"type": "image", "mimeType": "image/png", "data": "//elsewhere.example/x.png?#"},
    {"type": "resource_link", "uri": "javascript:document.title='owned'", "name": "click me"},
    {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
    {"type": "of_later", "value": 7},
]


@pytest.mark.requirement("PAGE-27")
def test_a_result_is_shown_pretty_and_raw_and_nothing_of_it_acts(
    home: Home, chromium: Browser, tmp_path: Path
) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        "import sys; sys.path.insert(0, sys.argv[1]); import fault_server as f\n"
        f"answer = {{'content': {CONTENT!r}}}\n"
        "f.Server.call_ok = lambda self, message, name: f.answer(message, answer)\n"
        "f.Server('ok', 'legacy').run()\n",
        "utf-8",
    )
    entry = {"command": sys.executable, "args": ["-I", str(server), str(FAULT_SERVER.parent)]}
    home.write({"shows": entry})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("tools/shows/pid")
        form = page.get_by_role("region", name="Try it")
        form.get_by_role("button", name="Call", exact=True).click()
        outcome = form.locator(".outcome")
        expect(outcome).to_contain_text("<img src=//elsewhere.example/x> ⟨U+202E⟩right⟨U+200B⟩")
        expect(outcome.locator("pre").first).to_have_text('{\n  "a": 1\n}')
        image = outcome.locator("img")
        expect(image).to_have_count(1)
        assert (
            image.evaluate("async (one) => { await one.decode(); return one.naturalWidth; }") == 1
        )
        assert outcome.locator("a").count() == 0
        expect(outcome).to_contain_text("javascript:document.title")
        expect(outcome).to_contain_text("inside")
        expect(outcome.locator(".pill")).to_contain_text(re.compile(r"m?s$"))
        assert violations(page) == []
        outcome.get_by_role("button", name="Raw").click()
        assert json.loads(outcome.locator("pre").inner_text()) is not None
        assert "owned" not in page.title()


@pytest.mark.requirement("PAGE-28")
def test_a_long_call_shows_its_progress_and_is_cancelled(
    home: Home, chromium: Browser, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    home.write({"slow": fault_entry("awaits_file")})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        opened.go("tools/slow/echo")
        form = page.get_by_role("region", name="Try it")
        form.get_by_label("text").fill(str(done))
        form.get_by_role("button", name="Call", exact=True).press("Enter")
        expect(form.locator(".running .note")).to_have_text(re.compile(r"^\d+$"))
        assert violations(page) == []
        form.get_by_role("button", name="Cancel").press("Enter")
        expect(form.locator(".outcome")).to_contain_text("cancelled")
        form.get_by_role("button", name="Call", exact=True).press("Enter")
        expect(form.locator(".running")).to_be_visible()
        opened.go("servers")  # it goes on meanwhile
        done.touch()
        opened.go("tools/slow/echo")
        expect(form.locator(".outcome")).to_contain_text("done")
        form.get_by_text("2 calls of this visit").click()
        expect(form.locator(".history li")).to_have_count(2)
        form.get_by_role("button", name="Use again").last.click()
        expect(form.get_by_label("text")).to_have_value(str(done))
        assert [fault for fault in opened.faults if "409" not in fault] == []
        opened.faults.clear()  # the browser reports the cancelled call as an error of its own


def answered(opened: Opened, mode: str) -> Locator:
    opened.go(f"tools/{mode}/echo")
    form = opened.page.get_by_role("region", name="Try it")
    form.get_by_role("button", name="Call", exact=True).click()
    return form


@pytest.mark.requirement("PAGE-28")
def test_questions_in_the_middle_of_a_call_are_shown_and_answered(
    home: Home, chromium: Browser
) -> None:
    modes = ("form", "asks", "address", "poisoned")
    home.write({mode: asking(mode) for mode in modes})
    with gateway(home) as served, served.opened(chromium) as opened:
        page = opened.page
        answered(opened, "form")
        question = page.get_by_role("form", name="Question of form")
        expect(question).to_contain_text("form asks: Who are you?")
        question.get_by_label("name").fill("Ann")
        expect(question.get_by_label("password")).to_have_attribute("type", "password")
        question.get_by_label("age").fill("old")
        question.get_by_role("button", name="Send").click()
        expect(question).to_contain_text("must be a whole number")
        assert violations(page) == []
        opened.go("settings")  # a question waits, whatever is looked at
        page.reload()
        page.get_by_role("link", name="1 question waits").click()
        question.get_by_label("name").fill("Ann")
        question.get_by_label("age").fill("30")
        question.get_by_role("button", name="Send").click()
        expect(question).to_have_count(0)
        form = answered(opened, "asks")
        page.get_by_role("form", name="Question of asks").get_by_role("button").nth(1).click()
        expect(form.locator(".outcome")).to_contain_text("decline")
        form = answered(opened, "address")
        asked = page.get_by_role("form", name="Question of address")
        expect(asked).to_contain_text("https://example.org/login")
        assert asked.locator("a").count() == 0
        asked.get_by_role("button", name="I have opened it").click()
        expect(form.locator(".outcome")).to_contain_text("accept")
        answered(opened, "poisoned")
        expect(page.get_by_role("form", name="Question of poisoned")).to_contain_text("suspicious")
