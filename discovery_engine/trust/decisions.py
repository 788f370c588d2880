"""The owner's decisions, as plain values: which servers may start, and which tools are accepted.

Decisions are only added, or revoked by the owner. A server or tool that is removed and comes back
has its earlier decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

INSTRUCTIONS = ""
"""Stands for a server's instructions in place of a tool's name, which is never empty."""

AcceptedTools: TypeAlias = Mapping[str, frozenset[str]]
"""The accepted fingerprints and meanings of a server's tools, by the server's own tool names."""


UNREADABLE: AcceptedTools = MappingProxyType({})
"""Stands for the accepted tools of a server if they cannot be read."""


class AcceptedByServer(Mapping[str, AcceptedTools]):
    """The accepted tools by the keys of their servers, read on first access.

    To read all of ten thousand tools takes 160 ms and 5 MB, and most runs need none of it.
    """

    def __init__(
        self,
        read: Callable[[str], AcceptedTools],
        known: Mapping[str, AcceptedTools] = MappingProxyType({}),
    ) -> None:
        self._read = read
        self._known = dict(known)
        self.is_readable = all(tools is not UNREADABLE for tools in self._known.values())
        """True if everything requested so far could be read."""

    def __getitem__(self, server: str) -> AcceptedTools:
        if (tools := self._known.get(server)) is None:
            tools = self._known[server] = self._read(server)
            self.is_readable &= tools is not UNREADABLE
        return tools

    def __iter__(self) -> Iterator[str]:
        """Iterate over the servers that were read."""
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def without(self, servers: Collection[str]) -> dict[str, AcceptedTools]:
        """Return the tools read so far, without those of `servers`."""
        remainder = self._known.copy()
        for server in servers:
            remainder.pop(server, None)
        return remainder

    def unreadable(self) -> list[str]:
        return [name for name, tools in self._known.items() if tools is UNREADABLE]


class Approval(Struct, frozen=True):
    """The owner's permission to start or reach a server."""

    server: str
    """The key of the server in decisions (`server_identity.known_as`)."""
    identity: str
    """The identity that the owner was shown (`admission.identity`)."""


class Acceptance(Struct, frozen=True):
    """A tool, or a server's instructions, in an accepted state."""

    server: str
    """The key of the server in decisions."""
    tool: str
    """The server's own name for it; `INSTRUCTIONS` for instructions."""
    meaning: str
    fingerprint: str
    definition: str
    """Canonical JSON."""


UNREAD = 0.0
"""Stands for the time of a loss before the registry has answered: nothing may be new then."""


class Decisions(Struct, frozen=True):
    """All decisions for one configuration."""

    approvals: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """The approved identities, by the keys of servers."""
    accepted: Mapping[str, AcceptedTools] | AcceptedByServer = field(
        default_factory=lambda: MappingProxyType({})
    )
    """The accepted tools, by the keys of servers."""
    lost_at: float | None = None
    """Unix time in seconds at which a loss of decisions was found; None once acknowledged.

    `UNREAD` as long as the decisions have not been read."""
    number: int = 0
    """The number of the newest decision that was read; numbers are consecutive."""


def with_accepted(decisions: Decisions, acceptances: Iterable[Acceptance]) -> Decisions:
    """Return the decisions with the acceptances added."""
    accepted = {server: dict(tools) for server, tools in decisions.accepted.items()}
    for acceptance in acceptances:
        tools = accepted.setdefault(acceptance.server, {})
        tools[acceptance.tool] = tools.get(acceptance.tool, frozenset()) | {
            acceptance.meaning,
            acceptance.fingerprint,
        }
    return replace(decisions, accepted=accepted)
