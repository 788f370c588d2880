"""Which typical requests search knows of each tool, and where they are from.

Those of the owner, in `overrides`, replace all others; those that were written for this very
definition replace the shipped ones.
"""

from __future__ import annotations

import logging
import time
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.search.examples.written import WrittenBook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discovery_engine.config.settings import SearchSettings
    from discovery_engine.tools.model import Tool

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
    def of(cls, settings: SearchSettings, written: WrittenBook | None = None) -> ExampleBook:
        return cls(is_shipped=settings.shipped_examples, written=written)

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
        from discovery_engine.search.examples import pack  # noqa: PLC0415
        from discovery_engine.search.examples.recognition import recognize  # noqa: PLC0415

        if (shipped_pack := pack.shipped_pack()) is None:
            return {}
        try:
            recognized = recognize(tools, shipped_pack)
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
