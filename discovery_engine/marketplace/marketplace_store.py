"""The copy of the synchronised sources: `marketplace.db` in the data folder.

Processes share it. A page is one transaction, and each source is written by the process that holds
its lease.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from discovery_engine.config.files.permissions import writable_by_others
from discovery_engine.errors import RegistryError
from discovery_engine.marketplace import entry_table, source_table
from discovery_engine.marketplace.cache_file import CacheFile
from discovery_engine.marketplace.entry import MarketplaceEntry
from discovery_engine.marketplace.entry_documents import entry_lexicon
from discovery_engine.marketplace.entry_index import EntryIndex, packed_index, recipe
from discovery_engine.marketplace.entry_table import PageResult, PreparedEntry, StoredIdentity
from discovery_engine.marketplace.source import SourcePage, SyncPoint
from discovery_engine.marketplace.source_table import Release, SourceRecord

FILE_NAME = "marketplace.db"
FORMAT = 1
"""Raise it when the tables change; a file of another format is deleted."""

_UNUSED = 30 * 86_400.0  # seconds
_SCHEMA = f"""
{source_table.SCHEMA}
{entry_table.SCHEMA}
CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL);
"""


class MarketplaceStore:
    """Calls may come from any thread, and take a while; nothing is opened before the first.

    Raises:
        RegistryError: From all methods, for errors of SQLite or the disk.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        self._file = CacheFile(path, schema=_SCHEMA, version=FORMAT)
        self._clock = clock
        self._indexing = threading.Lock()
        self._index: tuple[bytes, EntryIndex] | None = None

    @property
    def path(self) -> Path:
        return self._file.path

    def close(self) -> None:
        self._file.close()
        self._index = None

    def records(self) -> dict[str, SourceRecord]:
        """What is known of each source that was ever asked."""
        return self._file.read(lambda db: source_table.read_records(db, self._clock()))

    def acquire(self, source: str, holder: str) -> SourceRecord | None:
        """Begin to synchronise a source; None if another process does."""
        now = self._clock()
        is_free = self._file.write(lambda db: source_table.acquire(db, source, holder, now))
        return self.records().get(source) if is_free else None

    def begin_pass(self, source: str, holder: str, since: str) -> SyncPoint:
        """Begin to read a source from its first page: everything, or what changed since."""

        def write(db: sqlite3.Connection) -> SyncPoint:
            source_table.renew(db, source, holder, self._clock())
            return source_table.begin_pass(db, source, since, self._clock())

        return self._file.write(write)

    def add_page(self, source: str, holder: str, page: SourcePage) -> PageResult:
        """Keep a page, and where the next one begins.

        Raises:
            LeaseLost: If another process has taken over; nothing is kept then.
        """
        lexicon = entry_lexicon()
        prepared = [PreparedEntry.of(entry, lexicon) for entry in page.entries]  # before any lock

        def write(db: sqlite3.Connection) -> PageResult:
            source_table.renew(db, source, holder, self._clock())
            generation, newest = db.execute(
                "SELECT generation, newest FROM sources WHERE name = ?", (source,)
            ).fetchone()
            result = entry_table.add_entries(db, source, generation, prepared)
            if _get(db, "documents_of") is None:
                _set(db, "documents_of", recipe(lexicon))
            dates = (one.entry.updated_at for one in prepared)
            db.execute(
                "UPDATE sources SET cursor = ?, newest = ?, etag = ?, entries = entries + ?"
                " WHERE name = ?",
                (
                    *(page.cursor, max((newest, *dates)), page.etag),
                    *(result.added - result.removed, source),
                ),
            )
            if result.added or result.updated or result.removed:
                _content_changed(db)
            return result

        return self._file.write(write)

    def complete(self, source: str, holder: str, is_whole: bool) -> int:  # noqa: FBT001 - in a thread
        """The last page was read; returns how many entries were removed that came no more."""

        def write(db: sqlite3.Connection) -> int:
            source_table.renew(db, source, holder, self._clock())
            removed = entry_table.remove_older(db, source) if is_whole else 0
            source_table.end_pass(db, source, is_whole=is_whole, now=self._clock())
            if removed:
                db.execute(
                    "UPDATE sources SET entries = entries - ? WHERE name = ?", (removed, source)
                )
                _content_changed(db)
            return removed

        return self._file.write(write)

    def release(self, source: str, holder: str, ended: Release) -> None:
        """End a synchronisation; no-op if another process has taken over."""
        self._file.write(lambda db: source_table.release(db, source, holder, ended))

    def drop_unused(self, sources: Collection[str]) -> None:
        """Drop the copies of sources that were not asked for a month, but for those named."""
        bar = self._clock() - _UNUSED
        records = self.records().items()
        unused = {key for key, one in records if (one.attempted_at or 0.0) < bar} - set(sources)
        if not unused:
            return

        def write(db: sqlite3.Connection) -> None:
            for source in unused:
                _drop(db, source)

        self._file.write(write)

    def index(self) -> EntryIndex:
        """The search index over what is stored; made if the stored one is of something else."""
        with self._indexing:
            content = self._file.read(_content_of)
            if self._index and self._index[0] == content:
                return self._index[1]
            index = self._loaded_index(content)
            if index is None:
                content, index = self._built_index()
            self._index = (content, index)
            return index

    def rows(
        self, numbers: Sequence[int], *, with_versions: bool = False
    ) -> dict[int, MarketplaceEntry]:
        """Entries by their numbers; one that was removed meanwhile is missing.

        Their other versions are not known unless `with_versions`.
        """
        condition = f"e.id IN ({_marks(numbers)})"
        return self._file.read(
            lambda db: entry_table.find_entries(db, condition, numbers, with_versions=with_versions)
        )

    def deprecated(self, rows: Sequence[int]) -> set[int]:
        """Those of these entries that are."""
        condition = f"e.id IN ({_marks(rows)}) AND v.status = 'deprecated'"
        return self._file.read(lambda db: entry_table.find_rows(db, condition, rows))

    def same_packages(self, rows: Sequence[int]) -> list[StoredIdentity]:
        """All entries that start or reach the same first as some of these."""
        condition = "package_key IN (SELECT package_key FROM entries WHERE id IN ({}))"
        return self._identities(condition.format(_marks(rows)), rows)

    def named(self, name: str) -> list[StoredIdentity]:
        """The entries of that name; if there are none, of that id."""
        found = self._identities("name = ? COLLATE NOCASE", (name,))
        return found or self._identities("entry_id = ?", (name,))

    def latest(self, sources: Sequence[str], *, limit: int, offset: int) -> list[StoredIdentity]:
        """The entries that changed last, newest first."""
        condition = f"source IN ({_marks(sources)}) ORDER BY updated_at DESC, id LIMIT ? OFFSET ?"
        return self._identities(condition, (*sources, limit, offset))

    def _identities(self, condition: str, values: Sequence[object]) -> list[StoredIdentity]:
        return self._file.read(lambda db: entry_table.find_identities(db, condition, values))

    def _loaded_index(self, content: bytes) -> EntryIndex | None:
        """The stored index; it is not read where others could have written it."""
        if writable_by_others(str(self._file.path)) is not None:
            return None
        lexicon = entry_lexicon()

        def read(db: sqlite3.Connection) -> bytes | None:
            is_same = _get(db, "index_of") == content + recipe(lexicon)
            return _get(db, "index") if is_same else None

        data = self._file.read(read)
        return EntryIndex.load(data, lexicon) if data else None

    def _built_index(self) -> tuple[bytes, EntryIndex]:
        """The index over what is stored now, and what that is."""
        lexicon = entry_lexicon()
        if self._file.read(lambda db: _get(db, "documents_of")) != recipe(lexicon):

            def refresh(db: sqlite3.Connection) -> None:
                entry_table.refresh_documents(db, lexicon)
                _set(db, "documents_of", recipe(lexicon))

            self._file.write(refresh)

        def read(db: sqlite3.Connection) -> tuple[bytes, bytes]:
            return _content_of(db), packed_index(partial(entry_table.indexed_entries, db))

        content, data = self._file.read(read)

        def write(db: sqlite3.Connection) -> None:
            if _content_of(db) == content:
                _set(db, "index", data)
                _set(db, "index_of", content + recipe(lexicon))

        with suppress(RegistryError):  # the disk is full, or locked: the index serves this process
            self._file.write(write)
        index = EntryIndex.load(data, lexicon)
        if index is None:  # pragma: no cover - it was made just now
            raise AssertionError("a new index cannot be read")
        return content, index


def _drop(db: sqlite3.Connection, source: str) -> None:
    db.execute("DELETE FROM versions WHERE source = ?", (source,))
    db.execute("DELETE FROM entries WHERE source = ?", (source,))
    db.execute("DELETE FROM sources WHERE name = ?", (source,))
    _content_changed(db)


def _content_of(db: sqlite3.Connection) -> bytes:
    """A token that changes with every change of an entry."""
    return _get(db, "content") or b""


def _content_changed(db: sqlite3.Connection) -> None:
    _set(db, "content", os.urandom(16))


def _get(db: sqlite3.Connection, key: str) -> bytes | None:
    row = db.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
    return row[0] if row else None


def _set(db: sqlite3.Connection, key: str, value: bytes) -> None:
    db.execute("REPLACE INTO state (key, value) VALUES (?, ?)", (key, value))


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
