"""Constants of MCP: its versions, reserved keys and error codes.

Source: the specification, revisions 2024-11-05 to 2026-07-28.
"""

from __future__ import annotations

import re

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

_AUTHORITY = (
    r"(?:[^\s/?#@\[\]]*@)?(?:\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]<>\\^|%]*)(?::\d{0,5})?(?=[/?#]|$)"
)
_WITH_HOST = r"(?i:https?|wss?|ftp)"
URI = rf"^(?!{_WITH_HOST}:/*(?:[?#:]|$))[A-Za-z][A-Za-z0-9+.-]*:(?:(?!//)|//{_AUTHORITY})"
"""The pattern of URIs that the Python SDK 1.x reads; it refuses a whole list for any other URI."""

# Extensions, as capabilities name them.
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
APPS_EXTENSION = "io.modelcontextprotocol/ui"
SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
EXTENSIONS = frozenset({TASKS_EXTENSION, APPS_EXTENSION, SKILLS_EXTENSION})
"""The extensions that pass between clients and servers."""

# Our own keys of `_meta`, in what passes from a server to the client whose call caused it.
ASKING_SERVER = "discovery/server"
FINDINGS = "discovery/findings"  # of the scanner, in the texts of a question
# And in a result that passes.
CONVERTED = "discovery/converted"  # the arguments that were converted for the call
CHANGES = "discovery/changes"  # what was not valid in a result, by its place

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


def is_uri(text: str) -> bool:
    return re.search(URI, text) is not None
