"""The outcome of a refresh: which servers failed and why, and what changed in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine.catalog import CatalogDiff, Failure
from discovery_engine.runtime.ingestion.server_parts import failure_of
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.errors import UntrustedServerError


class RefreshReport(Struct, frozen=True):
    servers: tuple[tuple[ServerName, Failure | None], ...]
    """Every server that was listed, in the order of names, with its failure if any."""
    diff: CatalogDiff
    starting: tuple[ServerName, ...] = ()
    """The listed servers that had not answered yet; they go on starting."""


def make_report(
    parts: Iterable[ServerPart],
    diff: CatalogDiff,
    *,
    refused: Iterable[UntrustedServerError] = (),
    starting: Iterable[ServerName] = (),
    now: float = 0.0,
) -> RefreshReport:
    """The report on listed servers and on refused ones.

    `starting` have not answered yet; `now` is Unix time in seconds.
    """
    listed_servers = [(part.server, part.failure) for part in parts]
    listed_servers += [(ServerName(error.server), failure_of(error, now)) for error in refused]
    return RefreshReport(
        tuple(sorted(listed_servers, key=lambda entry: entry[0])), diff, tuple(starting)
    )
