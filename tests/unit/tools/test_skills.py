"""Skills as servers list them: a malformed one is dropped alone."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.messages import RequestTimeout, RpcError
from discovery_engine.rpc.protocol import SKILLS_EXTENSION
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.upstream.listing import list_offerings
from tests.rows import rows

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("EXT-4")]


def file(uri: str, content: str = "text", **members: Any) -> JSONObject:
    digest = f"sha256:{sha256(content.encode()).hexdigest()}"
    return {"uri": uri, "digest": digest, "size": len(content), **members}


def skill(name: str, *files: JSONObject, uri: str = "", **members: Any) -> JSONObject:
    uri = uri or f"skill://{name}/SKILL.md"
    frontmatter = {"name": name, "description": f"does {name}", **members.pop("frontmatter", {})}
    resources = [file(uri), *files]
    return {"uri": uri, "frontmatter": frontmatter, "resources": resources, **members}


GOOD = [
    skill("good", file("skill://good/a/b.md")),
    skill("nested", uri="github://acme/skills/nested/SKILL.md"),
    skill("wide", file("skill://wide/A/SKILL.md"), frontmatter={"license": "MIT", "new": [1]}),
]
BAD = [
    "text",
    {"uri": 7},
    {"uri": "skill://bare/SKILL.md"},
    skill("Upper"),
    skill("a--b"),
    skill("other", uri="skill://another/SKILL.md"),
    skill("page", uri="skill://page/PAGE.md"),
    skill("nothing", frontmatter={"description": " "}),
    skill("list", frontmatter={"allowed-tools": ["Bash"]}),
    skill("numbers", frontmatter={"metadata": {"version": 2}}),
    skill("dynamic", resources="dynamic"),
    skill("none", resources=None),
    skill("empty", resources=[]),
    skill("twice", file("skill://twice/SKILL.md")),
    skill("outside", file("skill://other/a.md")),
    skill("above", file("skill://above/../a.md")),
    skill("encoded", file("skill://encoded/%2e%2e/a.md")),
    skill("unsized", file("skill://unsized/a.md", size=True)),
    skill("digest", file("skill://digest/a.md", digest="md5:0")),
    skill("huge", file("skill://huge/a.md", size=17 << 20)),
    skill("many", *(file(f"skill://many/{number}.md") for number in range(512))),
    skill("good"),  # again
    skill("missing"),
    skill("changed"),
    skill("long"),
]


async def fetch(method: str, params: JSONObject, _: RequestTimeout) -> JSONObject:
    if method == "skills/list":
        return {"skills": [*BAD[:12], *GOOD, *BAD[12:]]}
    uri = params["uri"]
    if "missing" in uri:
        raise RpcError(-32602, "no such resource")
    text = "other" if "changed" in uri else "text"
    return {"contents": [{"uri": uri, "text": text}, *([{}] if "long" in uri else [])]}


@rows(
    ("seconds", "size", "read_count", "reason"),
    [(0.0, 4, 0, "the skills before it took 0 s"), (60.0, 60_000, 287, "16 MiB of text")],
)
async def test_the_skills_of_one_server_are_read_within_bounds(
    seconds: float, size: int, read_count: int, reason: str
) -> None:
    text, reads = "x" * size, []
    names = [f"skill-{number}" for number in range(300)]

    async def endless(method: str, params: JSONObject, _: RequestTimeout) -> JSONObject:
        if method == "skills/list":
            return {"skills": [listed_with(name, text) for name in names]}
        reads.append(params["uri"])
        return {"contents": [{"uri": params["uri"], "text": text}]}

    listed = await list_offerings(
        endless, {"extensions": {SKILLS_EXTENSION: {}}}, tools=(), seconds=seconds
    )

    assert len(reads) == len(listed[OfferingKind.SKILL].definitions)
    assert len(reads) <= read_count
    assert all(reason in dropped.reason for dropped in listed[OfferingKind.SKILL].dropped)


def listed_with(name: str, text: str) -> JSONObject:
    uri = f"skill://{name}/SKILL.md"
    return {**skill(name), "resources": [file(uri, text)]}


async def test_a_malformed_skill_loses_only_itself() -> None:
    capabilities = {"extensions": {SKILLS_EXTENSION: {}}}

    listed = await list_offerings(fetch, capabilities, tools=(), seconds=5)

    skills = listed[OfferingKind.SKILL]
    assert [skill["uri"] for skill in skills.definitions] == [skill["uri"] for skill in GOOD]
    assert all(skill["text"] == "text" for skill in skills.definitions)
    assert len(skills.dropped) == len(BAD)
    assert all(dropped.reason for dropped in skills.dropped)
