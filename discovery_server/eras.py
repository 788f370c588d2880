"""The two eras of the protocol: which requests each allows, their params, the form of results.

In the handshake era a connection begins with `initialize`. Since 2026-07-28 there is no handshake:
each request has an envelope in its `_meta`, with the version and the capabilities of the client.
Members of params that the schema of an era does not name are allowed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from discovery_engine._util.digests import digest
from discovery_engine._util.text import one_line
from discovery_engine._util.version import __version__
from discovery_engine.agent.tool_pool import ToolPool
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    HANDSHAKE_VERSIONS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LATEST_HANDSHAKE,
    LOG_LEVEL,
    MODERN_VERSIONS,
    PROTOCOL_VERSION,
    SERVER_INFO,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from discovery_engine.rpc.validity import sent

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.rpc.client import Client, Continuation

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
    version: str = field(name=PROTOCOL_VERSION)
    capabilities: _ModernCapabilities = field(name=CLIENT_CAPABILITIES)
    client_info: _Implementation | None = field(name=CLIENT_INFO, default=None)
    log_level: _LogLevel | None = field(name=LOG_LEVEL, default=None)
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


class _ModernSkill(_ModernParams, kw_only=True):
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
    "skills/list": _Page,
    "skills/get": _Subscribe,
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
    "skills/list": _ModernPage,
    "skills/get": _ModernSkill,
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
    return _MODERN_METHODS if version in MODERN_VERSIONS else _HANDSHAKE_METHODS


def check_params(method: str, params: JSONObject, version: str) -> None:
    """Check the params of a method that is served.

    Raises:
        RpcError: INVALID_PARAMS, with the member that is missing or wrong.
    """
    structs = _MODERN if version in MODERN_VERSIONS else _HANDSHAKE
    try:
        msgspec.convert(params, structs[method])
    except msgspec.ValidationError as error:
        # Its text has the path and the types, and no values.
        text = f"Invalid params of {method}: {error}"
        raise RpcError(INVALID_PARAMS, text) from None


_VERSION_WITH_BATCHES = "2025-03-26"
_LOG_LEVEL = "info"  # until the client sets one
_BEFORE_INITIALIZE = frozenset({"initialize", "ping"})


_LONGEST_NAME = 64  # characters of a client's name for itself


def _introduced_name(params: JSONObject) -> str:
    """Return the name of the client in the params of `initialize` or of a modern request."""
    meta = params.get("_meta")
    info = meta.get(CLIENT_INFO) if isinstance(meta, dict) else None
    info = params.get("clientInfo") if info is None else info
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""


def client_name(request: ClientRequest) -> str:
    """Return the name that the client of a request gave itself; empty if it gave none."""
    name = request.session.client_name if request.session else ""
    return name or _introduced_name(request.params)


class ClientSession:
    """The state of one client, for the time of its connection."""

    def __init__(self, tools_changed: Callable[[], bool], client: str | None = None) -> None:
        """Create the state of a new client.

        Args:
            tools_changed: Notifies the client of changed tools at once, and returns whether it
                could.
            client: The id of the client; empty if several share one, None if a connection has only
                one client.
        """
        self.tools_changed = tools_changed
        self.pool = ToolPool()
        self.client_name = ""
        """The name that the client gave itself; untrusted text."""
        # The id of a client over HTTP is the key of its session, so only a digest is shown.
        mark = (
            os.urandom(4).hex() if client is None else client and digest(client.encode()).hex()[:8]
        )
        self._mark = f" ({mark})" if mark else ""

    def label(self, params: JSONObject) -> str:
        """Return a label of the client for the owner, with a mark that distinguishes it.

        `params` are those of its request, which have its name since 2026-07-28.
        """
        name = self.client_name or _introduced_name(params)
        return f"{one_line(name)[:_LONGEST_NAME] or 'a client'}{self._mark}"


class ClientRequest(Struct, frozen=True):
    """A request of a client; the transport has checked that its era allows it now."""

    method: str
    params: JSONObject
    version: str
    """The version of the protocol."""
    client: Client | None = None
    """None if nothing is known of it; it cannot be asked then."""
    continuation: Continuation | None = None
    """The client's responses, with which it continues a call."""
    session: ClientSession | None = None
    """The state that is kept for the client; None if none can be."""


