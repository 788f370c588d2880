"""What a team has for itself, and the questions that must not tell others about it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from discovery_engine._util.json import JSONObject
from discovery_engine.rpc.protocol import LATEST_HANDSHAKE, LATEST_MODERN
from discovery_server.client_notifications import open_notifications
from discovery_server.gateway import Gateway
from tests.api_server import Api, serving
from tests.engines import Folder
from tests.factories import make_definition
from tests.servers.offerings import World, prompt, resource, skill, template
from tests.unit.server.wire import HANDSHAKE

OWN_TEAM, OTHER_TEAMS = ("team:payments",), ("team:sales", "team:legal", "user:anna")
TOOLS = [
    make_definition("read_page", "Read one page of the handbook about invoices."),
    make_definition("list_pages", "List the pages of the handbook."),
    make_definition("drop_page", "Drop a page of the handbook."),
]
RESERVED_TOOL = make_definition("pay_out", "Pay the salary of an employee out of payroll.")
RESOURCES = [resource("file:///handbook", "handbook")]
RESERVED_RESOURCE = resource("file:///salaries", "salaries", description="All salaries.")
PROMPTS = [prompt("summary", "page")]
RESERVED_PROMPT = prompt("dismissal", "employee")
SKILL_TEXTS = {
    "skill://welcome/SKILL.md": "Read one page of the handbook, then greet.",
    "skill://welcome/words.md": "Good morning.",
}
RESERVED_SKILL_TEXTS = {
    "skill://raise/SKILL.md": "Call `pay_out` with the new salary.",
    "skill://raise/limits.md": "At most five percent.",
}
SKILLS = [skill("welcome", SKILL_TEXTS, "Welcome a new employee with the handbook")]
RESERVED_SKILL = skill("raise", RESERVED_SKILL_TEXTS, "Raise the salary of an employee in payroll")
DISABLING: JSONObject = {"pattern": "drop_*", "enabled": False}
RULES: JSONObject = {
    "toolRules": [{"pattern": "pay_*", "visibleTo": OWN_TEAM}, DISABLING],
    "resourceRules": [
        {"pattern": "*salaries*", "visibleTo": OWN_TEAM},
        {"pattern": "skill://raise/*", "visibleTo": OWN_TEAM},
    ],
    "promptRules": [{"pattern": "dismissal", "visibleTo": OWN_TEAM}],
}
RESERVING_NOTHING: JSONObject = {
    "serverRules": [{"pattern": "none", "visibleTo": "team:none"}],
    "toolRules": [DISABLING],
}
RESERVED_NAME = "docs_read"
"""Of a server: with one of its tools it reads as the name of another one of `docs`."""
RAISE, WELCOME = "skill://raise/SKILL.md", "skill://welcome/SKILL.md"
WORDS = "salary of an employee in payroll"
INSIDE = "file:///salaries"

ROUTE_QUESTIONS: dict[tuple[str, str], list[tuple[str, JSONObject]]] = {
    ("GET", "/status"): [("/status", {})],
    ("GET", "/servers"): [("/servers", {}), ("/servers?limit=1", {})],
    ("GET", "/servers/{server}"): [(f"/servers/{one}", {}) for one in ("payroll", "docs", "pay")],
    ("GET", "/servers/{server}/tools"): [
        (f"/servers/{one}/tools", {}) for one in ("payroll", "docs", "payrol")
    ],
    ("GET", "/servers/{server}/tools/{tool}"): [
        (f"/servers/{one}", {})
        for one in ("docs/tools/pay_out", "payroll/tools/transfer", "docs/tools/pay_ou")
    ],
    ("GET", "/servers/{server}/offerings"): [
        (f"/servers/{one}/offerings?kind={kind}", {})
        for one in ("docs", "payroll")
        for kind in ("resource", "template", "prompt", "skill")
    ],
    ("GET", "/tools"): [("/tools", {}), ("/tools?limit=1", {})],
    ("GET", "/search"): [
        (f"/search?query={WORDS}", {}),
        ("/search?query=payrol transfr", {}),
        ("/search?query=pay_out", {}),
        ("/search?query=page", {}),
        ("/search?query=handbook invoices", {}),
        ("/search?query=salaries&kind=resource&kind=prompt&kind=tool", {}),
        ("/search?query=transfer&server=payroll", {}),
        (f"/search?query={WORDS}&kind=skill", {}),
        ("/search?query=welcome a new employee&kind=skill", {}),
    ],
    ("GET", "/tokens"): [("/tokens", {}), (f"/tokens?request={WORDS}", {})],
    ("POST", "/servers/{server}/tools/{tool}/call"): [
        (f"/servers/{one}/call", {"arguments": {}})
        for one in ("docs/tools/pay_out", "payroll/tools/transfer", "payroll/tools/nothing")
    ],
    ("GET", "/calls"): [("/calls", {})],
    ("DELETE", "/calls/{call_id}"): [("/calls/one", {})],
    ("POST", "/servers/{server}/resources/read"): [
        ("/servers/docs/resources/read", {"uri": INSIDE}),
        ("/servers/docs/resources/read", {"uri": "file:///%73alaries"}),
        ("/servers/payroll/resources/read", {"uri": "pay:/r"}),
        ("/servers/docs/resources/read", {"uri": RAISE}),
        ("/servers/docs/resources/read", {"uri": WELCOME}),
    ],
    ("POST", "/servers/{server}/prompts/get"): [
        ("/servers/docs/prompts/get", {"name": "dismissal"}),
        ("/servers/payroll/prompts/get", {"name": "raise"}),
    ],
    ("GET", "/questions"): [("/questions", {})],
    ("POST", "/questions/{question_id}"): [("/questions/one", {"action": "decline"})],
}
"""For each route that is not the owner's: addresses, and a body that POST has."""

