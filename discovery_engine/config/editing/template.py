"""The first `discovery.yaml`: where the servers come from, and rules that keep a beginner safe."""

from __future__ import annotations

from collections.abc import Sequence

from discovery_engine.config.editing.yaml_text import block
from discovery_engine.config.model.schema import MODELINE
from discovery_engine.config.serialization import serialize
from discovery_engine.config.settings import Settings, Source

_HEAD = f"""\
{MODELINE}
# The MCP servers, and what agents may use of them. See `discovery --help` for what to do with it.

"""
_SOURCES = """\
# Servers from the files of other clients; what changes there changes here.
"""
_SERVERS = """\
# Servers of your own. Refer to secrets, do not write them: ${NAME} is an environment variable.
servers: {}
#  time:
#    command: uvx
#    args: [mcp-server-time]
"""
_SAFE_RULES = """\

# The first rule that matches and has `enabled` decides; tags add up.
toolRules:
  # What may destroy something is off; put a rule that enables it before these.
  - pattern: ["*delete*", "*remove*", "*destroy*", "*drop*"]
    enabled: false
    tags: [dangerous]
  - annotations: {destructiveHint: true}
    enabled: false
    tags: [dangerous]
  - annotations: {readOnlyHint: true}
    tags: [read-only]
"""


def first_configuration(sources: Sequence[Source], *, with_rules: bool) -> str:
    """The text of a first configuration."""
    text = _HEAD
    if sources:
        entries = serialize(Settings(sources=tuple(sources)))["sources"]
        text += _SOURCES + block({"sources": entries}) + "\n"
    return text + _SERVERS + (_SAFE_RULES if with_rules else "")
