"""What agents asked their owner for, and what became of it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from discovery_engine._util.json import JSONObject

AgentAction: TypeAlias = Literal["install", "uninstall", "activate", "deactivate", "sync"]
RequestState: TypeAlias = Literal["waiting", "deciding", "accepted", "declined", "failed"]


class AgentRequest(Struct, frozen=True):
    """A request of an agent for something that only the owner does."""

    id: str
    action: AgentAction
    name: str = ""
    """Of the server, or of the entry of the marketplace; empty for `sync`."""
    arguments: JSONObject = field(default_factory=dict)
    """What else the agent gave; text of a stranger."""
    client: str = ""
    """Who asked, as far as it is known."""
    created_at: float = 0.0
    """Unix time in seconds."""
    state: RequestState = "waiting"
    decided_at: float | None = None
    outcome: str = ""
    """What came of it, for the agent: a server's name, or why not."""

    def asks_the_same(self, other: AgentRequest) -> bool:
        mine = self.action, self.name, self.arguments
        return mine == (other.action, other.name, other.arguments)
