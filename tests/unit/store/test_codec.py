from __future__ import annotations

import json
import subprocess
import sys
from typing import get_args, get_type_hints

import pytest
from msgspec import Struct, convert
from msgspec.structs import fields, replace

from discovery_engine.config.marketplace_settings import MarketplaceSettings
from discovery_engine.config.settings import InputFile, ServerSettings, Settings
from discovery_engine.errors import Origin
from discovery_engine.rules.rule import Verdict
from discovery_engine.store import codec
from discovery_engine.store.codec import (
    from_text,
    part_from_text,
    settings_from_text,
    settings_to_text,
    to_text,
)
from tests.factories import (
    make_part,
    make_problem,
    make_settings,
)
from tests.rows import rows


def test_defaults_take_no_room() -> None:
    assert settings_to_text(Settings()) == '{"remembered":"whole"}'
    assert json.loads(to_text(make_part("a", "x"))) == {"server": "a", "listed_at": 1000.0}


def test_a_part_is_written_without_its_tools() -> None:
    part, _ = part_from_text(to_text(make_part("a", "x", ttl=3.0)))

    assert part == make_part("a", ttl=3.0)


@rows(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param('{"enabled"', id="torn"),
        pytest.param("[]", id="a list"),
        pytest.param('{"enabled": true, "colour": 1}', id="unknown field"),
        pytest.param('{"tags": 3}', id="another type"),
    ],
)
def test_what_is_not_understood_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of them will do
        from_text(Verdict, text)


@rows(
    "text",
    [
        pytest.param('{"servers": [3]}', id="nested"),
        pytest.param('{"servers": [{"name": "a", "transport": null, "is_found": true}]}', id="old"),
        pytest.param('{"server_rules": []}', id="keys of an older version"),
        pytest.param('{"toolRules": [{"pattern": ["*"], "unless": ["x"]}]}', id="of a newer one"),
        pytest.param('{"cache": 3}', id="another type"),
        pytest.param("[]", id="a list"),
    ],
)
def test_settings_of_another_version_are_refused_whole(text: str) -> None:
    with pytest.raises(ValueError, match="settings"):
        settings_from_text(text)


def test_settings_that_were_read_are_written_the_same() -> None:
    text = settings_to_text(make_settings("a", "b", path="/home/\udcff/discovery.yaml"))

    assert settings_to_text(settings_from_text(text)) == text


def test_settings_are_read_as_their_structs_declare() -> None:
    settings = make_settings("a", "b")
    place = Origin("f", 1, 2)
    problem = make_problem(place, "servers.a", "is wrong", "mend it")
    whole = replace(
        settings,
        servers=tuple(replace(one, problem=problem, origin=place) for one in settings.servers),
        inputs=(InputFile("f", "f00d"), InputFile("g", None)),
        warnings=(problem,),
    )
    text = settings_to_text(whole)

    assert settings_from_text(text) == convert(json.loads(text), Settings)


@rows("cls", [Settings, ServerSettings, MarketplaceSettings])
def test_every_list_of_entries_is_read_as_such(cls: type[Struct]) -> None:
    hints = get_type_hints(cls)
    lists = {
        field.encode_name
        for field in fields(cls)
        for item in get_args(hints[field.name])[:1]
        if isinstance(field.default, tuple) and isinstance(item, type) and issubclass(item, Struct)
    }

    assert lists == {*codec._ITEMS.get(cls, {})}


@pytest.mark.thorough
def test_a_remembered_world_is_read_with_the_standard_library_alone() -> None:
    script = "import sys; import discovery_engine.store.sqlite.sqlite_registry; print(*sys.modules)"

    ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)

    heavy = {"asyncio", "anyio", "cachetools", "mcp", "pydantic", "regex", "wcmatch", "yaml"}
    assert not heavy & set(ran.stdout.decode().split())
