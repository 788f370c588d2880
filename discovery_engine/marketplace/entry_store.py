"""The copies of all sources: `marketplace.db` in the data folder, with a full-text index.

Processes share the file. A page is one transaction, and each source is written only by the process
that holds its lease. The highest version represents an entry; others are stored, too, so that the
next one can replace it when it is deleted. The index contains the terms of entries: stems, concepts
and subjects.
"""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.sqlite_file import SqliteFile, make_tables
from discovery_engine.errors import Diagnostic, RegistryError
from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import (
    EntryIdentity,
    MarketplaceEntry,
    VersionNote,
    highest_first,
    package_key,
    repository_key,
    version_key,
)
from discovery_engine.marketplace.source import SourcePage, SyncPoint
from discovery_engine.search.text.lexicon import CONCEPT, SUBJECT, Lexicon
from discovery_engine.search.text.tokenizer import normalize_name, query_spellings, similar_names

COLUMNS = ("name", "title", "description", "packages", "publisher", "tags", "tools", "related")
WEIGHTS = (4.0, 4.0, 2.5, 1.5, 1.0, 2.0, 1.5, 1.0)
"""The weights of the columns; package and tool names count less than the server's own name."""
_MOST_TOOLS = 100  # indexed tools of an entry
_MOST_TEXT = 1_000  # characters of a description
_ABOUT = (CONCEPT, SUBJECT)
_FIXED = re.compile(r"(?i)\b(?:mcp|server|servers|modelcontextprotocol|model context protocol)\b")
"""Words of nearly every entry, which distinguish none."""


def entry_terms(entry: MarketplaceEntry, lexicon: Lexicon) -> list[str]:
    """Return the text of each column: terms separated by spaces."""
    language = lexicon.detect_tool_language(entry.description)
    tools = (entry.tools or ())[:_MOST_TOOLS]
    described = " ".join(f"{tool.name} {tool.description}" for tool in tools)
    publisher = entry.publisher.removeprefix("github.com/").removesuffix(".com")
    fields = (
        lexicon.analyze_name(_own_words(_short_name(entry.name))),
        lexicon.analyze_name(_own_words(entry.title), language),
        lexicon.analyze(entry.description[:_MOST_TEXT], language),
        lexicon.analyze_name(_own_words(" ".join(_identifiers(entry)))),
        lexicon.analyze_name(publisher),
        lexicon.analyze(" ".join(entry.tags)),
        lexicon.analyze(described, language),
    )
    terms = [dict.fromkeys(field.terms) for field in fields]
    related = {term: None for field in terms for term in field if term.startswith(_ABOUT)}
    words = [[term for term in field if term not in related] for field in terms]
    return [" ".join(field) for field in (*words, related)]


def _plain_terms(terms: Iterable[str]) -> set[str]:
    """Return the terms without concepts and subjects."""
    return {term for term in terms if not term.startswith(_ABOUT)}


def _match_of(terms: Iterable[str]) -> str:
    """Return an FTS5 expression that any of the terms matches; empty without terms."""
    quoted = (term.replace('"', '""').replace("\0", "") for term in dict.fromkeys(terms))
    return " OR ".join(f'"{term}"' for term in quoted if any(map(str.isalnum, term)))


def name_spellings_of(entry: MarketplaceEntry) -> set[str]:
    """Return the normalized names of an entry; a query equal to one names the entry."""
    names = [entry.name, _short_name(entry.name), entry.title, *_identifiers(entry)]
    names += [_short_name(identifier) for identifier in _identifiers(entry)]
    names += [_own_words(name) for name in names]
    return {normalize_name(name) for name in names if name.strip()} - {""}


def telling_words(query: str) -> str:
    """Return a query without words of nearly every entry; empty if no others are left."""
    return " ".join(_FIXED.sub(" ", query).split())


def _short_name(name: str) -> str:
    """Return a name without its namespace: `files` of `io.github.acme/files`."""
    return name.rpartition("/")[2] or name


def _own_words(text: str) -> str:
    words = _FIXED.sub(" ", re.sub(r"[-_/@.]", " ", text)).strip()
    return words or text


def _identifiers(entry: MarketplaceEntry) -> Iterator[str]:
    return (offer.identifier for offer in entry.packages if offer.registry_type != "mcpb")


T = TypeVar("T")

FILE_NAME = "marketplace.db"
FORMAT = 4
"""The version of the tables; increase it when they change. A file of another one is deleted."""

