"""The definitions of the meta-tools, as `tools/list` returns them.

Five are always listed; the settings decide about the others (`agent.meta_arguments`). They do not
depend on the servers, so hosts can keep their prompt cache. No tool of a server gets the name of
one; see `client_names`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject

MIN_TOKENS = 50
"""The smallest `maxTokens`: enough for one name, the number of omitted ones, and a notice."""


_AT_ONCE: JSONObject = {"anthropic/alwaysLoad": True}
"""Keeps Claude Code from deferring the meta-tools behind its own search, which costs a turn."""


class MetaTool(Struct, frozen=True, dict=True):
    name: str
    description: str
    properties: JSONObject
    """The JSON Schemas of the arguments, by name."""
    required: tuple[str, ...]
    annotations: JSONObject

    @cached_property
    def input_schema(self) -> JSONObject:
        schema: JSONObject = {"type": "object", "properties": self.properties}
        return {**schema, "required": list(self.required)} if self.required else schema

    @property
    def definition(self) -> JSONObject:
        """The item of `tools/list`."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
            "annotations": self.annotations,
            "_meta": _AT_ONCE,
        }


_TEXT: JSONObject = {"type": "string"}
_MAX_TOKENS: JSONObject = {"type": "integer", "minimum": MIN_TOKENS}
_TOOL: JSONObject = {"type": "string", "description": "Name, or server:name"}
_READ_ONLY: JSONObject = {"readOnlyHint": True, "openWorldHint": False}

_DEFINITIONS = (
    MetaTool(
        name="list_mcp_servers",
        description=("List the MCP servers behind this gateway: purpose, number of tools, status."),
        properties={},
        required=(),
        annotations=_READ_ONLY,
    ),
    MetaTool(
        name="search_tools",
        description=(
            "Find tools of all MCP servers by what they do or by name, best first. "
            "Use it before you conclude that something cannot be done."
        ),
        properties={
            "query": {
                "type": "string",
                "description": "Operation, object, product, in English; no values: "
                "create issue, GitHub",
            },
            "queries": {
                "type": "array",
                "items": _TEXT,
                "maxItems": 10,
                "description": "Several at once",
            },
            "server": {"type": "string", "description": "Only this server"},
            "limit": {"type": "integer", "minimum": 1},
            "tags": {"type": "array", "items": _TEXT, "description": "With all these"},
            "kinds": {"type": "array", "items": {"enum": ["tool", "resource", "prompt", "skill"]}},
            "maxTokens": {**_MAX_TOKENS, "description": "For more detail"},
        },
        required=(),
        annotations=_READ_ONLY,
    ),
    MetaTool(
        name="list_tools",
        description="List the tools of one server.",
        properties={
            "server": _TEXT,
            "includeDisabled": {"type": "boolean"},
            "maxTokens": _MAX_TOKENS,
        },
        required=("server",),
        annotations=_READ_ONLY,
    ),
    MetaTool(
        name="get_tool_details",
        description="Describe a tool and its arguments. Read this before its first execute_tool.",
        properties={"server": _TEXT, "tool": _TOOL, "maxTokens": _MAX_TOKENS},
        required=("tool",),
        annotations=_READ_ONLY,
    ),
    MetaTool(
        name="execute_tool",
        description="Call a tool of a server and return its result.",
        properties={
            "server": _TEXT,
            "tool": _TOOL,
            "arguments": {"type": "object", "description": "The tool's own arguments"},
            "select": {"type": "string", "description": "JMESPath of the part wanted"},
            "dryRun": {"type": "boolean"},
        },
        required=("tool",),
        annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
    ),
)

META_TOOLS: Mapping[str, MetaTool] = MappingProxyType({tool.name: tool for tool in _DEFINITIONS})
"""The meta-tools that are always listed, by name, in their order."""

POOL_SEARCH = replace(
    META_TOOLS["search_tools"],
    description=(
        "Find tools of all MCP servers by what they do or by name. Those found are added to your "
        "list of tools: call them there. Use it before you conclude that something cannot be done."
    ),
)
"""`search_tools` for a client whose list of tools grows with what it finds."""

POOL_SEARCHES = (POOL_SEARCH.name, "retrieve_tools")
"""The names that clients may call it by; the first is listed."""

READ_RESULT = MetaTool(
    name="read_result",
    description="Read on in a result that was cut.",
    properties={
        "handle": _TEXT,
        "path": {"type": "string", "description": "JMESPath"},
        "offset": {"type": "integer", "minimum": 0},
        "search": _TEXT,
        "limit": {"type": "integer", "description": "Tokens"},
    },
    required=("handle",),
    annotations=_READ_ONLY,
)


