"""The verbs of an engine in a view: each one knows a hidden server as little as one that is not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from itertools import product
from pathlib import Path

import pytest

from discovery_engine import OfferingKind
from discovery_engine.engine import Engine, ScopedEngine
from discovery_engine.errors import NotFoundError
from tests.engines import Folder
from tests.factories import make_definition
from tests.told import Told

PROMPT = {"ref": {"type": "ref/prompt", "name": "zoo:plan"}, "argument": {"name": "a", "value": ""}}
ADDRESS = "discovery://servers/zoo/resources/file%3A%2F%2F%2Fmap"

Verb = Callable[[ScopedEngine], Awaitable[object] | object]

VERBS: dict[str, Verb] = {
    "is_listed": lambda engine: engine.is_listed("zoo"),
    "list_tools": lambda engine: engine.list_tools("zoo"),
    "search": lambda engine: engine.search("do feed lion", server="zoo"),
    "details": lambda engine: engine.details("zoo", "feed_lion"),
    "execute": lambda engine: engine.execute("zoo", "feed_lion", {}),
    "preview": lambda engine: engine.preview("zoo", "feed_lion", {}),
    "offerings.list": lambda engine: engine.offerings.list(OfferingKind.PROMPT, "zoo"),
    "offerings.read_resource": lambda engine: engine.offerings.read_resource(ADDRESS),
    "offerings.watch_resource": lambda engine: engine.offerings.watch_resource(ADDRESS),
    "offerings.get_prompt": lambda engine: engine.offerings.get_prompt("zoo:plan"),
    "offerings.complete": lambda engine: engine.offerings.complete(PROMPT),
}
WITHOUT_ADDRESS = {
    *("within", "in_view", "visible_to", "toolset", "subscribe", "wait_embedded", "wait_listed"),
    *("expect_client", "roots_changed", "close_client"),
    "offerings.unwatch_resource",  # takes what `watch_resource` gave
}
VIEWS = {"farmers": {"servers": ["farm"]}, "everything": {"searchLimit": 5}}
PARTS: dict[str, Callable[[Engine], ScopedEngine]] = {
    "a view": lambda engine: engine.in_view("farmers"),
    "another team": lambda engine: engine.visible_to("team:farmers", "user:anna"),
    "nobody": lambda engine: engine.visible_to(),
    "a view of a team": lambda engine: engine.visible_to("team:farmers").in_view("everything"),
}


@pytest.fixture
async def opened_folder(tmp_path: Path) -> Folder:
    for server, tool in (("zoo", "feed_lion"), ("farm", "feed_cow")):
        (tmp_path / server).mkdir()
        Told.beside(tmp_path / server, make_definition(tool, f"Do {tool}."))
    folder = Folder(tmp_path)
    told = [Told(tmp_path / name / "told.json").server(name) for name in ("zoo", "farm")]
    reserved = [{"pattern": "zoo", "visibleTo": ["team:keepers"]}]
    folder.write(*told, views=VIEWS, serverRules=reserved)
    return folder


async def called(verb: Verb, engine: ScopedEngine) -> None:
    result = verb(engine)
    if isawaitable(result):
        await result


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2", "SCP-2")
async def test_no_verb_of_an_engine_in_a_view_knows_a_hidden_server(opened_folder: Folder) -> None:
    named: list[str] = []

    async with opened_folder.open() as engine:
        for listed in (["farm"], ["farm", "zoo"]):
            await engine.refresh(listed)
            for (verb, run), (part, shown) in product(VERBS.items(), PARTS.items()):
                with pytest.raises(NotFoundError) as refused:
                    await called(run, shown(engine))
                if any("zoo" in name or "lion" in name for name in refused.value.nearest):
                    named.append(f"{verb} in {part}")

        verbs = {name for name in dir(ScopedEngine) if callable(getattr(ScopedEngine, name))}
        offerings = type(engine.offerings)
        verbs |= {f"offerings.{name}" for name in dir(offerings)}
    public = {name for name in verbs if not name.rpartition(".")[2].startswith("_")}

    assert named == []
    assert public == VERBS.keys() | WITHOUT_ADDRESS  # a new one is tried here
    assert Told(opened_folder.path / "zoo" / "told.json").starts == 1
