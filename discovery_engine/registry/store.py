"""What every registry back-end promises.

A registry remembers, for each configuration (its *scope*), the world as it was last seen, so
that the next start can answer while every upstream is still asleep. Calls block: whoever holds
an event loop makes them in a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import Catalog, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.search.usage import Use
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.trust.decisions import Acceptance, Approval, Decisions


class World(Struct, frozen=True):
    """The settings, without their secrets, and the catalog that was made under them."""

    settings: Settings
    catalog: Catalog


class Store(Protocol):
    def load(self, scope: str) -> World | None:
        """The remembered world of a scope; None if there is none.

        Raises:
            RegistryError: If it cannot be read.
        """

    def save_settings(self, scope: str, settings: Settings) -> None:
        """Remember the settings and forget every server that they do not name.

        No transport (command, arguments, environment, address, headers) is written.
        """

    def save_parts(self, scope: str, parts: Iterable[ServerPart], *, revision: int) -> None:
        """Replace what is remembered of these servers, in one transaction.

        A server that the remembered settings do not name is passed over: what was removed from
        the configuration meanwhile must not come back. The remembered revision never falls.
        """

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        """Drop what servers told (all of the scope with None), and how often it was used.

        Returns how many tools went.
        """

    def load_index(self, scope: str) -> bytes | None:
        """The search index that was last saved; it may be of an older world."""

    def save_index(self, scope: str, data: bytes) -> None:
        """Keep the search index of a scope's world; no-op without a world."""

    def recall_era(self, connection: str) -> JSONObject | None:
        """How a server last introduced itself, by the fingerprint of how it is reached."""

    def remember_era(self, connection: str, era: JSONObject | None) -> None:
        """None forgets."""

    def decisions(self, scope: str) -> Decisions:
        """All that was approved and accepted in a scope, whether or not its world is kept."""

    def approve(self, scope: str, approvals: Iterable[Approval], *, at: float) -> None:
        """Add approvals; `at` is Unix time in seconds. One that is kept already is kept once."""

    def revoke(self, scope: str, servers: Iterable[str]) -> int:
        """Drop all approvals of servers; returns how many there were."""

    def accept(
        self, scope: str, found: Iterable[Acceptance], *, at: float, if_new: bool = False
    ) -> None:
        """Add acceptances, which nothing ever drops.

        With `if_new` only those of tools of which nothing was accepted before: of two processes
        that see a tool for the first time, one decides.
        """

    def history(self, scope: str, server: str) -> tuple[Acceptance, ...]:
        """All acceptances of a server's tools; what was accepted last comes last."""

    def lost_at(self, scope: str) -> float | None:
        """Unix time in seconds at which decisions of a scope were found to be lost.

        None if none were, or their owner has acknowledged it.
        """

    def acknowledge_loss(self, scope: str, *, at: float) -> None:
        """Let tools be accepted by being seen again; no-op if nothing was lost."""

    def vectors(self, model: str, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """The vectors that a model gave to texts, by the digests of these; some may be missing."""

    def save_vectors(self, scope: str, model: str, vectors: Mapping[bytes, bytes]) -> None:
        """Add vectors, by the digests of their texts, for a scope's use.

        A text has one vector under a model: a newer one takes the place of an older.
        """

    def keep_vectors(self, scope: str, model: str, digests: Collection[bytes]) -> int:
        """Let a scope use these and no others, of this model or another.

        What no scope uses is dropped; returns how many vectors that were.
        """

    def uses(self, scope: str) -> Mapping[ToolKey, Use]:
        """How often the tools of a scope were used that had been found, where that is counted."""

    def count_use(self, scope: str, key: ToolKey, *, at: float) -> None:
        """Count one; `at` is Unix time in seconds. No-op for a server that is not remembered.

        What was counted goes when its server is forgotten.
        """

    def close(self) -> None: ...