META_QUESTIONS: dict[str, list[JSONObject]] = {
    "list_mcp_servers": [{}],
    "search_tools": [
        {"query": WORDS},
        {"query": "transfer", "server": "payroll"},
        {"query": "payrol transfr"},
        {"query": "read a page"},
        {"query": "drop a page"},
        {"query": WORDS, "kinds": ["skill"]},
        {"query": "welcome a new employee", "kinds": ["skill"]},
    ],
    "list_tools": [{"server": "docs"}, {"server": "payroll"}, {"server": "payrol"}],
    "get_tool_details": [
        {"tool": "pay_out"},
        {"tool": "docs:pay_ou"},
        {"server": "payroll", "tool": "transfer"},
        {"tool": "payroll__transfer"},
        {"tool": "read_page"},
        {"tool": "drop_page"},
        {"tool": "docs__read_page"},
        {"tool": "docs__read__page"},
        {"tool": "docs:read_pag"},
        {"tool": "mcp__docs__read__page"},
        *({"tool": f"discovery://servers/docs/resources/{uri}"} for uri in (RAISE, WELCOME)),
        {"tool": "welcome"},
        {"tool": "raise"},
    ],
    "execute_tool": [
        {"tool": "pay_out", "arguments": {}},
        {"tool": "payroll:transfer", "arguments": {}},
        {"tool": "transfe", "arguments": {}},
        {"tool": "read_page", "arguments": {"none": 1}},
        {"tool": "docs:drop_page", "arguments": {}},
    ],
    "read_result": [{"handle": "0" * 24}],
    "execute_steps": [
        {"steps": [{"tool": "docs:pay_out", "arguments": {}}]},
        {"steps": [{"tool": "payroll:transfer", "arguments": {}}]},
    ],
    "execute_script": [
        {"code": f"await call({tool!r})"} for tool in ("pay_out", "payroll:transfer")
    ],
    "registry": [
        {"action": "find_tool", "query": WORDS},
        {"action": "find_tools", "queries": [WORDS, "transfer"]},
        {"action": "get_schema", "name": "payroll__transfer"},
        {"action": "get_schema", "name": "pay_out"},
        {"action": "proxy_call", "name": "payroll__transfer", "arguments": {}},
        {"action": "list"},
        {"action": "status"},
    ],
}
NOT_ASKED = {"browse"}  # what others publish; it is of no server here

