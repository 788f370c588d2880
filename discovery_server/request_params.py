"""The params of requests, checked against the schema of each era.

Members that the schema does not name are allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field

from discovery_engine.rpc import protocol
from discovery_engine.rpc.messages import RpcError

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject


_LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class _Icon(Struct, rename="camel"):
    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: Literal["dark", "light"] | None = None


class _Implementation(Struct, rename="camel"):
    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[_Icon] | None = None


class _Roots(Struct, rename="camel"):
    list_changed: bool | None = None


class _Sampling(Struct):
    context: dict[str, Any] | None = None
    tools: dict[str, Any] | None = None


class _Elicitation(Struct):
    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class _Tasks(Struct):
    cancel: dict[str, Any] | None = None
    list: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class _HandshakeCapabilities(Struct):
    experimental: dict[str, dict[str, Any]] | None = None
    sampling: _Sampling | None = None
    elicitation: _Elicitation | None = None
    roots: _Roots | None = None
    tasks: _Tasks | None = None


class _ModernCapabilities(Struct):
    experimental: dict[str, dict[str, Any]] | None = None
    extensions: dict[str, dict[str, Any]] | None = None
    sampling: _Sampling | None = None
    elicitation: _Elicitation | None = None
    roots: dict[str, Any] | None = None


class _HandshakeMeta(Struct, rename="camel"):
    progress_token: str | int | None = None


class _ModernMeta(Struct):
    version: str = field(name=protocol.PROTOCOL_VERSION)
    capabilities: _ModernCapabilities = field(name=protocol.CLIENT_CAPABILITIES)
    client_info: _Implementation | None = field(name=protocol.CLIENT_INFO, default=None)
    log_level: _LogLevel | None = field(name=protocol.LOG_LEVEL, default=None)
    progress_token: str | int | None = field(name="progressToken", default=None)


class _Params(Struct):
    meta: _HandshakeMeta | None = field(name="_meta", default=None)


class _Initialize(_Params, rename="camel", kw_only=True):
    protocol_version: str
    capabilities: _HandshakeCapabilities
    client_info: _Implementation


class _Page(_Params):
    cursor: str | None = None


class _Task(Struct):
    ttl: int | None = None


class _CallTool(_Params, kw_only=True):
    name: str
    arguments: dict[str, Any] | None = None
    task: _Task | None = None


class _GetPrompt(_Params, kw_only=True):
    name: str
    arguments: dict[str, str] | None = None


class _ReadResource(_Params, kw_only=True):
    uri: str


class _SetLevel(_Params, kw_only=True):
    level: _LogLevel


class _Subscribe(_Params, kw_only=True):
    uri: str


class _Reference(Struct):
    type: Literal["ref/prompt", "ref/resource"]
    name: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        if (self.name if self.type == "ref/prompt" else self.uri) is None:
            raise ValueError("a reference needs the `name` of a prompt or the `uri` of a resource")


class _Argument(Struct):
    name: str
    value: str


class _CompletionContext(Struct):
    arguments: dict[str, str] | None = None


class _Complete(_Params, kw_only=True):
    ref: _Reference
    argument: _Argument
    context: _CompletionContext | None = None


class _ModernParams(Struct):
    meta: _ModernMeta = field(name="_meta")


class _ModernPage(_ModernParams):
    cursor: str | None = None


class _Wanted(Struct, rename="camel"):
    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    task_ids: list[str] | None = None


class _Listen(_ModernParams, kw_only=True):
    notifications: _Wanted


class _ModernComplete(_ModernParams, kw_only=True):
    ref: _Reference
    argument: _Argument
    context: _CompletionContext | None = None


class _Resumable(_ModernParams, rename="camel"):
    input_responses: dict[str, dict[str, Any]] | None = None
    request_state: str | None = None


class _ModernCallTool(_Resumable, kw_only=True):
    name: str
    arguments: dict[str, Any] | None = None


class _ModernGetPrompt(_Resumable, kw_only=True):
    name: str
    arguments: dict[str, str] | None = None


class _ModernReadResource(_Resumable, kw_only=True):
    uri: str


class _OfTask(_ModernParams, rename="camel", kw_only=True):
    task_id: str


class _UpdateTask(_OfTask, rename="camel", kw_only=True):
    input_responses: dict[str, dict[str, Any]]


_HANDSHAKE: dict[str, type[Struct]] = {
    "initialize": _Initialize,
    "ping": _Params,
    "logging/setLevel": _SetLevel,
    "tools/list": _Page,
    "tools/call": _CallTool,
    "prompts/list": _Page,
    "prompts/get": _GetPrompt,
    "resources/list": _Page,
    "resources/templates/list": _Page,
    "resources/read": _ReadResource,
    "completion/complete": _Complete,
    "resources/subscribe": _Subscribe,
    "resources/unsubscribe": _Subscribe,
}
_MODERN: dict[str, type[Struct]] = {
    "server/discover": _ModernParams,
    "tools/list": _ModernPage,
    "tools/call": _ModernCallTool,
    "prompts/list": _ModernPage,
    "prompts/get": _ModernGetPrompt,
    "resources/list": _ModernPage,
    "resources/templates/list": _ModernPage,
    "resources/read": _ModernReadResource,
    "completion/complete": _ModernComplete,
    "subscriptions/listen": _Listen,
    "tasks/get": _OfTask,
    "tasks/update": _UpdateTask,
    "tasks/cancel": _OfTask,
}

_HANDSHAKE_METHODS = frozenset(_HANDSHAKE)
_MODERN_METHODS = frozenset(_MODERN)


def methods_of(version: str) -> frozenset[str]:
    """The methods that a version of the protocol has, of those that are served."""
    return _MODERN_METHODS if version in protocol.MODERN_VERSIONS else _HANDSHAKE_METHODS


def check_params(method: str, params: JSONObject, version: str) -> None:
    """Check the params of a method that is served.

    Raises:
        RpcError: INVALID_PARAMS, with the member that is missing or wrong.
    """
    structs = _MODERN if version in protocol.MODERN_VERSIONS else _HANDSHAKE
    try:
        msgspec.convert(params, structs[method])
    except msgspec.ValidationError as error:
        # Its text has the path and the types, and no values.
        text = f"Invalid params of {method}: {error}"
        raise RpcError(protocol.INVALID_PARAMS, text) from None
