"""Entries in SQLite: every version that is kept, and of each entry the highest one.

A version that is deleted lets the next lower one count; so several are kept whole.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import (
    MarketplaceEntry,
    VersionNote,
    package_key,
    repository_key,
)
from discovery_engine.marketplace.entry_documents import (
    entry_lexicon,
    name_spellings_of,
    read_entry,
)
from discovery_engine.marketplace.entry_index import IndexedEntry
from discovery_engine.marketplace.same_server import EntryIdentity, highest_first
from discovery_engine.marketplace.versions import version_key
from discovery_engine.search.text.lexicon import Lexicon

SCHEMA = """
CREATE TABLE versions (
    source TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
    status TEXT NOT NULL, published_at TEXT NOT NULL, generation INTEGER NOT NULL,
    data BLOB NOT NULL, PRIMARY KEY (source, name, version)
) WITHOUT ROWID;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, name TEXT NOT NULL,
    version TEXT NOT NULL, entry_id TEXT NOT NULL, package_key TEXT NOT NULL,
    repository_key TEXT NOT NULL, updated_at TEXT NOT NULL, spellings BLOB NOT NULL,
    document BLOB NOT NULL, UNIQUE (source, name)
);
CREATE INDEX entries_by_package ON entries (package_key);
CREATE INDEX entries_by_id ON entries (entry_id);
CREATE INDEX entries_by_name ON entries (name COLLATE NOCASE);
CREATE INDEX entries_by_update ON entries (updated_at DESC, id);
"""

_VERSIONS_KEPT = 10  # whole ones of each entry
_BATCH = 500  # rows that are read at once
_JOINED = (
    "FROM entries e JOIN versions v"
    " ON v.source = e.source AND v.name = e.name AND v.version = e.version"
)


class StoredIdentity(NamedTuple):
    """What an entry is, without all that is known of it."""

    row: int
    """Its number, which no other entry gets."""
    identity: EntryIdentity


class PageResult(Struct, frozen=True):
    """What a page has changed."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    left_out: tuple[str, ...] = ()
    """Why entries were not kept."""


_SPELLINGS = msgspec.msgpack.Decoder(list[str])
_DOCUMENT = msgspec.msgpack.Decoder(dict[str, int])
_ENTRY = msgspec.msgpack.Decoder(MarketplaceEntry)


class PreparedEntry(Struct, frozen=True):
    """An entry with all that is stored of it."""

    entry: MarketplaceEntry
    data: bytes
    spellings: bytes
    document: bytes

    @classmethod
    def of(cls, entry: MarketplaceEntry, lexicon: Lexicon) -> PreparedEntry:
        return cls(
            entry,
            # The notes on versions are those of the rows.
            msgspec.msgpack.encode(replace(entry, versions=())),
            msgspec.msgpack.encode(sorted(name_spellings_of(entry))),
            msgspec.msgpack.encode(read_entry(entry, lexicon)),
        )


def add_entries(
    db: sqlite3.Connection, source: str, generation: int, prepared: Iterable[PreparedEntry]
) -> PageResult:
    by_name: defaultdict[str, list[PreparedEntry]] = defaultdict(list)
    left_out = []
    for one in prepared:
        if len(one.data) <= bounds.ENTRY_BYTES:
            by_name[one.entry.name].append(one)
        else:
            left_out.append(f"{one.entry.name!r} has {len(one.data):,} bytes")
    added = updated = removed = 0
    for name, versions in by_name.items():
        is_new = _chosen(db, source, name) is None
        has_changed = [_add_version(db, source, generation, one) for one in versions]
        if not any(has_changed):
            continue
        if not _choose(db, source, name, versions):
            removed += not is_new
        elif is_new:
            added += 1
        else:
            updated += 1
    return PageResult(added, updated, removed, tuple(left_out))


def remove_older(db: sqlite3.Connection, source: str) -> int:
    """Remove what did not come in the present generation; returns how many entries went."""
    where = "source = ? AND generation < (SELECT generation FROM sources WHERE name = ?)"
    names = db.execute(
        f"SELECT DISTINCT name FROM versions WHERE {where}",  # noqa: S608 - ours
        (source, source),
    ).fetchall()
    db.execute(f"DELETE FROM versions WHERE {where}", (source, source))  # noqa: S608 - ours
    return sum(not _choose(db, source, name) for (name,) in names)


def refresh_documents(db: sqlite3.Connection, lexicon: Lexicon) -> None:
    """Read the texts of all entries again, as another version of the program read them."""
    rows = db.execute(f"SELECT e.id, v.data {_JOINED}")
    while batch := rows.fetchmany(_BATCH):
        prepared = [(PreparedEntry.of(_ENTRY.decode(data), lexicon), row) for row, data in batch]
        db.executemany(
            "UPDATE entries SET spellings = ?, document = ? WHERE id = ?",
            [(one.spellings, one.document, row) for one, row in prepared],
        )


