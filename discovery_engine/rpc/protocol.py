"""Constants of MCP: its versions, reserved keys and error codes.

Source: the specification, revisions 2024-11-05 to 2026-07-28.
"""

from __future__ import annotations

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Opened by `initialize`, oldest first."""
MODERN_VERSIONS = ("2026-07-28",)
"""Without a handshake: each request names its version; oldest first."""
LATEST_HANDSHAKE = HANDSHAKE_VERSIONS[-1]
LATEST_MODERN = MODERN_VERSIONS[-1]

# Keys of `_meta`.
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

# Extensions, as capabilities name them.
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

# Our own keys of `_meta`, in what passes from a server to the client whose call caused it.
ASKING_SERVER = "discovery/server"
FINDINGS = "discovery/findings"  # of the scanner, in the texts of a question
# And in a result that passes.
CONVERTED = "discovery/converted"  # the arguments that were converted for the call

# Error codes of JSON-RPC 2.0.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

# Error codes of MCP.
RESOURCE_NOT_FOUND = -32002  # in the handshake era; since 2026-07-28 it is INVALID_PARAMS
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022

# Never sent, but given to the callers of requests that get no answer.
CONNECTION_CLOSED = -32000