_UNUSED = 30 * 86_400.0  # seconds
_LEASE = 90.0  # seconds; renewed with each page, which takes 30 s at most
_VERSIONS_KEPT = 10  # of each entry
_DEPRECATED = 0.5  # factor: behind similar matches, before much weaker ones
NOT_NAMED = 0.95
"""The relevance of the best result that the query does not name."""
_CHUNKS = 20_000  # cached chunks of text; with 8,000, 20,000 entries take 2 s more
_TEXTS = ", ".join((*COLUMNS, "spellings"))
_SCHEMA = f"""
CREATE TABLE sources (
    name TEXT PRIMARY KEY, record BLOB NOT NULL, generation INTEGER NOT NULL DEFAULT 0,
    lease TEXT, leased_until REAL
);
CREATE TABLE versions (
    source TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,
    status TEXT NOT NULL, published_at TEXT NOT NULL, generation INTEGER NOT NULL,
    data BLOB NOT NULL, PRIMARY KEY (source, name, version)
) WITHOUT ROWID;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, name TEXT NOT NULL,
    version TEXT NOT NULL, status TEXT NOT NULL, entry_id TEXT NOT NULL, package_key TEXT NOT NULL,
    repository_key TEXT NOT NULL, updated_at TEXT NOT NULL, UNIQUE (source, name)
);
CREATE INDEX entries_by_package ON entries (package_key);
CREATE INDEX entries_by_id ON entries (entry_id);
CREATE INDEX entries_by_name ON entries (name COLLATE NOCASE);
CREATE INDEX entries_by_update ON entries (updated_at DESC, id);
CREATE VIRTUAL TABLE texts USING fts5(
    {_TEXTS}, tokenize="unicode61 remove_diacritics 0 tokenchars '@#'"
);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(texts, row);
CREATE TABLE lexicon (digest TEXT NOT NULL)
"""
_JOINED = (
    "FROM entries e JOIN versions v"
    " ON v.source = e.source AND v.name = e.name AND v.version = e.version"
)
# `detail` stays full: without it bm25 reads each row's text again, five times slower.
_BEST = f"""
SELECT id, CASE status WHEN 'deprecated' THEN {_DEPRECATED} ELSE 1.0 END * score FROM (
    SELECT rowid AS row, -bm25(texts, {", ".join(map(str, WEIGHTS))}, 0) AS score FROM texts
    WHERE texts MATCH ? AND rowid NOT IN (SELECT id FROM entries WHERE source IN
        (SELECT name FROM sources WHERE name NOT IN (SELECT value FROM json_each(?))))
    ORDER BY score DESC LIMIT ?
) JOIN entries ON id = row
"""  # noqa: S608 - ours
_ENTRY = msgspec.msgpack.Decoder(MarketplaceEntry)


class LeaseLost(Exception):  # noqa: N818 - a signal within this package
    """Another process holds the lease of the source now."""


class SourceRecord(Struct, frozen=True):
    """The state of one source's copy; times are Unix times in seconds."""

    name: str
    point: SyncPoint = SyncPoint()
    newest: str = ""
    """The latest time of a change that the source has reported."""
    is_complete: bool = False
    """True once the source was read to its end."""
    completed_at: float | None = None
    """The time at which the copy was last up to date."""
    whole_at: float | None = None
    """The time of the last full reading, as opposed to changes only."""
    begun_at: float | None = None
    """The time at which the current or last reading began."""
    attempted_at: float | None = None
    not_before: float | None = None
    """The time before which the source must not be requested."""
    problem: Diagnostic | None = None
    """The failure of the last synchronisation; None if it succeeded."""
    notes: tuple[Diagnostic, ...] = ()
    """Problems with single entries."""
    entries: int = 0
    is_leased: bool = False


_RECORD = msgspec.msgpack.Decoder(SourceRecord)


class Release(Struct, frozen=True):
    """The end of a synchronisation."""

    problem: Diagnostic | None = None
    """The failure that ended it; None if it succeeded."""
    notes: tuple[Diagnostic, ...] | None = None
    """Problems with single entries; None leaves the earlier ones."""
    not_before: float | None = None
    restarts: bool = False
    """True to start the next one at the first page, because this one would fail again."""


class PageResult(Struct, frozen=True):
    """The changes of one page to the copy, in entries."""

    added: int = 0
    updated: int = 0
    removed: int = 0
    left_out: tuple[str, ...] = ()
    """The reasons why entries were left out."""


