"""What servers listed, in SQLite; `registry.protocols` has its contract.

A server is one row with all its tools, a column for each of their fields: a start reads them all
and looks closely at a few. Definitions stay text, and none is parsed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from io import BytesIO
from itertools import chain, groupby, repeat

from msgspec import Struct
from msgspec.structs import astuple, replace

from discovery_engine.catalog import Entry, OfferingEntry, ServerPart
from discovery_engine.registry.codec import from_text, part_from_text, to_text
from discovery_engine.rules.rule import Verdict
from discovery_engine.tools.model import AppliedOverride, ServerName, Tool
from discovery_engine.tools.offering import Offering, OfferingKind

_AS_LISTED = AppliedOverride()


class ToolRow(Struct, frozen=True):
    """All that is kept of a part; what is of its tools is in step."""

    part: str
    names: str
    upstream_names: str
    verdicts: str
    judged: str
    sources: bytes
    digest: bytes | None
    offerings: str | None
    """JSON of all but tools; NULL if there is nothing else."""


def row_of(part: ServerPart) -> ToolRow:
    tools = [entry.tool for entry in part.entries]
    numbers = {verdict: number for number, verdict in enumerate(part.verdicts)}
    runs = groupby(entry.verdict for entry in part.entries)
    return ToolRow(
        to_text(part),
        json.dumps([tool.given_name for tool in tools]),
        json.dumps([tool.upstream_name for tool in tools]),
        "\n".join(map(_text, numbers)),
        json.dumps([(numbers[verdict], len(list(run))) for verdict, run in runs]),
        "\n".join([tool.source for tool in tools]).encode(),
        part.digest,
        _offerings_text(part.offerings) if part.offerings else None,
    )


def part_of(row: ToolRow) -> ServerPart:
    """What `row_of` was given.

    Raises:
        LookupError, TypeError, ValueError: If the row is not of this version, or not whole.
    """
    part, overridden = part_from_text(row.part)
    upstream_names = json.loads(row.upstream_names)
    names = upstream_names if row.names == row.upstream_names else json.loads(row.names)
    kinds = [_verdict(line) for line in row.verdicts.splitlines()]
    runs = (repeat(kinds[number], count) for number, count in json.loads(row.judged))
    verdicts = list(chain.from_iterable(runs))
    # Unlike `split` it skips from line to line, and most of what is read here are definitions.
    sources = list(BytesIO(row.sources))
    if not len(names) == len(upstream_names) == len(verdicts) == len(sources):
        raise ValueError(f"the columns of the tools of {part.server!r} are not in step")
    overrides = map(overridden.get, upstream_names, repeat(_AS_LISTED))
    texts = map(bytes.decode, map(bytes.rstrip, sources))
    tools = map(Tool, repeat(part.server), names, upstream_names, texts, overrides)
    offerings = _offerings(part.server, row.offerings) if row.offerings else ()
    part = replace(part, entries=tuple(map(Entry, tools, verdicts)), offerings=offerings)
    return part.with_digest(row.digest) if row.digest else part


def rows(connection: sqlite3.Connection, scope: int) -> list[ToolRow]:
    query = """
        SELECT part, names, upstream_names, verdicts, judged, sources, digest, offerings
        FROM servers JOIN listings ON listings.server = servers.id WHERE scope = ?
        """
    return [ToolRow(*row) for row in connection.execute(query, (scope,))]


def save(connection: sqlite3.Connection, server: int, row: ToolRow) -> None:
    part, *columns = astuple(row)
    connection.execute("UPDATE servers SET part = ? WHERE id = ?", (part, server))
    query = "INSERT OR REPLACE INTO listings VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    connection.execute(query, (server, *columns))


def forget(connection: sqlite3.Connection, servers: Iterable[int]) -> int:
    """Drop what servers listed; returns how many tools that were."""
    tools = 0
    for server in servers:
        query = "SELECT upstream_names FROM listings WHERE server = ?"
        for (names,) in connection.execute(query, (server,)):
            tools += len(json.loads(names))
        connection.execute("UPDATE servers SET part = NULL WHERE id = ?", (server,))
        connection.execute("DELETE FROM listings WHERE server = ?", (server,))
    return tools


def _offerings_text(entries: Iterable[OfferingEntry]) -> str:
    return json.dumps(
        [
            (e.offering.kind, e.offering.identifier, _text(e.verdict), e.offering.source)
            for e in entries
        ]
    )


def _offerings(server: ServerName, text: str) -> tuple[OfferingEntry, ...]:
    return tuple(
        OfferingEntry(Offering(server, OfferingKind(kind), identifier, source), _verdict(verdict))
        for kind, identifier, verdict, source in json.loads(text)
    )


# A catalog has few verdicts that differ, and each server has most of them.
@lru_cache(maxsize=1000)
def _verdict(text: str) -> Verdict:
    return from_text(Verdict, text)


@lru_cache(maxsize=1000)
def _text(verdict: Verdict) -> str:
    return to_text(verdict)
