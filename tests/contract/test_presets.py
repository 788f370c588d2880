"""Presets, in the registry, in the library and over the API: specs/api.md."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from discovery_engine import DiscoveryError
from discovery_engine.errors import ToolNotFoundError
from tests.api_server import served
from tests.engines import Folder, good

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-20")]

ECHO = {"server": "good", "tool": "echo", "name": "greeting"}

names = st.text(st.characters(), min_size=1, max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(names, values, max_size=3)


async def test_a_preset_is_kept_between_runs_and_replaced_by_its_name(folder: Folder) -> None:
    folder.write(good())
    async with folder.open() as engine:
        await engine.presets.save("good", "echo", "greeting", {"text": "hello"})
        with pytest.raises(ToolNotFoundError, match="eco"):
            await engine.presets.save("good", "eco", "greeting", {})
    async with folder.open() as engine:
        [kept] = await engine.presets.list()
        await engine.presets.save("good", "good:echo", "greeting", {"text": "welcome"})
        [replaced] = await engine.presets.list("good", "echo")
        others = await engine.presets.list("good", "pid")

    assert (kept.key, kept.arguments) == (("good", "echo", "greeting"), {"text": "hello"})
    assert replaced.arguments == {"text": "welcome"}
    assert others == ()


SECRETS: list[tuple[dict[str, Any], str]] = [
    ({"text": "it is stored-Value-77"}, "arguments.text"),
    ({"password": "hunter2"}, "arguments.password"),
    ({"login": {"api_key": ["kf83hd"]}}, "arguments.login.api_key[0]"),
    ({"headers": ["Authorization: Bearer abcdefgh12"]}, "arguments.headers[0]"),
    ({"url": "https://me:pa55word@example.com"}, "arguments.url"),
    ({"stored-Value-77": 1}, "the name of a member of arguments"),
]
HARMLESS: list[dict[str, Any]] = [
    {"page": "0f8fad5b-d9cd-469f-a165-70867728950e", "key": "user:1"},
    {"text": "where is the token?", "count": 12, "max_tokens": 4096},
    {"password": "${secret:TOKEN}", "nested": [[None, True, 1.5, 2**70]]},
]


async def test_arguments_with_a_secret_are_refused_with_its_place_and_others_are_kept(
    folder: Folder,
) -> None:
    folder.write(good())
    refused = {}
    async with folder.open() as engine:
        engine.secrets.set("TOKEN", "stored-Value-77")
        for arguments, place in SECRETS:
            with pytest.raises(DiscoveryError) as error:
                await engine.presets.save("good", "echo", "mine", arguments)
            refused[place] = error.value.code, f"{error.value}{error.value.hint}"
        none = await engine.presets.list()
        for number, arguments in enumerate(HARMLESS):
            await engine.presets.save("good", "echo", str(number), arguments)
        kept = await engine.presets.list()

    for place, (code, text) in refused.items():
        assert code == "PRESET_REFUSED"
        assert f"{place} looks like a secret" in text
        assert "stored-Value-77" not in text
    assert none == ()
    assert [preset.arguments for preset in kept] == HARMLESS


async def test_presets_are_kept_listed_in_pages_and_deleted_over_the_api(folder: Folder) -> None:
    async with served(folder) as api:
        for name in ("one", "two/\u0000 \U0001f600", "three"):
            body = {**ECHO, "name": name, "arguments": {"text": name}}
            saved = await api.ask("/presets", "PUT", json=body)
            assert saved.status_code == 200, saved.text
        first = await api.get("/presets", server="good", tool="echo", limit=2)
        rest = await api.get("/presets", limit=2, cursor=first["next_cursor"])
        key = {**ECHO, "name": "one"}
        deleted = [(await api.ask("/presets", "DELETE", params=key)).json() for _ in "ab"]
        others = await api.get("/presets", server="other")

    shown = [one["name"] for one in first["presets"] + rest["presets"]]
    assert shown == ["one", "three", "two/\u0000 \U0001f600"]
    assert first["presets"][0].keys() == {"server", "tool", "name", "arguments", "updated_at"}
    assert rest["next_cursor"] is None
    assert deleted == [{"deleted": True}, {"deleted": False}]
    assert others["presets"] == []
