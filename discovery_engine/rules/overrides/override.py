"""An entry of `overrides` as a plain value, and what it gives in a few words.

Nothing is compiled here, so that a remembered catalog can be read without loading a pattern
library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine._util.json import JSONValue
from discovery_engine._util.quantities import counted
from discovery_engine.errors import Origin
from discovery_engine.tools.model import ToolName


class Override(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of `overrides`, as the owner wrote it.

    Written out, a field has the name of its key.
    """

    patterns: tuple[str, ...] = field(default=(), name="pattern")
    servers: tuple[str, ...] = field(default=(), name="server")
    """Patterns that the server's name must match."""
    description: str | None = None
    name: ToolName | None = None
    tags: tuple[str, ...] = ()
    arguments: Mapping[str, JSONValue] = field(default_factory=dict)
    """Values of parameters; their texts may hold `${references}`, resolved at the call."""
    origin: Origin = Origin("")
    max_result_tokens: int | None = field(default=None, name="maxResultTokens")
    """The most that an agent gets of a result; 0 for all of it, None follows the server's."""
    examples: tuple[str, ...] = ()
    """Requests that the tool serves; search finds it by them, and no agent is shown them."""

    def without_values(self) -> Override:
        """The same with nothing of what it pins but the names of the parameters."""
        return replace(self, arguments=dict.fromkeys(self.arguments)) if self.arguments else self

    def gives(self) -> str:
        """Return its effects, such as `name 'find', description, tags code, pins owner`."""
        return ", ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        if self.name:
            yield f"name {self.name!r}"
        if self.description:
            yield "description"
        if self.tags:
            yield f"tags {', '.join(self.tags)}"
        if self.examples:
            yield counted(len(self.examples), "example")
        if self.arguments:
            yield f"pins {', '.join(self.arguments)}"
        if self.max_result_tokens is not None:
            yield f"results of {self.max_result_tokens:,} tokens"
