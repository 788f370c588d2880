"""Resources, templates and prompts in a view: what is outside of it stays unknown and unasked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine import OfferingKind
from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import OfferingEntry
from discovery_engine.errors import NotFoundError
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.offering import Offering
from discovery_engine.view.scope import Scope, ScopedCatalogs
from discovery_engine.view.view import View
from discovery_server.gateway import Gateway
from tests.engines import Folder
from tests.factories import make_part
from tests.offering_clients import ask, served
from tests.servers.offerings import World, prompt, resource, template
from tests.unit.server.fakes import make_view

VERSIONS = pytest.mark.parametrize(
    "version", ["2025-11-25", pytest.param("2026-07-28", marks=pytest.mark.matrix)]
)
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
WAYS_OF_HIDING: dict[str, JSONObject] = {
    "rules": {"views": {"some": BY_RULES}},
    "tags": {**TAGGING, "views": {"some": BY_TAGS}},
}
HIDING = pytest.mark.parametrize("sections", WAYS_OF_HIDING.values(), ids=WAYS_OF_HIDING)


def in_view(gateway: Gateway, name: str = "some") -> Gateway:
    shown = gateway.in_view(name)
    assert shown is not None
    return shown


async def names(gateway: Gateway, method: str, member: str, key: str, **about: Any) -> list[str]:
    listed = (await ask(gateway, method, **about))[member]
    return [one[key] for one in listed if not one[key].startswith(("discovery:", "mcp-discovery"))]


@HIDING
@VERSIONS
@pytest.mark.anyio
@pytest.mark.requirement("VIEW-10")
async def test_client_of_a_view_lists_what_the_view_shows(
    folder: Folder, docs: World, other: World, sections: JSONObject, version: str
) -> None:
    async with served(folder, docs, other, **sections) as (gateway, _):
        some = in_view(gateway)
        listed = [
            await names(some, "resources/list", "resources", "uri", version=version),
            await names(
                some, "resources/templates/list", "resourceTemplates", "uriTemplate",
                version=version,
            ),
            await names(some, "prompts/list", "prompts", "name", version=version),
        ]  # fmt: skip
        read = await ask(some, "resources/read", version, uri="file:///a/b")
        got = await ask(some, "prompts/get", version, name="review", arguments={"code": "1"})

    assert listed == [["file:///readme"], ["file:///{+path}"], ["review"]]
    assert read["contents"][0]["uri"] == "file:///a/b"
    assert got["messages"]


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
@VERSIONS
@pytest.mark.anyio
@pytest.mark.requirement("VIEW-10")
async def test_client_of_a_view_reaches_nothing_outside_of_it(
    folder: Folder, docs: World, other: World, sections: JSONObject, version: str
) -> None:
    def completing(**reference: str) -> JSONObject:
        return {"ref": reference, "argument": {"name": "path", "value": ""}}

    attempts: list[tuple[str, JSONObject]] = [
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
            with pytest.raises(RpcError) as refused:
                await ask(some, method, version, **params)
            refusals.append(f"{method} {params}: {refused.value.message}")

    assert not docs.asked(*READS)
    assert not other.asked(*READS)
    for refusal in refusals:  # unknown, not forbidden: nobody learns that it exists
        assert "_NOT_FOUND" in refusal, refusal
        assert "hidden one" not in refusal
        assert "rule" not in refusal


@HIDING
@pytest.mark.anyio
@pytest.mark.requirement("VIEW-10")
async def test_search_in_a_view_finds_no_resource_or_prompt_outside_of_it(
    folder: Folder, docs: World, other: World, sections: JSONObject
) -> None:
    async with served(folder, docs, other, **sections) as (_, engine):
        shown = engine.in_view("some")
        found = await shown.search(
            "secret readme files tables deploy review plan other", kinds=("resource", "prompt")
        )
        for server in ("docs", "other"):
            try:
                await shown.offerings.list(OfferingKind.PROMPT, server)
            except NotFoundError:
                assert sections["views"]["some"].get("servers")

    addresses = {hit.address for hit in found.offerings}
    assert addresses <= {"file:///readme", "file:///{+path}", "review"}


URIS = ["a:/1", "a:/2", "a:/secret", "b:/1"]
NAMES = ["one", "two"]
PATTERNS = st.sampled_from(["*", "a:/*", "!a:/*", "*secret*", "zoo:*", "one", "/2$/", "b://*"])
RULES = st.lists(
    st.builds(
        Rule,
        patterns=st.lists(PATTERNS, max_size=2).map(tuple),
        servers=st.lists(st.sampled_from(["zoo", "farm"]), max_size=1).map(tuple),
        has_tags=st.lists(st.sampled_from(["read", "none"]), max_size=1).map(tuple),
        enabled=st.none() | st.booleans(),
        tags=st.just(("read",)),
    ),
    max_size=3,
).map(tuple)
SCOPES = st.builds(
    Scope,
    resource_rules=RULES,
    prompt_rules=RULES,
    servers=st.lists(st.sampled_from(["zoo", "far*", "!zoo"]), max_size=1).map(tuple),
    tags=st.lists(st.sampled_from(["read", "write"]), max_size=1).map(tuple),
)
VERDICTS = st.builds(
    Verdict, st.booleans(), st.lists(st.sampled_from(["read", "write"]), unique=True).map(tuple)
)
WORLDS = st.fixed_dictionaries(
    {
        server: st.fixed_dictionaries(dict.fromkeys((*URIS, "a:/{x}", *NAMES), VERDICTS))
        for server in ("zoo", "farm")
    }
)


def kind_of(identifier: str) -> OfferingKind:
    if identifier in NAMES:
        return OfferingKind.PROMPT
    return OfferingKind.TEMPLATE if "{" in identifier else OfferingKind.RESOURCE


def world(of: dict[str, dict[str, Verdict]]) -> View:
    return make_view(
        *(
            make_part(
                server,
                offerings=tuple(
                    OfferingEntry(
                        Offering.from_mcp(
                            server, kind, {"name": name, kind.wire.identifier: name}
                        ),
                        verdict,
                    )
                    for name, verdict in verdicts.items()
                    if (kind := kind_of(name))
                ),
            )
            for server, verdicts in of.items()
        )
    )  # fmt: skip


@pytest.mark.requirement("VIEW-1", "VIEW-10")
@given(WORLDS, SCOPES)
def test_view_shows_no_resource_or_prompt_that_is_hidden_without_it(
    of: dict[str, dict[str, Verdict]], scope: Scope
) -> None:
    whole = world(of)
    shown = ScopedCatalogs(scope).view(whole)

    for kind in OfferingKind:
        visible = set(whole.offerings.visible(kind))
        within = set(shown.offerings.visible(kind))
        assert within <= visible
        for entry in visible - within:
            server, identifier = entry.offering.server, entry.offering.identifier
            find = shown.prompt if kind is OfferingKind.PROMPT else shown.resource
            with pytest.raises(NotFoundError):
                find(server, identifier)


@VERSIONS
@pytest.mark.anyio
@pytest.mark.requirement("RES-23", "VIEW-10")
async def test_completion_of_a_template_names_nothing_hidden(
    folder: Folder, docs: World, version: str
) -> None:
    world: JSONObject = {
        "resources": [resource("file:///readme"), resource("file:///hidden")],
        "templates": [template("file:///{+path}"), template("x:/{dir}/{name}")],
        "completions": ["readme", "secret", "a/../secret", "%73ecret", "hidden", "a/"],
    }
    docs.offer(**world)
    hiding = [{"pattern": "*secret*", "enabled": False}]
    some = {"some": {"resourceRules": [{"pattern": "*hidden", "enabled": False}]}}

    async def completed(gateway: Gateway, uri: str, name: str, **more: Any) -> JSONObject:
        argument = {"name": name, "value": ""}
        reference = {"type": "ref/resource", "uri": uri}
        answer = await ask(
            gateway, "completion/complete", version, ref=reference, argument=argument, **more
        )
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
