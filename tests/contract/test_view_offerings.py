"""Resources, templates and prompts in a view: what is outside of it stays unknown and unasked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from discovery_server.gateway import Gateway
from tests.engines import Folder
from tests.offering_clients import ask, served
from tests.servers.offerings import World, prompt, resource, template

READS = ("resources/read", "resources/subscribe", "prompts/get", "completion/complete")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def docs(tmp_path: Path) -> World:
    return World(tmp_path / "docs.json").offer(
        resources=[resource("file:///readme"), resource("file:///secret", "the hidden one")],
        templates=[template("file:///{+path}"), template("db://{table}", "tables")],
        prompts=[prompt("review", "code"), prompt("deploy_all", "target")],
    )


@pytest.fixture
def other(tmp_path: Path) -> World:
    return World(tmp_path / "other.json", "other").offer(
        resources=[resource("x:/other")],
        templates=[template("y:/{id}", "ids")],
        prompts=[prompt("plan")],
    )


BY_RULES = {
    "servers": ["docs"],
    "resourceRules": [{"pattern": ["*secret*", "db://*"], "enabled": False}],
    "promptRules": [{"pattern": "deploy*", "enabled": False}],
}
TAGGING = {
    "resourceRules": [{"pattern": ["file:///readme", "files"], "tags": ["open"]}],
    "promptRules": [{"pattern": "review", "tags": ["open"]}],
}
BY_TAGS = {"tags": ["open"]}
WAYS_OF_HIDING: dict[str, dict[str, Any]] = {
    "rules": {"views": {"some": BY_RULES}},
    "tags": {**TAGGING, "views": {"some": BY_TAGS}},
}
HIDING = pytest.mark.parametrize("sections", WAYS_OF_HIDING.values(), ids=WAYS_OF_HIDING)


def in_view(gateway: Gateway, name: str = "some") -> Gateway:
    shown = gateway.in_view(name)
    assert shown is not None
    return shown


WAYS_OUT = [
    "file:///secret",
    "file:///a/../secret",
    "file:///a/%2e%2e/secret",
    "file:///%73ecret",
    "file:///%2573ecret",
    "file:///SECRET",
    "file:///secret?x",
    "file:///secret#x",
    "file:///./secret/",
    "file:///a\\..\\secret",
    f"discovery://servers/docs/resources/{quote('file:///secret', safe='')}",
    "discovery://servers/docs/resources/file:///a/../secret",
    "db://users",
    "x:/other",
    "y:/1",
    "discovery://servers/other/resources/x%3A%2Fother",
]


@HIDING
@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2")
async def test_client_of_a_view_reaches_nothing_outside_of_it(
    folder: Folder, docs: World, other: World, sections: dict[str, Any]
) -> None:
    def completing(**reference: str) -> dict[str, Any]:
        return {"ref": reference, "argument": {"name": "path", "value": ""}}

    attempts: list[tuple[str, dict[str, Any]]] = [
        *(("resources/read", {"uri": uri}) for uri in WAYS_OUT),
        *(("completion/complete", completing(type="ref/resource", uri=uri)) for uri in WAYS_OUT),
        *(
            ("prompts/get", {"name": name, "arguments": {}})
            for name in ("deploy_all", "docs:deploy_all", "plan", "other:plan")
        ),
        *(
            ("completion/complete", completing(**one))
            for one in (
                {"type": "ref/prompt", "name": "deploy_all"},
                {"type": "ref/prompt", "name": "other:plan"},
                {"type": "ref/resource", "uri": "db://{table}"},
                {"type": "ref/resource", "uri": "discovery://servers/other/resources/y:/{id}"},
            )
        ),
    ]
    async with served(folder, docs, other, **sections) as (gateway, _):
        some = in_view(gateway)
        refusals = []
        for method, params in attempts:
            with pytest.raises(Exception, match="_NOT_FOUND") as refused:
                await ask(some, method, **params)
            refusals.append(f"{method} {params}: {refused.value.message}")

    assert not docs.asked(*READS)
    assert not other.asked(*READS)
    for refusal in refusals:  # unknown, not forbidden: nobody learns that it exists
        assert "_NOT_FOUND" in refusal, refusal
        assert "hidden one" not in refusal
        assert "rule" not in refusal


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2")
async def test_completion_of_a_template_names_nothing_hidden(folder: Folder, docs: World) -> None:
    world: dict[str, Any] = {
        "resources": [resource("file:///readme"), resource("file:///hidden")],
        "templates": [template("file:///{+path}"), template("x:/{dir}/{name}")],
        "completions": ["readme", "secret", "a/../secret", "%73ecret", "hidden", "a/"],
    }
    docs.offer(**world)
    hiding = [{"pattern": "*secret*", "enabled": False}]
    some = {"some": {"resourceRules": [{"pattern": "*hidden", "enabled": False}]}}

    async def completed(gateway: Gateway, uri: str, name: str, **more: Any) -> dict[str, Any]:
        argument = {"name": name, "value": ""}
        reference = {"type": "ref/resource", "uri": uri}
        answer = await ask(gateway, "completion/complete", ref=reference, argument=argument, **more)
        return answer["completion"]

    async with served(folder, docs, resourceRules=hiding, views=some) as (gateway, _):
        everybody = await completed(gateway, "file:///{+path}", "path")
        within = await completed(in_view(gateway), "file:///{+path}", "path")
        directory = {"context": {"arguments": {"dir": "d"}}}
        known = await completed(in_view(gateway), "x:/{dir}/{name}", "name", **directory)
        unknown = await completed(in_view(gateway), "x:/{dir}/{name}", "name")

    assert everybody == {"values": ["readme", "hidden", "a/"], "total": 3, "hasMore": False}
    assert within["values"] == ["readme", "a/"]
    assert within["total"] == 2
    assert "secret" not in known["values"]
    assert "hidden" not in known["values"]
    assert "readme" in known["values"]
    assert unknown["values"] == world["completions"]  # of which URI it is part is not known


@pytest.mark.anyio
@pytest.mark.requirement("VIEW-2")
async def test_instructions_of_a_server_that_name_what_a_view_hides_are_not_shown(
    folder: Folder, docs: World
) -> None:
    offered = json.loads(docs.path.read_text("utf-8"))
    docs.offer(**offered, instructions="Begin with deploy_all, then read file:///readme.")
    views = {
        "some": {"promptRules": [{"pattern": "deploy*", "enabled": False}]},
        "others": {"promptRules": [{"pattern": "review", "enabled": False}]},
    }
    async with served(folder, docs, views=views) as (gateway, _):
        texts = {}
        for name in ("some", "others"):
            answer = await ask(
                in_view(gateway, name), "resources/read", uri="discovery://servers/docs/info"
            )
            texts[name] = answer["contents"][0]["text"]
            texts[name] += in_view(gateway, name).instructions("2025-11-25")

    assert "deploy_all" not in texts["some"]
    assert "Begin with deploy_all" in texts["others"]
