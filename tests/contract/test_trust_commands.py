"""`discovery trust`, `review` and `lock` in processes of their own, as a person meets them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from discovery_engine._util.json import JSONObject
from tests.contract.discovery import Discovery, Finished
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.kinds import thinned
from tests.told import Told
from tests.unit.trust.mutations import MUTATIONS, TOOL

OTHER = make_definition("other", "Another one.")
TYPE = MUTATIONS["type"]


@dataclass(frozen=True)
class Home:
    discovery: Discovery
    told: Told

    def __call__(self, *words: str, **environ: str) -> Finished:
        return self.discovery(*words, **environ)

    @property
    def lock(self) -> Path:
        return self.discovery.home / "discovery.lock"

    def configure(self, **sections: Any) -> None:
        command, *args = self.told.command
        entry = {"command": command, "args": args}
        content = {"servers": {"told": entry}, **sections}
        (self.discovery.home / "discovery.yaml").write_text(json.dumps(content), "utf-8")

    def says(self, *tools: JSONObject) -> None:
        self.told.says(*tools)
        assert self("refresh").code == 0


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> Home:
    made = Home(Discovery(tmp_path, forked), Told.beside(tmp_path, TOOL, OTHER))
    made.configure()
    assert made("refresh").code == 0
    return made


@pytest.mark.requirement("TRU-5")
def test_a_configuration_that_is_named_has_nothing_to_approve(home: Home) -> None:
    done = home("trust")

    assert done.code == 0
    assert "no server waits" in done.err


def test_an_approval_is_not_given_and_taken_back_at_once(home: Home) -> None:
    done = home("trust", "--yes", "--revoke")

    assert done.code == 2
    assert "either --yes or --revoke" in done.err


@pytest.mark.requirement("TRU-17", "TRU-20")
def test_review_shows_what_was_and_what_is_and_accepts_only_when_told(home: Home) -> None:
    home.says(MUTATIONS["invisible letter"], OTHER)

    shown = home("review", "told")
    refused = home("execute", "told:send_mail")
    accepted = home("review", "--accept")

    assert shown.code == 4
    assert "send_mail: text" in shown.out
    assert "- Send a mail to somebody.\n" in shown.out
    assert "+ Send a mail to somebody.<U+200B>\n" in shown.out
    assert refused.code == 4
    assert "`discovery review told`" in refused.err
    assert accepted.code == 0
    assert home("review").code == 0
    assert home("search", "send", "mail").code == 0


@pytest.mark.requirement("TRU-17")
@pytest.mark.skipif(sys.platform == "win32", reason="terminals are a matter of POSIX")
@pytest.mark.parametrize("typed", thinned(["n\n", "\n", "no\ny\n", "\x04"]), ids=repr)
def test_at_a_terminal_nothing_is_accepted_without_a_yes(home: Home, typed: str) -> None:
    home.says(TYPE, OTHER)

    asked = home.discovery.at_terminal("review", typed=typed)

    assert "Accept 1 change of told? [y/N]" in asked.shown
    assert asked.code != 0
    assert home("execute", "told:send_mail").code == 4
    assert home("review").code == 4


@pytest.mark.requirement("TRU-17")
@pytest.mark.skipif(sys.platform == "win32", reason="terminals are a matter of POSIX")
def test_at_a_terminal_a_change_is_shown_asked_about_and_accepted_with_a_yes(home: Home) -> None:
    home.says(TYPE, OTHER)

    asked = home.discovery.at_terminal("review", typed="y\n")

    shown, question, answered = asked.shown.partition("Accept 1 change of told? [y/N]")
    assert question
    assert "string" in shown
    assert "integer" in shown
    assert "accepted 1 change" in answered
    assert asked.code == 0
    assert home("review").code == 0


@pytest.mark.thorough
@pytest.mark.requirement("TRU-17")
def test_no_other_command_accepts_a_change(home: Home) -> None:
    home.says(TYPE, OTHER)

    for words in (
        ["refresh"],
        ["refresh", "told"],
        ["trust", "--yes"],
        ["enable", "told"],
        ["lock"],
        ["search", "mail"],
        ["inspect", "told:send_mail"],
        ["execute", "told:send_mail"],
        ["review", "--json"],
    ):
        home(*words)
        assert home("review").code == 4, words


@pytest.mark.requirement("TRU-17", "TRU-20")
def test_a_review_in_json_has_every_change_whole(home: Home) -> None:
    home.says(TYPE, OTHER)

    [server] = home("review", "--json").json["servers"]
    [review] = server["reviews"]

    assert (server["name"], review["tool"], review["weight"]) == ("told", "send_mail", "breaking")
    assert review["changes"] == [
        {
            "weight": "breaking",
            "path": "inputSchema.properties.to.type",
            "before": "string",
            "after": "integer",
            "words": [
                {"kind": "removed", "text": "string"},
                {"kind": "added", "text": "integer"},
            ],
        }
    ]
    assert review["now"] == TYPE


@pytest.mark.requirement("TRU-17")
@pytest.mark.parametrize("name", thinned(["other", "told:other"]))
def test_one_tool_of_several_may_be_accepted(home: Home, name: str) -> None:
    home.says(TYPE, make_definition("other", "Psst."))

    assert home("review", "--tool", name, "--accept").code == 0

    assert home("review").code == 4
    assert home("execute", "told:other").code == 0


@pytest.mark.requirement("TRU-17", "CLI-5")
def test_a_tool_to_review_that_does_not_exist_is_no_good_news(home: Home) -> None:
    home.says(TYPE, OTHER)

    done = home("review", "--tool", "send_male", "--accept")

    assert done.code == 2
    assert "did you mean 'send_mail'?" in done.err
    assert home("review").code == 4


@pytest.mark.requirement("TRU-13", "TRU-17")
def test_a_new_tool_in_quarantine_is_shown_whole(tmp_path: Path, forked: Preloaded) -> None:
    home = Home(Discovery(tmp_path, forked), Told.beside(tmp_path, OTHER))
    home.configure(trust="quarantine")

    shown = home("review")

    assert shown.code == 4
    assert "other: new" in shown.out
    assert '"description": "Another one."' in shown.out
    assert home("review", "--accept").code == 0
    assert home("execute", "told:other").code == 0


@pytest.mark.requirement("TRU-15")
def test_every_reading_command_says_that_something_waits(home: Home) -> None:
    home.says(TYPE, OTHER)

    for words in (["list"], ["search", "other"], ["tools", "told"], ["refresh"]):
        assert "told: 1 tool waits for review" in home(*words).err
    assert "1 withheld until reviewed" in home("doctor").out
    assert "a change that waits for review" in home("why", "told:send_mail").out
    assert home("tools", "told", "--all").out.count("send_mail") == 0


@pytest.mark.requirement("TRU-30", "TRU-32")
def test_lock_writes_and_check_reports_what_differs(home: Home) -> None:
    written = home("lock")
    before = home.lock.read_bytes()
    same = home("lock", "--check")
    home.told.says(TYPE, make_definition("third"))
    checked = home("lock", "--check")

    assert (written.code, same.code, checked.code) == (0, 0, 7)
    assert "pinned 2 tools" in written.err
    assert checked.out.splitlines()[0] == "removed (breaking)  told:other [LOCK_REMOVED]"
    assert "changed (breaking)  told:send_mail" in checked.out
    assert "added (compatible)  told:third" in checked.out
    assert "2 breaking, 1 compatible" in checked.err
    assert home.lock.read_bytes() == before


@pytest.mark.requirement("TRU-32")
def test_a_check_in_json_is_one_document(home: Home) -> None:
    home("lock")
    home.told.says(MUTATIONS["title"], OTHER)

    form = home("lock", "--check", "--json").json

    [deviation] = form["deviations"]
    assert (deviation["code"], deviation["subject"]) == ("LOCK_CHANGED", "told:send_mail")
    assert (deviation["what"], deviation["tool"], deviation["weight"]) == (
        "changed",
        "send_mail",
        "text",
    )
    assert form["written"] is False


@pytest.mark.requirement("TRU-33")
def test_a_check_without_a_lock_file_is_an_error(home: Home) -> None:
    done = home("lock", "--check")

    assert done.code == 2
    assert "`discovery lock` writes one" in done.err


@pytest.mark.requirement("TRU-34")
def test_nothing_is_pinned_while_something_waits(home: Home) -> None:
    home.says(TYPE, OTHER)

    done = home("lock")

    assert done.code == 4
    assert "discovery review" in done.err
    assert not home.lock.exists()


@pytest.mark.requirement("TRU-34")
def test_nothing_is_pinned_while_a_server_cannot_be_asked(home: Home) -> None:
    home.configure()
    content = json.loads((home.discovery.home / "discovery.yaml").read_text("utf-8"))
    content["servers"]["gone"] = {"command": "no-such-program-anywhere"}
    (home.discovery.home / "discovery.yaml").write_text(json.dumps(content), "utf-8")

    done = home("lock", "--json")

    assert done.code == 5
    assert done.json["failed"] == ["gone"]
    assert not home.lock.exists()


@pytest.mark.requirement("TRU-31")
def test_frozen_commands_use_only_what_is_pinned(home: Home) -> None:
    home("lock")
    home.says(TOOL, OTHER, make_definition("third", "The third."))

    assert home("execute", "told:third").code == 0
    refused = home("--frozen", "execute", "told:third")
    assert refused.code == 4
    assert "lock --check" in refused.err
    assert home("execute", "told:other", "--frozen").code == 0
    assert home("search", "third", "--frozen").code == 2
    assert home("search", "third").code == 0
