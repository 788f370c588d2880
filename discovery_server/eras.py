"""The two eras of the protocol: which requests a connection of each may send, and in which version.

In the handshake era a connection begins with `initialize`. Since 2026-07-28 there is no handshake:
each request has an envelope in its `_meta`, with the version and the capabilities of the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import (
    CLIENT_CAPABILITIES,
    HANDSHAKE_VERSIONS,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LATEST_HANDSHAKE,
    MODERN_VERSIONS,
    PROTOCOL_VERSION,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from discovery_server.request_params import methods_of

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject

_VERSION_WITH_BATCHES = "2025-03-26"
_LOG_LEVEL = "info"  # until the client sets one
_BEFORE_INITIALIZE = frozenset({"initialize", "ping"})


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
        is_served = method in methods_of(self.version)
        if is_served and not self.is_initialized and method not in _BEFORE_INITIALIZE:
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
