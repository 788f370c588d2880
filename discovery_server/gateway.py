"""The MCP server around the meta-tools, for clients of both protocol eras.

The SDK implements the protocol. This module answers its requests, and passes results of upstream
tools through unchanged: the SDK's typed models would drop fields that they do not know.
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
_MAX_URI = 4 * NAME_LENGTH  # characters; a percent-encoded character takes several
_OPENING_METHODS = frozenset({"initialize", "server/discover"})
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
        self._raw_result: ContextVar[JSONObject | None] = ContextVar("raw_result", default=None)
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
        self.server.middleware.append(self._finish_result)

    async def _finish_result(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: add current instructions, and put raw results into the SDK's envelope."""
        self._raw_result.set(None)
        envelope = await call_next(ctx)
        if ctx.method in _OPENING_METHODS and isinstance(envelope, dict):
            return {**envelope, "instructions": render_instructions(self._engine.view)}
        raw = self._raw_result.get()
        return envelope if raw is None else _in_envelope(raw, envelope)

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = META_TOOLS.get(params.name)
        if tool is None:
            names = ", ".join(META_TOOLS)
            hint = f"this server has {names}; other tools are called through execute_tool"
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {_shown(params.name)}; {hint}")
        progress = _ProgressRelay(ctx)
        caller = Caller(_client(ctx), progress.send if progress.is_requested else None)
        self._raw_result.set(await call(self._engine, tool, params.arguments or {}, caller))
        await progress.flush()
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
        if len(uri) > _MAX_URI:
            raise MCPError(types.INVALID_PARAMS, f"There is no resource {_shown(uri)}")
        try:
            mime_type, text = resources.read_resource(self._engine.view, uri)
        except DiscoveryError as error:
            raise _resource_error(error, uri, ctx.protocol_version) from error
        content = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
        return types.ReadResourceResult(contents=[content])


def _in_envelope(raw: JSONObject, empty: HandlerResult) -> JSONObject:
    """A raw result in the envelope that the protocol of this client's era requires.

    `empty` is an empty result that the SDK has completed. `resultType` and `_meta` are taken from
    it unless the upstream gave them; the handshake era has no `resultType`.
    """
    envelope = empty if isinstance(empty, dict) else {}
    result = {"resultType": envelope.get("resultType"), **raw}
    if "resultType" not in envelope:
        del result["resultType"]
    meta = {**(envelope.get("_meta") or {}), **(raw.get("_meta") or {})}
    return {**result, "_meta": meta} if meta else result


def _input_schema(name: str) -> JSONObject | None:
    tool = META_TOOLS.get(name)
    return tool.input_schema if tool else None


def _client(ctx: Context) -> str | None:
    """The key of this client's own session with a server that has `session: per_client`.

    Over HTTP it is the id of the client's session. In the era without sessions a request could
    claim any id, so there it is the user of the token. None over stdio.
    """
    if ctx.request is None:
        return None
    if ctx.protocol_version in types.version.MODERN_PROTOCOL_VERSIONS:
        user = ctx.request.scope.get("user")
        return str(user.username) if user else None
    session: str | None = ctx.request.headers.get(_SESSION_HEADER)
    return session


class _ProgressRelay:
    """Forwards progress in order, and all of it before the result.

    Progress comes from tasks of the upstream's connection, so the result could overtake it.
    """

    def __init__(self, ctx: Context) -> None:
        self.is_requested = ctx.meta is not None and "progress_token" in ctx.meta
        self._session = ctx.session
        self._lock = anyio.Lock()

    async def send(self, progress: float, total: float | None, message: str | None) -> None:
        async with self._lock:
            await self._session.report_progress(progress, total, message)

    async def flush(self) -> None:
        """Wait for what was sent; `anyio.Lock` is fair, so it is acquired last."""
        if self.is_requested:
            async with self._lock:
                return


def _resource_error(error: DiscoveryError, uri: str, version: str) -> MCPError:
    is_modern = version in types.version.MODERN_PROTOCOL_VERSIONS
    is_missing = isinstance(error, NotFoundError)
    code = types.INVALID_PARAMS if is_modern or not is_missing else _RESOURCE_NOT_FOUND
    message = f"{error.code}: {error.message}"
    text = f"{message}; {error.hint}" if error.hint else message
    return MCPError(code, text, {"uri": shortened(uri, _MAX_URI)})


def _shown(name: str) -> str:
    return repr(shortened(name, NAME_LENGTH))