class StoredIdentity(NamedTuple):
    """The identity of a stored entry, without its content."""

    row: int
    """The row id, which is never reused."""
    identity: EntryIdentity


class MarketplaceStore:
    """The store of copied entries; usable from any thread, and opened at the first call.

    Raises:
        RegistryError: From all methods, for errors of SQLite or the disk.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        self._file = SqliteFile[sqlite3.Connection](path, _prepare, is_cache=True)
        self._clock = clock

    @property
    def path(self) -> Path:
        return self._file.path

    def close(self) -> None:
        self._file.close()

    # Sources

    def records(self) -> dict[str, SourceRecord]:
        """Return the record of each source that was ever synchronised, by its copy's key."""

        def read(db: sqlite3.Connection) -> dict[str, SourceRecord]:
            now = self._clock()
            rows = db.execute("SELECT name, record, leased_until FROM sources").fetchall()
            return {
                name: replace(_RECORD.decode(data), is_leased=(until or 0.0) > now)
                for name, data, until in rows
            }

        return self._read(read)

    def acquire(self, source: str, holder: str) -> SourceRecord | None:
        """Take the lease of a source, and return its record; None if another process has it."""
        now = self._clock()

        def write(db: sqlite3.Connection) -> SourceRecord | None:
            new = (source, msgspec.msgpack.encode(SourceRecord(source)))
            db.execute("INSERT OR IGNORE INTO sources (name, record) VALUES (?, ?)", new)
            [lease, until] = db.execute(
                "SELECT lease, leased_until FROM sources WHERE name = ?", (source,)
            ).fetchone()
            if lease not in (None, holder) and (until or 0.0) > now and not _has_ended(lease):
                return None
            db.execute("UPDATE sources SET lease = ? WHERE name = ?", (holder, source))
            self._renew(db, source, holder)
            return _change(db, source, attempted_at=now)

        return self._write(write)

    def begin_pass(self, source: str, holder: str, since: str) -> SyncPoint:
        """Start to read a source at its first page; empty `since` reads all, not only changes.

        Raises:
            LeaseLost: If another process has taken over the source.
        """

        def write(db: sqlite3.Connection) -> SyncPoint:
            self._renew(db, source, holder)
            earlier = _recorded(db, source).point
            point = SyncPoint("", since, earlier.etag if earlier.since == since else "")
            db.execute(
                "UPDATE sources SET generation = generation + ? WHERE name = ?", (not since, source)
            )
            return _change(db, source, point=point, begun_at=self._clock()).point

        return self._write(write)

    def add_page(self, source: str, holder: str, page: SourcePage) -> PageResult:
        """Store the entries of a page, and the cursor of the next one.

        Raises:
            LeaseLost: If another process has taken over the source; nothing is stored then.
        """

        def write(db: sqlite3.Connection) -> PageResult:
            self._renew(db, source, holder)
            record = _recorded(db, source)
            if not db.execute("SELECT 1 FROM lexicon").fetchone():
                db.execute("INSERT INTO lexicon VALUES (?)", (entry_lexicon().digest,))
            result = _add_entries(db, source, page.entries)
            _change(
                db,
                source,
                point=SyncPoint(page.cursor, record.point.since, page.etag),
                newest=max((record.newest, *(entry.updated_at for entry in page.entries))),
                entries=record.entries + result.added - result.removed,
            )
            return result

        return self._write(write)

    def complete(self, source: str, holder: str, is_whole: bool) -> int:  # noqa: FBT001 - in a thread
        """Mark a reading as finished; return how many entries were removed as no longer listed.

        Raises:
            LeaseLost: If another process has taken over the source.
        """

        def write(db: sqlite3.Connection) -> int:
            self._renew(db, source, holder)
            removed = _remove_older(db, source) if is_whole else 0
            record, now = _recorded(db, source), self._clock()
            _change(
                db,
                source,
                point=replace(record.point, cursor=""),
                entries=record.entries - removed,
                is_complete=True,
                completed_at=now,
                whole_at=now if is_whole else record.whole_at,
                not_before=None,
                problem=None,
            )
            return removed

        return self._write(write)

    def release(self, source: str, holder: str, ended: Release) -> None:
        """Release the lease with the result; no-op if another process has taken over."""

        def write(db: sqlite3.Connection) -> None:
            freed = (
                "UPDATE sources SET lease = NULL, leased_until = NULL WHERE name = ? AND lease = ?"
            )
            if not db.execute(freed, (source, holder)).rowcount:
                return
            record = _recorded(db, source)
            _change(
                db,
                source,
                problem=ended.problem or record.problem,
                notes=record.notes if ended.notes is None else ended.notes,
                not_before=ended.not_before or record.not_before,
                point=replace(record.point, cursor="") if ended.restarts else record.point,
            )

        self._write(write)

    def drop_unused(self, sources: Collection[str]) -> None:
        """Delete the copies of sources not synchronised for 30 days, except `sources`."""
        bar = self._clock() - _UNUSED
        records = self.records().items()
        unused = {key for key, record in records if (record.attempted_at or 0.0) < bar} - set(
            sources
        )

        def write(db: sqlite3.Connection) -> None:
            for source in unused:
                db.execute("UPDATE versions SET generation = -1 WHERE source = ?", (source,))
                _remove_older(db, source)
                db.execute("DELETE FROM sources WHERE name = ?", (source,))

        if unused:
            self._write(write)

    # Entries

    def search(
        self, query: str, words: str, sources: Sequence[str], limit: int
    ) -> dict[int, float]:
        """Return the matching rows, the best first, each with its relevance from 0 to 1.

        `words` are searched for in texts, while the whole `query` may be the name of an entry.
        """
        lexicon = entry_lexicon()
        self._require_terms_of(lexicon)

        def read(db: sqlite3.Connection) -> list[tuple[int, float, bool]]:
            spellings = _match_of(query_spellings(query))
            named = _best(db, f"spellings: ({spellings})" if spellings else "", sources, limit)
            terms = _with_typos(db, lexicon.analyze(words).terms)
            scores = dict.fromkeys(named, 0.0) | _best(db, _match_of(terms), sources, limit)
            return [(row, score, row in named) for row, score in scores.items()]

        hits = sorted(self._read(read), key=lambda hit: (not hit[2], -hit[1], hit[0]))
        best = max((score for _, score, _ in hits), default=0.0) or 1.0
        return {
            row: 1.0 if is_named else max(score / best, 0.001) * NOT_NAMED
            for row, score, is_named in hits[:limit]
        }

    def rows(
        self, numbers: Sequence[int], *, with_versions: bool = False
    ) -> dict[int, MarketplaceEntry]:
        """Return entries by their row ids; deleted ones are missing.

        Their `versions` are empty unless `with_versions`.
        """

        def read(db: sqlite3.Connection) -> dict[int, MarketplaceEntry]:
            selected = f"SELECT e.id, e.source, v.data {_JOINED} WHERE e.id IN ({_marks(numbers)})"
            entries = {}
            for row, source, data in db.execute(selected, numbers).fetchall():
                entry = _ENTRY.decode(data)
                entries[row] = _with_versions(db, source, entry) if with_versions else entry
            return entries

        return self._read(read)

    def same_packages(self, rows: Sequence[int]) -> list[StoredIdentity]:
        """Return all entries with the preferred package, or the first URL, of one of `rows`."""
        condition = "package_key IN (SELECT package_key FROM entries WHERE id IN ({}))"
        return self._identities(condition.format(_marks(rows)), rows)

    def named(self, name: str) -> list[StoredIdentity]:
        """Return the entries with that name; if there are none, with that id."""
        identities = self._identities("name = ? COLLATE NOCASE", (name,))
        return identities or self._identities("entry_id = ?", (name,))

    def latest(self, sources: Sequence[str], *, limit: int, offset: int) -> list[StoredIdentity]:
        """Return the entries by the time of their last change, newest first."""
        condition = f"source IN ({_marks(sources)}) ORDER BY updated_at DESC, id LIMIT ? OFFSET ?"
        return self._identities(condition, (*sources, limit, offset))

    def _identities(self, condition: str, values: Sequence[object]) -> list[StoredIdentity]:
        # The condition is a constant, and its values are bound.
        selected = "SELECT id, source, name, package_key, repository_key FROM entries"

        def read(db: sqlite3.Connection) -> list[StoredIdentity]:
            rows = db.execute(f"{selected} WHERE {condition}", tuple(values))
            return [StoredIdentity(row, EntryIdentity(*identity)) for row, *identity in rows]

        return self._read(read)

    def _require_terms_of(self, lexicon: Lexicon) -> None:
        """Index all entries again if the index was made with another lexicon."""

        def is_same(db: sqlite3.Connection) -> bool:
            return db.execute("SELECT digest FROM lexicon").fetchall() == [(lexicon.digest,)]

        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM texts")
            rows = db.execute(f"SELECT e.id, v.data {_JOINED}")
            while batch := rows.fetchmany(100):
                for row, data in batch:
                    _index(db, row, _ENTRY.decode(data))
            db.execute("DELETE FROM lexicon")
            db.execute("INSERT INTO lexicon VALUES (?)", (lexicon.digest,))

        if not self._read(is_same):
            self._write(write)

    def _renew(self, db: sqlite3.Connection, source: str, holder: str) -> None:
        renewed = db.execute(
            "UPDATE sources SET leased_until = ? WHERE name = ? AND lease = ?",
            (self._clock() + _LEASE, source, holder),
        )
        if not renewed.rowcount:
            raise LeaseLost(source)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with _cache_errors(self.path):
            return self._file.read(work)

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with _cache_errors(self.path):
            return self._file.write(work)


