"""The requests of agents to their owner, and what became of them."""

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
    """The name of the server, or of the entry of the marketplace; empty for `sync`."""
    arguments: JSONObject = field(default_factory=dict)
    """Everything else that the agent gave; untrusted text."""
    client: str = ""
    """Who asked, as far as it is known."""
    created_at: float = 0.0
    """Unix time in seconds."""
    state: RequestState = "waiting"
    decided_at: float | None = None
    outcome: str = ""
    """The result, for the agent: a server's name, or the reason why there is none."""

    def asks_the_same(self, other: AgentRequest) -> bool:
        mine = self.action, self.name, self.arguments
        return mine == (other.action, other.name, other.arguments)
