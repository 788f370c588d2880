"""Arguments of a tool that its owner keeps under a name, to call it with them again."""

from __future__ import annotations

from msgspec import Struct, field

from discovery_engine._util.json import JSONObject


class Preset(Struct, frozen=True):
    server: str
    tool: str
    name: str
    arguments: JSONObject = field(default_factory=dict)
    updated_at: float = 0.0
    """Unix time in seconds."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The key that identifies it in its scope; presets are sorted by it."""
        return self.server, self.tool, self.name
