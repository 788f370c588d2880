"""The MCP server around the meta-tools, for clients of both protocol eras.

The SDK speaks the protocol; this module answers it. One thing it does not leave to the SDK: what
an upstream answered goes out as it came. Typed models would drop whatever they do not know.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server

from discovery_engine.agent import resources
from discovery_engine.agent.definitions import META_TOOLS
from discovery_engine.agent.dispatch import Caller, call
from discovery_engine.agent.instructions import render_instructions
from discovery_engine.errors import DiscoveryError, NotFoundError
from discovery_engine.limits import NAME_LENGTH, shortened
from discovery_engine.version import __version__

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine

Context: TypeAlias = ServerRequestContext[Any, Any]

_SESSION_HEADER = "mcp-session-id"
_LONGEST_URI = 4 * NAME_LENGTH  # characters; each of a name may take several there
_OPENINGS = frozenset({"initialize", "server/discover"})
_RESOURCE_NOT_FOUND = -32002  # before 2026-07-28; since then it is "invalid params"

_A_DAY = CacheHint(ttl_ms=86_400_000, scope="public")
_A_MINUTE = CacheHint(ttl_ms=60_000, scope="private")

_TOOLS = types.ListToolsResult(
    tools=[types.Tool.model_validate(tool.definition) for tool in META_TOOLS.values()]
)
_PROMPTS = types.ListPromptsResult(
    prompts=[
        types.Prompt(
            name=resources.PROMPT,
            title="How to use the tools behind this gateway",
            description="How to find, inspect and call the tools of all configured MCP servers",
        )
    ]
)
_RESOURCES = types.ListResourcesResult(
    resources=[
        types.Resource(name=title, uri=uri, mime_type="text/markdown")
        for uri, (title, _) in resources.DOCUMENTS.items()
    ]
)
_TEMPLATES = types.ListResourceTemplatesResult(
    resource_templates=[
        types.ResourceTemplate(name=title, uri_template=uri, mime_type="application/json")
        for uri, title in resources.TEMPLATES.items()
    ]
)


def make_server(engine: Engine) -> Server[Any]:
    """An SDK server that answers from `engine`; the caller runs it on a transport."""
    return _Gateway(engine).server


class _Gateway:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._whole: ContextVar[JSONObject | None] = ContextVar("whole", default=None)
        self.server: Server[Any] = Server(
            "discovery",
            version=__version__,
            title="Discovery",
            cache_hints={
                "server/discover": _A_MINUTE,
                "tools/list": _A_DAY,
                "prompts/list": _A_DAY,
                "resources/list": _A_DAY,
                "resources/templates/list": _A_DAY,
                "resources/read": CacheHint(),
            },
            get_tool_input_schema=_input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        self.server.middleware.append(self._through)

    async def _through(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """What goes out: instructions of the moment, and results as they came."""
        self._whole.set(None)
        shaped = await call_next(ctx)
        if ctx.method in _OPENINGS and isinstance(shaped, dict):
            return {**shaped, "instructions": render_instructions(self._engine.view)}
        whole = self._whole.get()
        return shaped if whole is None else _in_envelope(whole, shaped)

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = META_TOOLS.get(params.name)
        if tool is None:
            names = ", ".join(META_TOOLS)
            hint = f"this server has {names}; other tools are called through execute_tool"
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {_shown(params.name)}; {hint}")
        telling = _Telling(ctx)
        caller = Caller(_client(ctx), telling.tell if telling.is_wanted else None)
        self._whole.set(await call(self._engine, tool, params.arguments or {}, caller))
        await telling.finish()
        return types.CallToolResult(content=[])

    async def _list_tools(self, _: Context, __: object) -> types.ListToolsResult:
        return _TOOLS

    async def _list_prompts(self, _: Context, __: object) -> types.ListPromptsResult:
        return _PROMPTS

    async def _get_prompt(
        self, _: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        if params.name != resources.PROMPT:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {_shown(params.name)}")
        text = f"{resources.USAGE_GUIDE}\n{render_instructions(self._engine.view)}"
        content = types.TextContent(type="text", text=text)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    async def _list_resources(self, _: Context, __: object) -> types.ListResourcesResult:
        return _RESOURCES

    async def _list_templates(self, _: Context, __: object) -> types.ListResourceTemplatesResult:
        return _TEMPLATES

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        if len(uri) > _LONGEST_URI:
            raise MCPError(types.INVALID_PARAMS, f"There is no resource {_shown(uri)}")
        try:
            mime_type, text = resources.read_resource(self._engine.view, uri)
        except DiscoveryError as error:
            raise _resource_error(error, uri, ctx.protocol_version) from error
        content = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
        return types.ReadResourceResult(contents=[content])


def _in_envelope(whole: JSONObject, shaped: HandlerResult) -> JSONObject:
    """A result as it came, in what the SDK wraps around one in this client's era.

    `shaped` is an empty result on which the SDK did its part. What the protocol asks of the hop
    to this client (`resultType`, `_meta` of the server) is taken from there, if the upstream did
    not say it; the era before has no `resultType`.
    """
    envelope = shaped if isinstance(shaped, dict) else {}
    result = {"resultType": envelope.get("resultType"), **whole}
    if "resultType" not in envelope:
        del result["resultType"]
    meta = {**(envelope.get("_meta") or {}), **(whole.get("_meta") or {})}
    return {**result, "_meta": meta} if meta else result


def _input_schema(name: str) -> JSONObject | None:
    tool = META_TOOLS.get(name)
    return tool.input_schema if tool else None


def _client(ctx: Context) -> str | None:
    """Whom a server with `session: per_client` keeps a session for; None for everybody else.

    Over HTTP that is the client's session. An era without sessions would let a request claim any
    that it names, so there it is whoever holds the token.
    """
    if ctx.request is None:
        return None
    if ctx.protocol_version in types.version.MODERN_PROTOCOL_VERSIONS:
        user = ctx.request.scope.get("user")
        return str(user.username) if user else None
    session: str | None = ctx.request.headers.get(_SESSION_HEADER)
    return session


class _Telling:
    """Passes progress on, in the order in which it came, and all of it before the result.

    It comes from tasks of the upstream's connection, which the result may overtake on its way out.
    """

    def __init__(self, ctx: Context) -> None:
        self.is_wanted = ctx.meta is not None and "progress_token" in ctx.meta
        self._session = ctx.session
        self._turn = anyio.Lock()

    async def tell(self, progress: float, total: float | None, message: str | None) -> None:
        async with self._turn:
            await self._session.report_progress(progress, total, message)

    async def finish(self) -> None:
        """Wait for what was begun; turns are taken in the order of asking."""
        if self.is_wanted:
            async with self._turn:
                return


def _resource_error(error: DiscoveryError, uri: str, version: str) -> MCPError:
    is_modern = version in types.version.MODERN_PROTOCOL_VERSIONS
    is_missing = isinstance(error, NotFoundError)
    code = types.INVALID_PARAMS if is_modern or not is_missing else _RESOURCE_NOT_FOUND
    message = f"{error.code}: {error.message}"
    told = f"{message}; {error.hint}" if error.hint else message
    return MCPError(code, told, {"uri": shortened(uri, _LONGEST_URI)})


def _shown(name: str) -> str:
    return repr(shortened(name, NAME_LENGTH))