@cache
def entry_lexicon() -> Lexicon:
    """Return the usual lexicon with a smaller cache."""
    return Lexicon(memory=_CHUNKS)


def new_holder() -> str:
    """Return a new holder of leases: this machine, this process, and a random id."""
    return f"{platform.node()} {os.getpid()} {uuid.uuid4().hex}"


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA synchronous = OFF")  # a copy damaged by a system crash is read again
    make_tables(db, _SCHEMA, FORMAT)


@contextmanager
def _cache_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error, msgspec.DecodeError) as error:
        raise RegistryError(
            f"the cache {str(path)!r} cannot be used: {error}",
            hint="free space, or delete that file, which is only a copy",
        ) from error


def _best(
    db: sqlite3.Connection, match: str, sources: Sequence[str], limit: int
) -> dict[int, float]:
    """Return the best rows of the sources with their scores; none for an empty `match`."""
    values = (match, msgspec.json.encode(sources).decode(), limit)
    return dict(db.execute(_BEST, values)) if match else {}


def _with_typos(db: sqlite3.Connection, terms: Iterable[str]) -> list[str]:
    """Return the terms, and known terms similar to words that no entry has."""
    all_terms = list(dict.fromkeys(terms))
    is_there = "SELECT 1 FROM vocabulary WHERE term = ?"
    words = sorted(_plain_terms(all_terms))
    unknown = [word for word in words if not db.execute(is_there, (word,)).fetchone()]
    if unknown:
        vocabulary = [term for (term,) in db.execute("SELECT term FROM vocabulary WHERE doc > 0")]
        all_terms += (near for word in unknown for near, _ in similar_names(word, vocabulary))
    return all_terms


