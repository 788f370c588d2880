"""Small builders of the values that many tests need; each argument has an ordinary default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.catalog import Catalog, Entry, OfferingEntry, ServerPart
from discovery_engine.config.settings import ServerSettings, Settings, StdioTransport
from discovery_engine.errors import Diagnostic, Origin
from discovery_engine.rules.rule import Verdict
from discovery_engine.tools.model import ServerName, Tool, ToolName
from discovery_engine.tools.offering import Offering, OfferingKind

if TYPE_CHECKING:
    from discovery_engine.store.refresh_job import ClaimedPart, RefreshClaim, SaveOutcome
    from discovery_engine.store.registry import Registry


def make_definition(name: str = "create_issue", description: str = "", **fields: Any) -> JSONObject:
    """A definition as `tools/list` has it; `fields` are further members, spelled as in MCP."""
    schema = {"type": "object", "properties": {}}
    return {"name": name, "description": description, "inputSchema": schema, **fields}


def make_tool(
    name: str = "create_issue",
    server: str = "github",
    *,
    description: str = "",
    prefix: str = "",
    **fields: Any,
) -> Tool:
    definition = make_definition(name, description, **fields)
    return Tool.from_mcp(ServerName(server), definition, prefix=prefix)


def make_entry(
    tool: Tool | str = "create_issue",
    server: str = "github",
    *,
    enabled: bool = True,
    tags: Iterable[str] = (),
    **fields: Any,
) -> Entry:
    """An entry of `tool`, or of a tool of that name made with `fields`."""
    made = make_tool(tool, server, **fields) if isinstance(tool, str) else tool
    verdict = Verdict(enabled=True) if enabled else Verdict(enabled=False, reason="rule", rule=0)
    return Entry(made, Verdict(verdict.enabled, tuple(tags), verdict.reason, verdict.rule))


def make_part(server: str = "github", *tools: Entry | Tool | str, **fields: Any) -> ServerPart:
    """The part of a server with `tools`, put in the order of their names."""
    entries = [t if isinstance(t, Entry) else make_entry(t, server) for t in tools]
    ordered = tuple(sorted(entries, key=lambda entry: entry.tool.name))
    return ServerPart(ServerName(server), ordered, **{"listed_at": 1000.0, **fields})


def save_success(store: Registry, claim: RefreshClaim, *, due_in: float = 3600.0) -> bool:
    """Save a listing of one tool under a claim; returns whether the claim was valid."""
    part = make_part(claim.server, "x")
    return store.save_claimed(claim, part, due_in=due_in, revision=1) != "lost"


def save_together(
    store: Registry, listed: Sequence[ClaimedPart], *, revision: int = 1
) -> list[SaveOutcome]:
    """Save listings as a worker does that has several at once; returns what became of each."""
    ended = store.end_unchanged(listed)
    return [
        "unchanged"
        if one.claim in ended
        else store.save_claimed(one.claim, one.part, due_in=one.due_in, revision=revision)
        for one in listed
    ]


def make_catalog(*parts: ServerPart, revision: int = 1) -> Catalog:
    return Catalog.of(parts, revision=revision)


def make_server(name: str = "github", **fields: Any) -> ServerSettings:
    transport = StdioTransport(command=f"{name}-mcp-server")
    return ServerSettings(ServerName(name), **{"transport": transport, **fields})


def make_settings(*servers: ServerSettings | str, **fields: Any) -> Settings:
    made = tuple(make_server(s) if isinstance(s, str) else s for s in servers)
    return Settings(servers=made, **fields)


def tool_names(entries: Iterable[Entry]) -> list[ToolName]:
    return [entry.tool.name for entry in entries]


def make_problem(
    origin: Origin,
    subject: str,
    message: str,
    hint: str = "",
    excerpt: str = "",
    code: str = "CONFIG_INVALID_VALUE",
) -> Diagnostic:
    """What is wrong with a configuration."""
    return Diagnostic(code, message, hint, subject, origin, excerpt)


def make_offering(
    identifier: str = "file:///readme",
    server: str = "docs",
    *,
    kind: OfferingKind = OfferingKind.RESOURCE,
    **fields: Any,
) -> Offering:
    """A resource, a template or a prompt; `fields` are further members of its definition."""
    definition = {"name": identifier, kind.wire.identifier: identifier, **fields}
    return Offering.from_mcp(ServerName(server), kind, definition)


def make_offering_entry(
    offering: Offering | str = "file:///readme",
    server: str = "docs",
    *,
    enabled: bool = True,
    **fields: Any,
) -> OfferingEntry:
    made = make_offering(offering, server, **fields) if isinstance(offering, str) else offering
    return OfferingEntry(made, Verdict() if enabled else Verdict(False, (), "rule", 0))


def tree(*operations: str) -> JSONObject:
    """Expressions, each of an operation with two operands."""
    operand = {"$ref": "#/$defs/expression"}
    branches: list[JSONObject] = [
        {
            "type": "object",
            "properties": {"left": operand, "op": {"const": name}, "right": operand},
            "required": ["op", "left", "right"],
            "additionalProperties": False,
        }
        for name in operations
    ]
    return {
        "type": "object",
        "properties": {"e": operand},
        "$defs": {"expression": {"anyOf": [*branches, {"type": "number"}]}},
    }


def expression(leaf: JSONValue, *, levels: int) -> JSONObject:
    value = leaf
    for _ in range(levels):
        value = {"left": 1, "op": "add", "right": value}
    return {"e": value}


def chain(keyword: str, links: int) -> JSONObject:
    """Definitions of which each branches twice into the next."""
    definitions: JSONObject = {
        f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(links)
    }
    definitions[f"d{links}"] = {"type": "string"}
    return {"type": "object", "properties": {"n": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


@dataclass
class Clock:
    """Seconds that pass when a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now