class HandshakeEra:
    def __init__(self, *, is_initialized: bool = False) -> None:
        self.is_initialized = is_initialized
        """True if the client has sent `initialize`, or claims so by `notifications/initialized`."""
        self.version = LATEST_HANDSHAKE
        self.capabilities: JSONObject = {}
        """The capabilities of the client."""
        self.log_level = _LOG_LEVEL
        """The least severe level of log messages that the client wants."""

    @property
    def accepts_batches(self) -> bool:
        """True if a line may be an array of messages, which one version alone allows."""
        return self.version == _VERSION_WITH_BATCHES

    def version_of(self, method: str, params: JSONObject) -> str:
        """The version in which a request is served.

        Raises:
            RpcError: If it may not be sent now.
        """
        if method == "initialize":
            return self.version
        if has_envelope(params):
            text = (
                "this connection was opened with `initialize`; requests with the envelope of"
                " 2026-07-28 are not accepted on it"
            )
            raise RpcError(INVALID_REQUEST, text)
        is_early = not self.is_initialized and method not in _BEFORE_INITIALIZE
        if is_early and method in methods_of(self.version):
            text = (
                f"the connection is not initialized: send `initialize` before `{method}`, or give"
                f" {PROTOCOL_VERSION!r} and {CLIENT_CAPABILITIES!r} in `params._meta`"
            )
            raise RpcError(INVALID_PARAMS, text)
        return self.version

    def accept(self, initialize: JSONObject) -> None:
        """Apply the params of an `initialize` that was answered."""
        self.version = negotiated(initialize["protocolVersion"])
        self.capabilities = initialize["capabilities"]
        self.is_initialized = True


class ModernEra:
    accepts_batches = False

    def version_of(self, method: str, params: JSONObject) -> str:
        """Return the version, which each request names; see `HandshakeEra.version_of`."""
        if method == "initialize":
            text = (
                "this connection is served in 2026-07-28, which has no `initialize`; open another"
                " one for a handshake"
            )
            raise RpcError(UNSUPPORTED_PROTOCOL_VERSION, text, _supported(params))
        meta = params.get("_meta")
        required = (PROTOCOL_VERSION, CLIENT_CAPABILITIES)
        missing = [key for key in required if not isinstance(meta, Mapping) or key not in meta]
        if missing:
            text = f"params._meta must be an object with {' and '.join(map(repr, missing))}"
            raise RpcError(INVALID_PARAMS, text)
        version = params["_meta"][PROTOCOL_VERSION]
        if not isinstance(version, str):
            raise RpcError(INVALID_PARAMS, f"{PROTOCOL_VERSION!r} must be a string")
        if version not in MODERN_VERSIONS:
            data = {"supported": list(MODERN_VERSIONS), "requested": version}
            text = "Unsupported protocol version"
            raise RpcError(UNSUPPORTED_PROTOCOL_VERSION, text, data)
        return version


Era: TypeAlias = HandshakeEra | ModernEra


def era_of(method: str, params: JSONObject, *, is_initialized: bool) -> Era:
    """The era of a connection whose first request this is.

    `is_initialized` says whether `notifications/initialized` came before it.
    """
    # The version alone decides, so that an incomplete envelope gets an error that names the rest.
    if method != "initialize" and has_envelope(params):
        return ModernEra()
    return HandshakeEra(is_initialized=is_initialized)


def negotiated(requested: str) -> str:
    """The version of a connection whose client asks for one in `initialize`."""
    return requested if requested in HANDSHAKE_VERSIONS else LATEST_HANDSHAKE


def has_envelope(params: JSONObject) -> bool:
    """Return whether the params of a request name its version, as since 2026-07-28."""
    meta = params.get("_meta")
    return isinstance(meta, Mapping) and PROTOCOL_VERSION in meta


def _supported(params: JSONObject) -> JSONObject:
    requested = params.get("protocolVersion")
    data: JSONObject = {"supported": list(MODERN_VERSIONS)}
    return data | {"requested": requested} if isinstance(requested, str) else data


IMPLEMENTATION: JSONObject = {"name": "discovery", "title": "Discovery", "version": __version__}

_A_DAY: JSONObject = {"ttlMs": 86_400_000, "cacheScope": "public"}
_A_MINUTE: JSONObject = {"ttlMs": 60_000, "cacheScope": "private"}
_CACHE_HINTS: dict[str, JSONObject] = {
    "server/discover": _A_MINUTE,
    "tools/list": _A_DAY,
    "prompts/list": _A_MINUTE,
    "resources/list": _A_MINUTE,
    "resources/templates/list": _A_MINUTE,
    "resources/read": {"ttlMs": 0, "cacheScope": "private"},
    "skills/list": _A_MINUTE,
    "skills/get": _A_MINUTE,
}


def completed(method: str, result: JSONObject, version: str) -> JSONObject:
    """A result as a version of the protocol has it, and with the members that it requires.

    Since 2026-07-28 these are `resultType`, the server's name in `_meta`, and for some methods how
    long the result may be cached. A member that the result has itself is kept. The handshake era
    has no `resultType`.
    """
    result = sent(method, result, version)
    if version not in MODERN_VERSIONS:
        if "resultType" not in result:
            return result
        return {name: value for name, value in result.items() if name != "resultType"}
    meta = {SERVER_INFO: IMPLEMENTATION, **(result.get("_meta") or {})}
    hint = _CACHE_HINTS.get(method, {})
    return {"resultType": "complete", **hint, **result, "_meta": meta}
