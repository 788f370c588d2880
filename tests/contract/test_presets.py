"""Presets, in the registry, in the library and over the API: specs/api.md."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discovery_engine import sync
from discovery_engine._util.json import JSONObject
from discovery_engine.errors import RegistryError, ToolNotFoundError
from discovery_engine.owner.presets import PresetRefusedError
from discovery_engine.registry.fallback import FallbackRegistry
from discovery_engine.registry.preset_records import Preset
from discovery_engine.registry.protocols import Registry
from tests.api_server import served
from tests.engines import Folder, good
from tests.kinds import thinned

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("API-20")]

SCOPE = "/home/someone/discovery.yaml"
ECHO = {"server": "good", "tool": "echo", "name": "greeting"}

names = st.text(st.characters(), min_size=1, max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | names,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(names, values, max_size=3)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kept=st.lists(
        st.builds(Preset, names, names, names, st.just({})), unique_by=lambda one: one.key
    ),
    scope=names,
)
def test_any_preset_comes_back_under_its_scope_until_it_is_deleted(
    store: Registry, kept: list[Preset], scope: str
) -> None:
    for known in store.presets(scope):
        store.delete_preset(scope, known.key)
    for preset in kept:
        store.save_preset(scope, preset)

    assert list(store.presets(scope)) == sorted(kept, key=lambda one: one.key)
    assert store.presets(f"{scope} of another") == ()
    for preset in kept:
        assert store.delete_preset(scope, preset.key)
        assert not store.delete_preset(scope, preset.key)
    assert store.presets(scope) == ()


def test_where_the_registry_cannot_be_used_no_preset_is_accepted_and_lost() -> None:
    store = FallbackRegistry("it is broken", hint="mend it")

    with pytest.raises(RegistryError, match="a preset cannot be kept: it is broken"):
        store.save_preset(SCOPE, Preset("a", "b", "c"))


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


@pytest.mark.parametrize(
    ("given_arguments", "place"),
    thinned(
        [
            ({"text": "it is stored-Value-77"}, "arguments.text"),
            ({"password": "hunter2"}, "arguments.password"),
            ({"login": {"api_key": ["kf83hd"]}}, "arguments.login.api_key[0]"),
            ({"pin": 1, "token": 483920}, "arguments.token"),
            ({"headers": ["Authorization: Bearer abcdefgh12"]}, "arguments.headers[0]"),
            ({"query": "select 'ghp_16C7e42F292c6912E7'"}, "arguments.query"),
            ({"url": "https://me:pa55word@example.com"}, "arguments.url"),
            ({"body": '{"client_secret": "k4w9-q"}'}, "arguments.body"),
            ({"stored-Value-77": 1}, "the name of a member of arguments"),
        ]
    ),
)
async def test_arguments_with_a_secret_are_refused_with_its_place(
    folder: Folder, given_arguments: JSONObject, place: str
) -> None:
    folder.write(good())
    async with folder.open() as engine:
        engine.secrets.set("TOKEN", "stored-Value-77")
        with pytest.raises(PresetRefusedError) as refused:
            await engine.presets.save("good", "echo", "mine", given_arguments)
        kept = await engine.presets.list()

    assert refused.value.message.startswith(f"{place} looks like a secret")
    assert "stored-Value-77" not in f"{refused.value}{refused.value.hint}"
    assert kept == ()


@pytest.mark.parametrize(
    "harmless",
    [
        {"page": "0f8fad5b-d9cd-469f-a165-70867728950e", "key": "user:1"},
        {"text": "where is the token?", "count": 12, "max_tokens": 4096},
        {"password": "${secret:TOKEN}", "nested": [[None, True, 1.5, 2**70]]},
    ],
)
async def test_ids_keys_and_references_are_kept(folder: Folder, harmless: JSONObject) -> None:
    folder.write(good())
    async with folder.open() as engine:
        await engine.presets.save("good", "echo", "mine", harmless)
        [kept] = await engine.presets.list()

    assert kept.arguments == harmless


async def test_a_preset_that_is_too_long_or_one_too_many_is_refused(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write(good())
    monkeypatch.setattr("discovery_engine.owner.presets._MOST", 1)
    async with folder.open() as engine:
        with pytest.raises(PresetRefusedError, match="65,536 bytes"):
            await engine.presets.save("good", "echo", "long", {"text": "a" * 65_536})
        for name in ("", "n" * 101):
            with pytest.raises(PresetRefusedError, match="1 to 100 characters"):
                await engine.presets.save("good", "echo", name, {})
        await engine.presets.save("good", "echo", "first", {})
        with pytest.raises(PresetRefusedError, match="1 presets already"):
            await engine.presets.save("good", "echo", "second", {})
        await engine.presets.save("good", "echo", "first", {"text": "other"})


def test_the_engine_without_async_has_presets(folder: Folder) -> None:
    folder.write(good())
    with sync.open_engine(folder.config, data_dir=folder.data) as engine:
        engine.presets.save("good", "echo", "mine", {"text": "hello"})
        [kept] = engine.presets.list("good")
        deleted = engine.presets.delete("good", "echo", "mine")

    assert (kept.name, deleted) == ("mine", True)


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


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"tool": "nothing"}, 404, "TOOL_NOT_FOUND"),
        ({"server": "nobody"}, 404, "SERVER_NOT_FOUND"),
        ({"arguments": {"token": "k39dh2"}}, 422, "PRESET_REFUSED"),
        ({"name": ""}, 422, "INVALID_REQUEST"),
        ({"arguments": None}, 422, "INVALID_REQUEST"),
    ],
)
async def test_a_preset_that_cannot_be_kept_is_refused_over_the_api(
    folder: Folder, change: dict[str, Any], status: int, code: str
) -> None:
    async with served(folder) as api:
        answer = await api.ask("/presets", "PUT", json={**ECHO, "arguments": {}, **change})

    assert (answer.status_code, answer.json()["code"]) == (status, code)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(given_arguments=arguments)
def test_whatever_is_kept_comes_back_as_it_was(
    store: Registry, given_arguments: JSONObject
) -> None:
    store.save_preset(SCOPE, Preset("a", "b", "c", given_arguments))
    assert store.presets(SCOPE)[0].arguments == given_arguments