def indexed_entries(db: sqlite3.Connection) -> Iterator[IndexedEntry]:
    """What the search index is made of."""
    rows = db.execute("SELECT id, source, spellings, document FROM entries ORDER BY id")
    for row, source, spellings, document in rows:
        yield IndexedEntry(row, source, _SPELLINGS.decode(spellings), _DOCUMENT.decode(document))


def find_identities(
    db: sqlite3.Connection, condition: str, values: Iterable[object]
) -> list[StoredIdentity]:
    """The entries of which a condition is true, in its order."""
    # The condition is ours, and its values are bound.
    selected = "SELECT id, source, name, package_key, repository_key FROM entries"
    rows = db.execute(f"{selected} WHERE {condition}", tuple(values))
    return [StoredIdentity(row, EntryIdentity(*identity)) for row, *identity in rows]


def find_rows(db: sqlite3.Connection, condition: str, values: Iterable[object]) -> set[int]:
    """The rows of the entries of which a condition on `e` and its version `v` is true."""
    return {row for (row,) in db.execute(f"SELECT e.id {_JOINED} WHERE {condition}", tuple(values))}


def find_entries(
    db: sqlite3.Connection, condition: str, values: Iterable[object], *, with_versions: bool
) -> dict[int, MarketplaceEntry]:
    """The entries of which a condition on `e`, the table of entries, is true, by their rows."""
    selected = f"SELECT e.id, e.source, e.name, v.data {_JOINED}"
    rows = db.execute(f"{selected} WHERE {condition}", tuple(values)).fetchall()
    if not with_versions:
        return {row: _ENTRY.decode(data) for row, _, _, data in rows}
    return {
        row: _with_versions(db, source, name, _ENTRY.decode(data))
        for row, source, name, data in rows
    }


def _add_version(db: sqlite3.Connection, source: str, generation: int, one: PreparedEntry) -> bool:
    """Keep one version of an entry; returns whether anything is different."""
    entry = one.entry
    key = (source, entry.name, entry.version)
    known = db.execute(
        "SELECT data FROM versions WHERE source = ? AND name = ? AND version = ?", key
    ).fetchone()
    if entry.status == "deleted":
        db.execute("DELETE FROM versions WHERE source = ? AND name = ? AND version = ?", key)
        return known is not None
    if known and known[0] == one.data:
        db.execute(
            "UPDATE versions SET generation = ? WHERE source = ? AND name = ? AND version = ?",
            (generation, *key),
        )
        return False
    db.execute(
        "REPLACE INTO versions (source, name, version, status, published_at, generation, data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key, entry.status, entry.published_at, generation, one.data),
    )
    return True


def _choose(
    db: sqlite3.Connection, source: str, name: str, known: Iterable[PreparedEntry] = ()
) -> bool:
    """Let the highest version be the entry; returns whether there is one."""
    rows = db.execute(
        "SELECT version, status FROM versions WHERE source = ? AND name = ?", (source, name)
    ).fetchall()
    ordered = sorted(rows, key=lambda row: (row[1] == "active", version_key(row[0])), reverse=True)
    for version, _ in ordered[_VERSIONS_KEPT:]:
        db.execute(
            "DELETE FROM versions WHERE source = ? AND name = ? AND version = ?",
            (source, name, version),
        )
    if not ordered:
        db.execute("DELETE FROM entries WHERE source = ? AND name = ?", (source, name))
        return False
    highest = ordered[0][0]
    chosen = next((one for one in known if one.entry.version == highest), None)
    if chosen is None or chosen.entry.status == "deleted":
        [data] = db.execute(
            "SELECT data FROM versions WHERE source = ? AND name = ? AND version = ?",
            (source, name, highest),
        ).fetchone()
        chosen = PreparedEntry.of(_ENTRY.decode(data), entry_lexicon())
    entry = chosen.entry
    db.execute(
        "INSERT INTO entries (source, name, version, entry_id, package_key,"
        " repository_key, updated_at, spellings, document) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (source, name) DO UPDATE SET version = excluded.version,"
        " entry_id = excluded.entry_id, package_key = excluded.package_key,"
        " repository_key = excluded.repository_key,"
        " updated_at = excluded.updated_at, spellings = excluded.spellings,"
        " document = excluded.document",
        (
            *(source, name, highest, entry.id, package_key(entry)),
            *(repository_key(entry.repository), entry.updated_at),
            *(chosen.spellings, chosen.document),
        ),
    )
    return True


def _chosen(db: sqlite3.Connection, source: str, name: str) -> str | None:
    row = db.execute(
        "SELECT version FROM entries WHERE source = ? AND name = ?", (source, name)
    ).fetchone()
    return row[0] if row else None


def _with_versions(
    db: sqlite3.Connection, source: str, name: str, entry: MarketplaceEntry
) -> MarketplaceEntry:
    rows = db.execute(
        "SELECT version, published_at, status FROM versions WHERE source = ? AND name = ?",
        (source, name),
    )
    return replace(entry, versions=highest_first(VersionNote(*row) for row in rows if row[0]))