def _steps(tool: JSONObject, **server: JSONObject) -> JSONObject:
    """Return the schema of `steps`; `tool` is the schema of a tool's name."""
    return {
        "type": "array",
        "maxItems": 20,
        "items": {
            "type": "object",
            "properties": {
                "id": _TEXT,
                **server,
                "tool": tool,
                "arguments": {"type": "object"},
                "forEach": {},
                "select": {"type": "string", "description": "JMESPath of the part to answer"},
            },
            "required": ["id", "tool"],
        },
    }


EXECUTE_STEPS = MetaTool(
    name="execute_steps",
    description=(
        "Several execute_tool calls in one, independent ones side by side. In arguments,"
        ' {"$from": "id", "path": "JMESPath"} stands for a part of an earlier step\'s result.'
        ' forEach, a list or such a reference, repeats a step; {"$from": "item"} is its item.'
    ),
    properties={
        "steps": _steps(_TOOL, server=_TEXT),
        "continueOnError": {"type": "boolean"},
    },
    required=("steps",),
    annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
)

STEPS_BESIDE_TOOLS = replace(
    EXECUTE_STEPS,
    description=EXECUTE_STEPS.description.replace(
        "Several execute_tool calls in one", "Several calls of tools in one"
    ),
    properties={
        **EXECUTE_STEPS.properties,
        "steps": _steps({"type": "string", "description": "Name, as in your list of tools"}),
    },
)
"""`execute_steps` for clients that call tools by their own names."""

EXECUTE_SCRIPT = MetaTool(
    name="execute_script",
    description=(
        'Run Python that calls tools: `await call("server:tool", {...})` returns its structured'
        " content, else its JSON or text; an error raises. asyncio.gather runs calls side by side."
        " The value of the last expression is answered, with what was printed. No files, network"
        " or environment."
    ),
    properties={"code": _TEXT},
    required=("code",),
    annotations=EXECUTE_STEPS.annotations,
)

SCRIPT_BESIDE_TOOLS = replace(
    EXECUTE_SCRIPT,
    description=EXECUTE_SCRIPT.description.replace("server:tool", "name as in your list"),
)
"""`execute_script` for clients that call tools by their own names."""

_READING = ("find_tool", "find_tools", "get_schema", "proxy_call", "list", "browse", "status")
_ASKING = ("install", "uninstall", "activate", "deactivate", "sync")

REGISTRY = MetaTool(
    name="registry",
    description=(
        "Look for tools and servers by one action. find_tool: by what it does; find_tools: several"
        " intents; get_schema, proxy_call: a found tool; list, status: servers that are there;"
        " browse: servers that could be installed."
    ),
    properties={
        "action": {"enum": list(_READING)},
        "query": _TEXT,
        "intents": {"type": "array", "items": _TEXT, "maxItems": 10},
        "auto_activate": {"type": "boolean"},
        "call_as": {"type": "string", "description": "mcp__server__tool"},
        "server": _TEXT,
        "tool": _TEXT,
        "arguments": {"type": "object", "description": "The tool's own"},
        "name": _TEXT,
        "source": {"enum": ["local", "registry", "manual"]},
        "installed_only": {"type": "boolean"},
        "limit": {"type": "integer", "minimum": 1},
        "cursor": _TEXT,
    },
    required=("action",),
    annotations={"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
)
"""`registry` for agents that may look for servers."""

REGISTRY_ASKING = replace(
    REGISTRY,
    description=(
        f"{REGISTRY.description} install, uninstall, activate, deactivate, sync ask the user, who"
        " decides later; status says what became of it."
    ),
    properties={
        **REGISTRY.properties,
        "action": {"enum": [*_READING, *_ASKING]},
        "command": _TEXT,
        "args": {"type": "array", "items": _TEXT},
        "env": {"type": "object", "description": "Never given here: the user enters it"},
        "description": _TEXT,
        "tags": {"type": "array", "items": _TEXT},
    },
)
"""`registry` for agents that may also request servers."""

_OPTIONAL = (READ_RESULT, EXECUTE_STEPS, EXECUTE_SCRIPT, REGISTRY)

ALL_META_TOOLS: Mapping[str, MetaTool] = MappingProxyType(
    {tool.name: tool for tool in (*_DEFINITIONS, *_OPTIONAL)}
)
