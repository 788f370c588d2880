"""The owner's decisions, as plain values: which servers may be started, which tools were accepted.

They are only ever added to, or revoked by the owner. A server or a tool that goes away and comes
back finds its history.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

INSTRUCTIONS = ""
"""In place of a tool's name: a server's instructions. No tool can be called that."""

AcceptedTools: TypeAlias = Mapping[str, frozenset[str]]
"""By a tool's own name: the fingerprints and the meanings that were accepted."""


UNREADABLE: AcceptedTools = MappingProxyType({})
"""In place of what was accepted of a server, where that cannot be read."""


class AcceptedByServer(Mapping[str, AcceptedTools]):
    """The accepted tools by the keys of their servers; each server's are read when first needed.

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
        """True if all that was asked for could be read."""

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
        """Return what was read of all other servers."""
        remainder = self._known.copy()
        for server in servers:
            remainder.pop(server, None)
        return remainder

    def unreadable(self) -> list[str]:
        return [name for name, tools in self._known.items() if tools is UNREADABLE]


class Approval(Struct, frozen=True):
    """The owner's word that a server may be started or reached."""

    server: str
    """Its key in decisions (`server_identity.known_as`)."""
    identity: str
    """The identity of what was shown to the owner (`admission.identity`)."""


class Acceptance(Struct, frozen=True):
    """A tool, or a server's instructions, as they were accepted."""

    server: str
    """Its key in decisions."""
    tool: str
    """The upstream's own name of it; `INSTRUCTIONS` for those."""
    meaning: str
    fingerprint: str
    definition: str
    """Canonical JSON."""


UNREAD = 0.0
"""In place of the time of a loss: the registry has not answered yet, so nothing may be new."""


class Decisions(Struct, frozen=True):
    """All of one configuration."""

    approvals: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """By what servers are known as: the identities that were approved."""
    accepted: Mapping[str, AcceptedTools] | AcceptedByServer = field(
        default_factory=lambda: MappingProxyType({})
    )
    """By what servers are known as."""
    lost_at: float | None = None
    """Unix time in seconds at which a loss of others was found; None after it is acknowledged.

    `UNREAD` as long as it is unknown which there are."""
    number: int = 0
    """The number of the newest decision when these were read; each decision has the next number."""


def with_accepted(decisions: Decisions, acceptances: Iterable[Acceptance]) -> Decisions:
    """The decisions, with what was accepted meanwhile."""
    accepted = {server: dict(tools) for server, tools in decisions.accepted.items()}
    for acceptance in acceptances:
        tools = accepted.setdefault(acceptance.server, {})
        tools[acceptance.tool] = tools.get(acceptance.tool, frozenset()) | {
            acceptance.meaning,
            acceptance.fingerprint,
        }
    return replace(decisions, accepted=accepted)
