"""The roots and the time limit that the configuration gives for the questions of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.config.serve_settings import ServeSettings
from discovery_engine.config.settings import ServerSettings, Settings
from discovery_engine.runtime.question_policy import QuestionPolicy, question_settings
from discovery_engine.tools.model import ServerName

SERVER = ServerName("s")


def roots_of(path: str = "", *, own: Any = None, **section: Any) -> tuple[JSONObject, ...] | None:
    servers = (ServerSettings(SERVER, roots=own),)
    settings = Settings(path=path, servers=servers, server=ServeSettings(**section))
    return question_settings(settings, SERVER).roots


@pytest.mark.requirement("QST-47")
def test_roots_are_addresses_of_folders_with_their_names(tmp_path: Path) -> None:
    roots = ("here", "/srv/shop/", "../up/./a b", "file:///data/a%20b", "file:///")

    assert roots_of(str(tmp_path / "discovery.yaml"), roots=roots) == (
        {"uri": (tmp_path / "here").as_uri(), "name": "here"},
        {"uri": "file:///srv/shop", "name": "shop"},
        {"uri": (tmp_path.parent / "up" / "a b").as_uri(), "name": "a%20b"},
        {"uri": "file:///data/a%20b", "name": "a%20b"},
        {"uri": "file:///"},
    )


@pytest.mark.requirement("QST-47")
def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert roots_of(roots=("~/shop", "~")) == (
        {"uri": (tmp_path / "shop").as_uri(), "name": "shop"},
        {"uri": tmp_path.as_uri(), "name": tmp_path.name},
    )


@pytest.mark.requirement("QST-47")
def test_the_roots_of_a_server_take_the_place_of_those_for_all() -> None:
    assert roots_of() is None
    assert roots_of(roots=("/a",), own=("/b",)) == ({"uri": "file:///b", "name": "b"},)
    assert roots_of(roots=("/a",), own=()) == ()
    assert roots_of(own=()) == ()


@pytest.mark.requirement("QST-52")
def test_another_configuration_gives_other_settings_at_once() -> None:
    current = Settings(server=ServeSettings(question_timeout=1, roots=("/a",)))
    policy = QuestionPolicy(lambda: current)
    first = policy.of_server(SERVER)
    same = policy.of_server(SERVER)

    current = Settings(server=ServeSettings(question_timeout=2))
    second = policy.of_server(SERVER)

    assert first is same
    assert (first.timeout, first.roots) == (1, ({"uri": "file:///a", "name": "a"},))
    assert (second.timeout, second.roots) == (2, None)