REF = {"type": "ref/prompt", "name": "docs:dismissal"}
OFFERED: dict[str, list[JSONObject]] = {
    "resources/list": [{}],
    "resources/templates/list": [{}],
    "prompts/list": [{}],
    "resources/read": [
        {"uri": INSIDE},
        {"uri": "discovery://servers/payroll/resources/pay%3A%2Fr"},
        {"uri": "discovery://servers"},
        {"uri": "discovery://servers/payroll"},
        {"uri": "pay:/r"},
        {"uri": "file:///handbook"},
        {"uri": "wiki:///a"},
        *({"uri": uri} for uri in (*SKILL_TEXTS, *RESERVED_SKILL_TEXTS)),
        {"uri": "skill://raise/./SKILL%2Emd"},
        {"uri": "skill://raise/other.md"},
        {"uri": f"discovery://servers/docs/resources/{RAISE}"},
    ],
    "prompts/get": [
        {"name": "docs:dismissal"},
        {"name": "payroll:raise"},
        {"name": "dismissal"},
        {"name": "summary"},
    ],
    "skills/list": [{}],
    "skills/get": [
        {"uri": RAISE},
        {"uri": WELCOME},
        *(
            {"uri": f"discovery://servers/{server}/resources/{uri}"}
            for server in ("docs", "payroll")
            for uri in (RAISE, WELCOME)
        ),
    ],
    "completion/complete": [
        {"ref": REF, "argument": {"name": "employee", "value": ""}},
        {
            "ref": {"type": "ref/resource", "uri": "wiki:///{path}"},
            "argument": {"name": "path", "value": "sal"},
        },
    ],
    "tools/list": [{}],
    "tools/call": [
        {"name": "pay_out"},
        {"name": "docs__pay_out"},
        {"name": "payroll__transfer"},
        {"name": "docs__read__page"},
        {"name": "read_page"},
    ],
}
METHODS: dict[str, dict[str, list[JSONObject]]] = {
    LATEST_HANDSHAKE: OFFERED
    | {
        "initialize": [HANDSHAKE],
        "ping": [{}],
        "logging/setLevel": [{"level": "debug"}],
        "resources/subscribe": [{"uri": INSIDE}, {"uri": "pay:/r"}],
        "resources/unsubscribe": [{"uri": INSIDE}, {"uri": "pay:/r"}],
    },
    LATEST_MODERN: OFFERED
    | {
        "server/discover": [{}],
        # A resource that is not there: it is refused in the first message, and the stream goes on.
        "subscriptions/listen": [],
        "tasks/get": [{"taskId": "one"}],
        "tasks/update": [{"taskId": "one", "inputResponses": {}}],
        "tasks/cancel": [{"taskId": "one"}],
    },
}


@asynccontextmanager
async def placed(path: Path, *, with_reserved: bool, **server: Any) -> AsyncIterator[Api]:
    folder = Folder(path)
    folder.data.mkdir(parents=True)
    docs = World(path / "docs.json", "docs").offer(
        tools=TOOLS + [RESERVED_TOOL] * with_reserved,
        resources=RESOURCES + [RESERVED_RESOURCE] * with_reserved,
        prompts=PROMPTS + [RESERVED_PROMPT] * with_reserved,
        templates=[template("wiki:///{path}", "wiki")],
        completions=["handbook"] + ["salaries"] * with_reserved,
        skills=SKILLS + [RESERVED_SKILL] * with_reserved,
        contents={
            "file:///handbook": "Work well.",
            INSIDE: "Many.",
            **SKILL_TEXTS,
            **(RESERVED_SKILL_TEXTS if with_reserved else {}),
        },
    )
    # It has much that the other one has, too: what is ambiguous with it is not without it.
    payroll = World(path / "payroll.json", "payroll").offer(
        tools=[make_definition("transfer", "Transfer the salary of an employee."), *TOOLS],
        resources=[resource("pay:/r"), *RESOURCES],
        prompts=[prompt("raise", "employee"), *PROMPTS],
        templates=[template("wiki:///{path}", "wiki")],
        skills=SKILLS,
        contents={"file:///handbook": "Pay well.", "wiki:///a": "Pay much.", **SKILL_TEXTS},
    )
    page = World(path / "page.json", RESERVED_NAME).offer(
        tools=[make_definition("page", "A page.")]
    )
    written = [docs.server()] + [payroll.server(), page.server()] * with_reserved
    server = {"steps": True, "script": True, "registryTool": "read", **server}
    folder.write(*written, server=server, **(RULES if with_reserved else RESERVING_NOTHING))
    content = json.loads(folder.config.read_text("utf-8"))
    if with_reserved:
        for name in ("payroll", RESERVED_NAME):
            content["servers"][name]["visibleTo"] = OWN_TEAM[0]
    folder.config.write_text(json.dumps(content), "utf-8")
    async with folder.open() as engine, open_notifications(engine) as notifications:
        await engine.refresh()
        gateway = Gateway(engine, notifications.of(engine), subscriptions_of=notifications.of)
        async with serving(engine, folder, gateway) as api:
            yield api