def _add_entries(
    db: sqlite3.Connection, source: str, entries: Iterable[MarketplaceEntry]
) -> PageResult:
    by_name: defaultdict[str, list[MarketplaceEntry]] = defaultdict(list)
    for entry in entries:
        by_name[entry.name].append(entry)
    left_out: list[str] = []
    changed = [
        name
        for name, versions in by_name.items()
        if sum(_add_version(db, source, version, left_out) for version in versions)
    ]
    return replace(_choose(db, source, changed), left_out=tuple(left_out))


def _add_version(
    db: sqlite3.Connection, source: str, entry: MarketplaceEntry, left_out: list[str]
) -> bool:
    """Store one version of an entry, or delete it; return whether anything changed."""
    key = (source, entry.name, entry.version)
    data = msgspec.msgpack.encode(replace(entry, versions=()))  # versions are read from rows
    if len(data) > bounds.ENTRY_BYTES:
        left_out.append(f"{entry.name!r} has {len(data):,} bytes")
        return False
    is_of_key = "WHERE source = ? AND name = ? AND version = ?"
    row = db.execute(f"SELECT data FROM versions {is_of_key}", key).fetchone()  # noqa: S608
    if entry.status == "deleted":
        db.execute(f"DELETE FROM versions {is_of_key}", key)  # noqa: S608
        return row is not None
    db.execute(
        "REPLACE INTO versions (source, name, version, status, published_at, generation, data)"
        " SELECT ?, ?, ?, ?, ?, generation, ? FROM sources WHERE name = ?",
        (*key, entry.status, entry.published_at, data, source),
    )
    is_same: bool = row == (data,)
    return not is_same


def _remove_older(db: sqlite3.Connection, source: str) -> int:
    """Delete versions of earlier generations; return how many entries were removed."""
    where = "source = ? AND generation < (SELECT generation FROM sources WHERE name = ?)"
    names = db.execute(
        f"SELECT DISTINCT name FROM versions WHERE {where}",  # noqa: S608 - ours
        (source, source),
    ).fetchall()
    db.execute(f"DELETE FROM versions WHERE {where}", (source, source))  # noqa: S608 - ours
    return _choose(db, source, [name for (name,) in names]).removed


