"""Typical requests that search knows of each tool, and their origins.

Those of the owner, in `overrides`, replace all others; those that were written for this very
definition by a language model replace the shipped ones.
"""

from __future__ import annotations

import logging
import time
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from discovery_engine.errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from discovery_engine.config.settings import SearchSettings
    from discovery_engine.tools.model import Tool


class WrittenRequests(Struct, frozen=True):
    """The requests that were written for one definition of a tool."""

    server: str
    tool: str
    """The name that its server gave it."""
    fingerprint: str
    requests: tuple[str, ...]
    model: str
    instructions: int
    """The version of the instructions that the model was given."""
    at: float
    """Unix time in seconds."""


class WrittenStore(Protocol):
    """The part of `store.registry.Registry` that a book needs."""

    def requests_mark(self) -> str: ...

    def written_requests(self) -> Iterable[WrittenRequests]: ...


class WrittenBook:
    """All that was written at a mark, read from the registry when it is needed.

    The registry keeps no older rows: once something else is written, the book cannot be read as it
    was. Then it has the present rows, and `has_failed`.
    """

    def __init__(
        self, mark: str, open_store: Callable[[], AbstractContextManager[WrittenStore]]
    ) -> None:
        self.mark = mark
        """Differs whenever something else is written, see `store.registry.Registry`."""
        self._open_store = open_store
        self.has_failed = False
        """True if the book was read, and its rows are not known to be those of its mark."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, WrittenBook) or other.mark != self.mark:
            return False
        return not (self.has_failed or other.has_failed)

    def __hash__(self) -> int:
        return hash(self.mark)

    @cached_property
    def by_tool(self) -> Mapping[tuple[str, str], Mapping[str, WrittenRequests]]:
        """The written requests by server and tool, then by fingerprint."""
        requests: dict[tuple[str, str], dict[str, WrittenRequests]] = {}
        for row in self._rows():
            requests.setdefault((row.server, row.tool), {})[row.fingerprint] = row
        return requests

    def _rows(self) -> Iterable[WrittenRequests]:
        try:
            with self._open_store() as store:
                rows = store.written_requests()
                self.has_failed = store.requests_mark() != self.mark
                return rows
        except RegistryError as error:
            logger.warning("The requests that were written for tools cannot be read: %s", error)
            self.has_failed = True
            return ()


logger = logging.getLogger(__name__)

PACK_VERSION = "2026.11.1"
"""Version in the shipped pack's manifest: a stored index is checked without opening the pack."""


class ExampleSource(StrEnum):
    OWNER = "owner"
    """`examples` of `overrides`."""
    ENRICHED = "enriched"
    """Written by a model that the owner asked."""
    SHIPPED = "shipped"
    """The pack of this program."""


class Examples(Struct, frozen=True):
    """The typical requests of a tool."""

    texts: tuple[str, ...]
    source: ExampleSource
    note: str = ""
    """More of the source: version and server of the pack, or the model and when it was asked."""

    def __str__(self) -> str:
        return f"{self.source}, {self.note}" if self.note else str(self.source)

    @property
    def is_shipped(self) -> bool:
        return self.source is ExampleSource.SHIPPED


class ExampleBook(Struct, frozen=True):
    """Nothing is read before it is asked."""

    is_shipped: bool = True
    """True if the shipped pack is used."""
    written: WrittenBook | None = None
    """The requests that a language model wrote; None if there are none."""

    @classmethod
    def of(cls, settings: SearchSettings, requests: WrittenBook | None = None) -> ExampleBook:
        return cls(is_shipped=settings.shipped_examples, written=requests)

    @property
    def digest(self) -> str:
        """A digest of all but the owner's requests: equal if every tool has the same ones."""
        shipped = PACK_VERSION if self.is_shipped else ""
        return f"{shipped} {self.written.mark}" if self.written else shipped

    @property
    def has_failed(self) -> bool:
        """True if requests that were read are not those of the digest.

        Some may then be missing, so nothing that is made of the book may be stored.
        """
        if self.written and self.written.has_failed:
            return True
        if not self.is_shipped:
            return False
        from discovery_engine.search.examples import pack  # noqa: PLC0415 - as in `_shipped`

        shipped_pack = pack.shipped_pack()
        return shipped_pack is None or shipped_pack.is_damaged

    def of_tools(self, tools: Sequence[Tool]) -> dict[str, Examples]:
        """Return the examples of one server's tools, by the names that the server gave them."""
        examples = self._shipped(tools) if self.is_shipped else {}
        requests_by_tool = self.written.by_tool if self.written else {}
        for tool in tools:
            by_definition = requests_by_tool.get((tool.server, tool.upstream_name))
            if by_definition and (enrichment := by_definition.get(tool.fingerprint)):
                note = (
                    f"{enrichment.model}, {time.strftime('%Y-%m-%d', time.gmtime(enrichment.at))}"
                )
                examples[tool.upstream_name] = Examples(
                    enrichment.requests, ExampleSource.ENRICHED, note
                )
            if tool.overridden.examples:
                examples[tool.upstream_name] = Examples(
                    tool.overridden.examples, ExampleSource.OWNER
                )
        return examples

    def _shipped(self, tools: Sequence[Tool]) -> dict[str, Examples]:
        # A search over a stored index needs none of it.
        from discovery_engine.search.examples import pack  # noqa: PLC0415 - as in `_shipped`

        if (shipped_pack := pack.shipped_pack()) is None:
            return {}
        try:
            recognized = pack.recognize(tools, shipped_pack)
        except pack.UNREADABLE as error:
            shipped_pack.is_damaged = True
            logger.warning("The typical requests of a server cannot be read: %s", error)
            return {}
        return {
            name: Examples(
                match.requests, ExampleSource.SHIPPED, f"pack {PACK_VERSION}, {match.server}"
            )
            for name, match in recognized.items()
        }


OWN_EXAMPLES = ExampleBook(is_shipped=False)
"""Knows the owner's alone."""
