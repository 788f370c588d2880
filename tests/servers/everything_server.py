"""A server that offers all of MCP in both eras, with what the official conformance suite asks for.

    python everything_server.py stdio|http [--era handshake|modern] [--tools PREFIX]

Over HTTP it prints its port first. With an era it serves only that one. With a prefix it has only
the tools whose names begin with it, named by the rest, and resources and prompts only if that is
`test_`. It is made with the SDK.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.message import ServerMessageMetadata, SessionMessage

BUS = InMemorySubscriptionBus()
KEY = secrets.token_bytes(32)
MODERN = "2026-07-28"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MISSING_CAPABILITY = -32021
INVALID_PARAMS = -32602
NOT_FOUND = -32002
METHOD_NOT_FOUND = -32601
PNG = base64.b64encode(bytes.fromhex("89504e470d0a1a0a") + b"pixels").decode()
WAV = base64.b64encode(b"RIFF$\0\0\0WAVEfmt ").decode()
WATCHED = "test://watched-resource"


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def content(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"content": list(blocks), "resultType": "complete", **more}


def embedded(uri: str, mime_type: str, value: str) -> dict[str, Any]:
    resource = {"uri": uri, "mimeType": mime_type, "text": value}
    return {"type": "resource", "resource": resource}


def schema(**properties: Any) -> dict[str, Any]:
    needed = [name for name, one in properties.items() if "default" not in one]
    return {"type": "object", "properties": properties, "required": needed}


# -- what a tool asks its client for -----------------------------------------------------------


def form(message: str, **properties: Any) -> dict[str, Any]:
    params = {"mode": "form", "message": message, "requestedSchema": schema(**properties)}
    return {"method": "elicitation/create", "params": params}


def sample(prompt: str, tokens: int = 100) -> dict[str, Any]:
    messages = [{"role": "user", "content": text(prompt)}]
    params = {"messages": messages, "maxTokens": tokens}
    return {"method": "sampling/createMessage", "params": params}


ROOTS: dict[str, Any] = {"method": "roots/list", "params": {}}
NAME = form("What is your name?", name={"type": "string"})


def required(state: str | None = None, **requests: Any) -> dict[str, Any]:
    result = {"resultType": "input_required", "inputRequests": requests}
    return result if state is None else {**result, "requestState": sealed(state)}


def sealed(state: str) -> str:
    return f"{state}.{hmac.new(KEY, state.encode(), hashlib.sha256).hexdigest()}"


def opened(params: Any) -> str:
    state, _, _ = (params.request_state or "").rpartition(".")
    if not hmac.compare_digest(sealed(state), params.request_state or ""):
        raise MCPError(INVALID_PARAMS, "the requestState is not ours")
    return state


def responses(ctx: Any, *names: str) -> list[dict[str, Any]] | None:
    """What the client gave under these names; None if any is missing."""
    given = (ctx.params or {}).get("inputResponses") or {}
    found = [given.get(name) for name in names]
    return found if all(isinstance(one, dict) for one in found) else None


# -- tools ---------------------------------------------------------------------------------------

Handler = Callable[[Any, Any], Awaitable[dict[str, Any]]]
TOOLS: dict[str, tuple[dict[str, Any], Handler]] = {}


def tool(**definition: Any) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        name = handler.__name__
        described = {
            "name": name,
            "description": f"The tool {name} of the suite",
            "inputSchema": {"type": "object", "properties": {}},
        }
        TOOLS[name] = described | definition, handler
        return handler

    return add


@tool()
async def test_simple_text(ctx: Any, params: Any) -> dict[str, Any]:
    return content(text("This is a simple text response for testing."))


@tool()
async def test_image_content(ctx: Any, params: Any) -> dict[str, Any]:
    return content({"type": "image", "data": PNG, "mimeType": "image/png"})


@tool()
async def test_audio_content(ctx: Any, params: Any) -> dict[str, Any]:
    return content({"type": "audio", "data": WAV, "mimeType": "audio/wav"})


@tool()
async def test_embedded_resource(ctx: Any, params: Any) -> dict[str, Any]:
    return content(embedded("test://embedded-resource", "text/plain", "This is embedded."))


@tool()
async def test_multiple_content_types(ctx: Any, params: Any) -> dict[str, Any]:
    data = json.dumps({"test": "data", "value": 123})
    return content(
        text("Multiple content types test:"),
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        embedded("test://mixed-content-resource", "application/json", data),
    )


@tool()
async def test_error_handling(ctx: Any, params: Any) -> dict[str, Any]:
    return content(text("This tool intentionally returns an error for testing"), isError=True)


@tool()
async def test_tool_with_logging(ctx: Any, params: Any) -> dict[str, Any]:
    for line in ("execution started", "processing data", "execution completed"):
        await log(ctx, f"Tool {line}")
        await anyio.sleep(0.05)
    return content(text("logged"))


@tool()
async def test_logging_tool(ctx: Any, params: Any) -> dict[str, Any]:
    await log(ctx, "one line")
    return content(text("logged"))


async def log(ctx: Any, line: str) -> None:
    await ctx.session.send_log_message("info", line, "everything", ctx.request_id)


@tool()
async def test_tool_with_progress(ctx: Any, params: Any) -> dict[str, Any]:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await anyio.sleep(0.05)
    return content(text("done"))


@tool(inputSchema=schema(prompt={"type": "string"}))
async def test_sampling(ctx: Any, params: Any) -> dict[str, Any]:
    answer = await ask(ctx, "sampling", sample(params.arguments["prompt"]))
    return content(text(f"LLM response: {answer['content']['text']}"))


@tool()
async def test_sampling_tools(ctx: Any, params: Any) -> dict[str, Any]:
    asked = sample("What is the weather in Paris?")
    weather = {"name": "weather", "inputSchema": schema(city={"type": "string"})}
    used = {"type": "tool_use", "id": "u1", "name": "weather", "input": {"city": "Lyon"}}
    told = {"type": "tool_result", "toolUseId": "u1", "content": [text("sunny")]}
    asked["params"]["messages"] += [
        {"role": "assistant", "content": used},
        {"role": "user", "content": [told]},
    ]
    asked["params"] |= {"tools": [weather], "toolChoice": {"mode": "required"}}
    answer = await ask(ctx, "sampling", asked, types.CreateMessageResultWithTools)
    return content(text(json.dumps([answer["stopReason"], answer["content"]])))


@tool()
async def test_declared(ctx: Any, params: Any) -> dict[str, Any]:
    known = declared(ctx)
    asked = {name: known[name] for name in ("elicitation", "roots", "sampling") if name in known}
    return content(text(json.dumps(asked)))


@tool(inputSchema=schema(message={"type": "string"}))
async def test_elicitation(ctx: Any, params: Any) -> dict[str, Any]:
    asked = form(params.arguments["message"], username={"type": "string"}, email={"type": "string"})
    return content(text(f"User response: {shown(await ask(ctx, 'elicitation', asked))}"))


@tool()
async def test_elicitation_sep1034_defaults(ctx: Any, params: Any) -> dict[str, Any]:
    asked = form(
        "Defaults",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        verified={"type": "boolean", "default": True},
    )
    return content(text(f"Elicitation completed: {shown(await ask(ctx, 'elicitation', asked))}"))


@tool()
async def test_elicitation_sep1330_enums(ctx: Any, params: Any) -> dict[str, Any]:
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    names = ["Option One", "Option Two", "Option Three"]
    legacy = {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": names}
    asked = form(
        "Choices",
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum=legacy,
        untitledMulti={"type": "array", "items": {"type": "string", "enum": options}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return content(text(f"Elicitation completed: {shown(await ask(ctx, 'elicitation', asked))}"))


@tool()
async def test_url_elicitation(ctx: Any, params: Any) -> dict[str, Any]:
    visit = {
        "mode": "url",
        "message": "Please visit",
        "url": "https://example.com/visit",
        "elicitationId": "visit-1",
    }
    request = {"method": "elicitation/create", "params": visit}
    return content(text(shown(await ask(ctx, "elicitation", request))))


@tool()
async def test_roots(ctx: Any, params: Any) -> dict[str, Any]:
    answer = await ask(ctx, "roots", ROOTS)
    return content(text(",".join(root["uri"] for root in answer["roots"])))


def shown(answer: dict[str, Any]) -> str:
    return f"action={answer['action']}, content={json.dumps(answer.get('content'))}"


def declared(ctx: Any) -> dict[str, Any]:
    if ctx.protocol_version == MODERN:
        given: dict[str, Any] = ctx.params["_meta"][CAPABILITIES]
        return given
    own = ctx.session.client_capabilities
    return own.model_dump(by_alias=True, exclude_none=True) if own else {}


def require(ctx: Any, capability: str) -> None:
    if capability not in declared(ctx):
        data = {"requiredCapabilities": {capability: {}}}
        raise MCPError(MISSING_CAPABILITY, f"the client has no {capability}", data)


class AskingError(Exception):
    """The modern era has no requests of servers: the result says what is required."""


ASKED: dict[str, tuple[Any, Any]] = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "sampling/createMessage": (types.CreateMessageRequest, types.CreateMessageResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}


async def ask(
    ctx: Any, capability: str, request: dict[str, Any], result: Any = None
) -> dict[str, Any]:
    """What the client answers, in either era."""
    require(ctx, capability)
    if ctx.protocol_version == MODERN:
        if given := responses(ctx, "asked"):
            return given[0]
        raise AskingError(request)
    kind, usual = ASKED[request["method"]]
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    answer = await ctx.session.send_request(
        kind.model_validate(request), result or usual, metadata=related
    )
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


@tool()
async def test_missing_capability(ctx: Any, params: Any) -> dict[str, Any]:
    require(ctx, "sampling")
    return content(text("it has sampling"))


@tool()
async def test_streaming_elicitation(ctx: Any, params: Any) -> dict[str, Any]:
    return content(text("asked")) if responses(ctx, "user_name") else required(user_name=NAME)


@tool()
async def test_input_required_result_elicitation(ctx: Any, params: Any) -> dict[str, Any]:
    given = responses(ctx, "user_name")
    name = given and (given[0].get("content") or {}).get("name")
    return content(text(f"Hello, {name}!")) if name else required(user_name=NAME)


@tool()
async def test_input_required_result_sampling(ctx: Any, params: Any) -> dict[str, Any]:
    given = responses(ctx, "capital_question")
    if given is None:
        return required(capital_question=sample("What is the capital of France?"))
    return content(text(json.dumps(given[0].get("content"))))


@tool()
async def test_input_required_result_list_roots(ctx: Any, params: Any) -> dict[str, Any]:
    given = responses(ctx, "client_roots")
    return content(text(json.dumps(given[0]))) if given else required(client_roots=ROOTS)


@tool()
async def test_input_required_result_request_state(ctx: Any, params: Any) -> dict[str, Any]:
    if responses(ctx, "confirm") is None:
        return required("asked", confirm=form("Please confirm", ok={"type": "boolean"}))
    return content(text(f"state-ok {opened(params)}"))


@tool()
async def test_input_required_result_tampered_state(ctx: Any, params: Any) -> dict[str, Any]:
    if responses(ctx, "confirm") is None and params.request_state is None:
        return required("asked", confirm=form("Please confirm", ok={"type": "boolean"}))
    return content(text(f"state-ok {opened(params)}"))


@tool()
async def test_input_required_result_multiple_inputs(ctx: Any, params: Any) -> dict[str, Any]:
    given = responses(ctx, "user_name", "greeting", "client_roots")
    if given is None:
        greeting = sample("Generate a greeting", 50)
        return required("several", user_name=NAME, greeting=greeting, client_roots=ROOTS)
    return content(text(f"{opened(params)}: {json.dumps(given)}"))


@tool()
async def test_input_required_result_multi_round(ctx: Any, params: Any) -> dict[str, Any]:
    if responses(ctx, "step2") and opened(params) == "round-2":
        return content(text("all rounds done"))
    if responses(ctx, "step1") and opened(params) == "round-1":
        color = form("Step 2: What is your favorite color?", color={"type": "string"})
        return required("round-2", step2=color)
    return required("round-1", step1=form("Step 1: What is your name?", name={"type": "string"}))


@tool()
async def test_input_required_result_capabilities(ctx: Any, params: Any) -> dict[str, Any]:
    possible = {"elicitation": NAME, "sampling": sample("Say hello"), "roots": ROOTS}
    asked = {name: request for name, request in possible.items() if name in declared(ctx)}
    given = (ctx.params or {}).get("inputResponses")
    return content(text("done")) if given or not asked else required(**asked)


CONTACT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool(inputSchema=CONTACT)
async def json_schema_2020_12_tool(ctx: Any, params: Any) -> dict[str, Any]:
    return content(text(json.dumps(params.arguments)))


@tool(inputSchema=schema(region={"type": "string", "x-mcp-header": "Region"}))
async def test_header_tool(ctx: Any, params: Any) -> dict[str, Any]:
    return content(text(f"region={params.arguments.get('region')}"))


@tool()
async def test_wait(ctx: Any, params: Any) -> dict[str, Any]:
    """Report progress once, then wait until it is cancelled, which `test_waited` counts."""
    global WAITED  # noqa: PLW0603 - one server, one count
    await ctx.session.report_progress(0)
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        WAITED += 1
        raise


WAITED = 0


@tool()
async def test_waited(ctx: Any, params: Any) -> dict[str, Any]:
    return content(text(str(WAITED)))


@tool()
async def test_change_lists(ctx: Any, params: Any) -> dict[str, Any]:
    """Announce that every list and the watched resource have changed."""
    if ctx.protocol_version == MODERN:
        for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            await BUS.publish(event)
        await BUS.publish(ResourceUpdated(WATCHED))
    else:
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_list_changed()
        await ctx.session.send_resource_updated(WATCHED)
    return content(text("announced"))


async def call_tool(ctx: Any, params: Any) -> dict[str, Any]:
    name = OPTIONS.tools + params.name
    if name not in TOOLS:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
    try:
        return await TOOLS[name][1](ctx, params)
    except AskingError as asking:
        return required(asked=asking.args[0])


# -- resources and prompts -----------------------------------------------------------------------

PLAIN, JSON, IMAGE = "text/plain", "application/json", "image/png"
RESOURCES = {
    "test://static-text": {
        "mimeType": PLAIN,
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": IMAGE, "blob": PNG},
    WATCHED: {"mimeType": PLAIN, "text": "It is watched."},
}
BEFORE_ID, AFTER_ID = "test://template/", "/data"


async def read_resource(ctx: Any, params: Any) -> dict[str, Any]:
    uri = params.uri
    if uri in RESOURCES:
        found = RESOURCES[uri]
    elif uri.startswith(BEFORE_ID) and uri.endswith(AFTER_ID):
        one = uri[len(BEFORE_ID) : -len(AFTER_ID)]
        data = {"id": one, "templateTest": True, "data": f"Data for ID: {one}"}
        found = {"mimeType": JSON, "text": json.dumps(data)}
    else:
        code = INVALID_PARAMS if ctx.protocol_version == MODERN else NOT_FOUND
        raise MCPError(code, "Resource not found", {"uri": uri})
    return {"contents": [{"uri": uri, **found}], **CACHED}


PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def get_prompt(ctx: Any, params: Any) -> dict[str, Any]:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return messages(text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            line = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
            return messages(text(line))
        case "test_prompt_with_embedded_resource":
            resource = embedded(given["resourceUri"], PLAIN, "Embedded resource content.")
            return messages(resource, text("Please process the embedded resource above."))
        case "test_prompt_with_image":
            image = {"type": "image", "data": PNG, "mimeType": IMAGE}
            return messages(image, text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            context = form("What context should the prompt use?", context={"type": "string"})
            answered = responses(ctx, "user_context")
            asked = required(user_context=context)
            return messages(text(json.dumps(answered[0]))) if answered else asked
    raise MCPError(INVALID_PARAMS, f"Unknown prompt: {params.name}")


def messages(*blocks: dict[str, Any]) -> dict[str, Any]:
    said = [{"role": "user", "content": block} for block in blocks]
    return {"messages": said, "resultType": "complete"}


# -- lists and the rest --------------------------------------------------------------------------

CACHED = {"resultType": "complete", "ttlMs": 1000, "cacheScope": "private"}


async def list_tools(ctx: Any, params: Any) -> dict[str, Any]:
    listed = [
        definition | {"name": name.removeprefix(OPTIONS.tools)}
        for name, (definition, _) in TOOLS.items()
        if name.startswith(OPTIONS.tools)
    ]
    return {"tools": listed, **CACHED}


async def list_resources(ctx: Any, params: Any) -> dict[str, Any]:
    listed = [
        {
            "uri": uri,
            "name": uri.rpartition("/")[2],
            "description": f"The resource {uri}",
            "mimeType": found["mimeType"],
        }
        for uri, found in RESOURCES.items()
    ]
    return {"resources": listed, **CACHED}


async def list_templates(ctx: Any, params: Any) -> dict[str, Any]:
    template = {"uriTemplate": f"{BEFORE_ID}{{id}}{AFTER_ID}", "name": "data", "mimeType": JSON}
    return {"resourceTemplates": [template], **CACHED}


async def list_prompts(ctx: Any, params: Any) -> dict[str, Any]:
    listed = [
        {
            "name": name,
            "description": f"The prompt {name}",
            "arguments": [{"name": argument, "required": True} for argument in arguments],
        }
        for name, arguments in PROMPTS.items()
    ]
    return {"prompts": listed, **CACHED}


async def complete(ctx: Any, params: Any) -> dict[str, Any]:
    words = ["paris", "park", "party", "rome"]
    found = [word for word in words if word.startswith(params.argument.value)]
    completion = {"values": found, "total": len(found), "hasMore": False}
    return {"completion": completion, "resultType": "complete"}


async def nothing(ctx: Any, params: Any) -> dict[str, Any]:
    return {}


HANDLERS: dict[str, tuple[Any, Handler]] = {
    "tools/list": (types.PaginatedRequestParams, list_tools),
    "tools/call": (types.CallToolRequestParams, call_tool),
    "resources/list": (types.PaginatedRequestParams, list_resources),
    "resources/templates/list": (types.PaginatedRequestParams, list_templates),
    "resources/read": (types.ReadResourceRequestParams, read_resource),
    "resources/subscribe": (types.SubscribeRequestParams, nothing),
    "resources/unsubscribe": (types.UnsubscribeRequestParams, nothing),
    "prompts/list": (types.PaginatedRequestParams, list_prompts),
    "prompts/get": (types.GetPromptRequestParams, get_prompt),
    "completion/complete": (types.CompleteRequestParams, complete),
    "logging/setLevel": (types.SetLevelRequestParams, nothing),
}


REFUSED = {"handshake": "server/discover", "modern": "initialize", "": ""}


def make_server() -> Server[Any]:
    def input_schema(name: str) -> Any:
        name = OPTIONS.tools + name
        return TOOLS[name][0]["inputSchema"] if name in TOOLS else None

    server: Server[Any] = Server(
        "everything",
        version="1",
        get_tool_input_schema=input_schema,
        on_subscriptions_listen=ListenHandler(BUS),
    )
    has_all = OPTIONS.tools in ("", "test_")
    for method, (params, handler) in HANDLERS.items():
        if has_all or method.startswith("tools/"):
            server.add_request_handler(method, params, handler)

    async def refuse(ctx: Any, call_next: Any) -> Any:
        if ctx.method == REFUSED[OPTIONS.era]:
            raise MCPError(METHOD_NOT_FOUND, "Method not found")
        return await call_next(ctx)

    server.middleware.append(refuse)
    return server


async def serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        source = WithoutDiscover(read, write) if OPTIONS.era == "handshake" else read
        await server.run(source, write, server.create_initialization_options())


class WithoutDiscover:
    """A stream that refuses `server/discover`, by which the SDK would settle on the newer era."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read = read
        self._write = write

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._read.aclose()

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        while True:
            item = await anext(self._read)
            message = getattr(item, "message", None)
            if getattr(message, "method", "") != "server/discover":
                return item
            error = types.ErrorData(code=METHOD_NOT_FOUND, message="Method not found")
            refusal = types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
            await self._write.send(SessionMessage(refusal))


def serve_http(server: Server[Any]) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201
    app = server.streamable_http_app(streamable_http_path="/mcp")
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", choices=["stdio", "http"])
    parser.add_argument("--era", choices=REFUSED, default="")
    parser.add_argument("--tools", default="")
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = options()
    if OPTIONS.transport == "stdio":
        anyio.run(serve_stdio, make_server())
    else:
        serve_http(make_server())