def _choose(db: sqlite3.Connection, source: str, names: Iterable[str]) -> PageResult:
    """Select the highest version of each name as its entry, and index it."""
    of_name = "WHERE source = ? AND name = ?"
    old_rows: list[tuple[int]] = []
    indexed: list[tuple[int, MarketplaceEntry]] = []
    updated = 0
    for name in names:
        old = db.execute(f"SELECT id FROM entries {of_name}", (source, name)).fetchone()  # noqa: S608
        entry = _highest_version(db, source, name)
        if entry is None:
            db.execute(f"DELETE FROM entries {of_name}", (source, name))  # noqa: S608
        else:
            indexed.append((_add_entry(db, source, entry), entry))
            updated += old is not None
        old_rows += [old] if old else []
    # At the end: FTS5 writes its buffer to disk at each savepoint, which statements on other
    # tables begin; 20,000 entries took 4 s of CPU more.
    db.executemany("DELETE FROM texts WHERE rowid = ?", old_rows)
    for row, entry in indexed:
        _index(db, row, entry)
    return PageResult(len(indexed) - updated, updated, len(old_rows) - updated)


def _highest_version(db: sqlite3.Connection, source: str, name: str) -> MarketplaceEntry | None:
    """Return the highest version, active ones first; delete versions beyond the tenth."""
    rows = db.execute(
        "SELECT version, status FROM versions WHERE source = ? AND name = ?", (source, name)
    ).fetchall()
    ordered = sorted(rows, key=lambda row: (row[1] == "active", version_key(row[0])), reverse=True)
    is_of_version = "WHERE source = ? AND name = ? AND version = ?"
    for version, _ in ordered[_VERSIONS_KEPT:]:
        db.execute(f"DELETE FROM versions {is_of_version}", (source, name, version))  # noqa: S608
    if not ordered:
        return None
    key = (source, name, ordered[0][0])
    [data] = db.execute(f"SELECT data FROM versions {is_of_version}", key).fetchone()  # noqa: S608
    return _ENTRY.decode(data)


def _add_entry(db: sqlite3.Connection, source: str, entry: MarketplaceEntry) -> int:
    values = (entry.version, entry.status, entry.id, package_key(entry))
    [row] = db.execute(
        "INSERT INTO entries (source, name, version, status, entry_id, package_key,"
        " repository_key, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source, name)"
        " DO UPDATE SET (version, status, entry_id, package_key, repository_key, updated_at) ="
        " (excluded.version, excluded.status, excluded.entry_id, excluded.package_key,"
        " excluded.repository_key, excluded.updated_at) RETURNING id",
        (source, entry.name, *values, repository_key(entry.repository), entry.updated_at),
    ).fetchone()
    return int(row)


def _index(db: sqlite3.Connection, row: int, entry: MarketplaceEntry) -> None:
    texts = [*entry_terms(entry, entry_lexicon()), " ".join(sorted(name_spellings_of(entry)))]
    db.execute(f"INSERT INTO texts (rowid, {_TEXTS}) VALUES (?, {_marks(texts)})", (row, *texts))  # noqa: S608


def _with_versions(
    db: sqlite3.Connection, source: str, entry: MarketplaceEntry
) -> MarketplaceEntry:
    rows = db.execute(
        "SELECT version, published_at, status FROM versions WHERE source = ? AND name = ?",
        (source, entry.name),
    )
    return replace(entry, versions=highest_first(VersionNote(*row) for row in rows if row[0]))


def _recorded(db: sqlite3.Connection, source: str) -> SourceRecord:
    [data] = db.execute("SELECT record FROM sources WHERE name = ?", (source,)).fetchone()
    return _RECORD.decode(data)


def _change(db: sqlite3.Connection, source: str, **changes: Any) -> SourceRecord:
    record = replace(_recorded(db, source), **changes)
    db.execute(
        "UPDATE sources SET record = ? WHERE name = ?", (msgspec.msgpack.encode(record), source)
    )
    return record


def _has_ended(holder: str) -> bool:
    """Return whether a holder's process is known to have ended, before its lease expires."""
    machine, _, process = holder.rpartition(" ")[0].rpartition(" ")
    if os.name != "posix" or machine != platform.node() or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
