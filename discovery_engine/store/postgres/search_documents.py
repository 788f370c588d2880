"""The documents of one configuration's tools in PostgreSQL: their terms, as the index has them.

Which are missing there is found by digests, and only those are made, by whichever gateway needs
them first: two that do so at once write the same.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from discovery_engine._util import digests
from discovery_engine._util.batches import batches
from discovery_engine._util.version import __version__
from discovery_engine.errors import RegistryError
from discovery_engine.search.index.documents import build_documents
from discovery_engine.search.index.index import IndexedServer, profiles_of
from discovery_engine.search.operations.operation import operation_words_digest
from discovery_engine.store.stored_text import from_column, key_of, to_column
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from psycopg import Connection

    from discovery_engine.search.text.lexicon import Lexicon
    from discovery_engine.store.search_database import SearchDatabase

FORMAT = 2
"""Raise it when the documents of the same tools are others, or are stored otherwise."""

LEVELS = 16
"""Levels of a term's impact, in the low bits of its key, so the database sums by its index."""
_BATCH = 1_000  # tools that are written at once, more if a server has more: about a second


class Place(NamedTuple):
    """The place of a tool in the database."""

    number: int
    """The number of its server's documents; a server that changes gets another one."""
    position: int
    """The position in the order of the names of the server's tools."""


class StoredDocument(NamedTuple):
    """The terms of a tool."""

    profile: int
    impacts: dict[int, int]
    """The impacts by the keys of the terms."""


class StoredIndex(NamedTuple):
    """The index in the database, as it was when it was last compared with the catalog."""

    number: int
    revision: int
    counts: Mapping[int, int]
    """The number of tools that hold a term, by the term's key."""
    numbers: Mapping[ServerName, int]
    """The numbers of the servers whose tools it has."""
    names: Mapping[int, ServerName]
    missing: int
    """Tools of other servers, which it does not have yet."""

    def key(self, term: str) -> int:
        return key_of_term(self.number, term)


class _ServerDocuments(NamedTuple):
    name: ServerName
    made_of: bytes
    """A digest of what they are made of that is cheap to make."""
    content: bytes
    """A digest of all that they depend on."""
    documents: list[StoredDocument] | None
    """None if the database has them, with this content."""


_Lacking: TypeAlias = dict[ServerName, tuple[IndexedServer, bytes]]
"""Servers with the digests of what their documents are made of."""


class SearchDocuments:
    """The documents of one scope; threads may share it."""

    def __init__(self, database: SearchDatabase, scope: str) -> None:
        self.database = database
        self._scope = key_of(scope)
        self._lock = threading.Lock()
        self._storing = threading.Lock()
        self._number = self._revision = 0
        self._counts: dict[int, int] = {}
        self._stored: dict[ServerName, tuple[int, bytes, bytes]] = {}
        """The number of each server's documents, and their digests."""
        self._is_rewriting = False

    def rewrite(self) -> None:
        """Have all documents made and stored again, at the next look."""
        self._is_rewriting = True

    def compare(
        self, servers: Mapping[ServerName, IndexedServer], lexicon: Lexicon, *, is_whole: bool
    ) -> StoredIndex:
        """The index of these servers: with `is_whole` of all, which may take minutes at first.

        Otherwise it waits for a second's work at most, and for none while another thread stores
        what is missing.

        Raises:
            RegistryError: If the database does not answer, or nothing is saved of the scope.
        """
        versions = FORMAT, __version__, unicodedata.unidata_version
        recipe = digests.digest(
            repr((*versions, lexicon.digest, operation_words_digest())).encode()
        )
        is_free = self._storing.acquire(blocking=is_whole)
        try:
            with self._lock:
                self._read(recipe)
            lacking = self._lacking(servers, every=is_whole and self._is_rewriting)
            if lacking and is_free:
                unlisted = self._stored.keys() - servers.keys()
                lacking = self._store(lacking, lexicon, unlisted, most=None if is_whole else 1)
                with self._lock:
                    self._read(recipe)
        finally:
            if is_free:
                self._storing.release()
        with self._lock:
            numbers = {
                name: self._stored[name][0]
                for name in servers
                if name not in lacking and name in self._stored
            }
            names = {number: name for name, number in numbers.items()}
            missing = sum(len(server.part.entries) for server, _ in lacking.values())
            return StoredIndex(self._number, self._revision, self._counts, numbers, names, missing)

    def nearest(
        self,
        index: StoredIndex,
        terms: Mapping[str, float],
        most: int,
        *,
        postings: int,
        servers: Collection[ServerName] | None,
    ) -> list[Place] | None:
        """The tools with about the highest sums of weighted impacts, the best first.

        The terms are looked up in their order, of each the highest impacts first, until so many
        `postings` were read: each is a page of the table, of which 12,000 took 200 ms. None if the
        index in the database has another revision.
        """
        keys = {
            index.key(term) | level: weight * (level + 0.5)
            for term, weight in terms.items()
            for level in reversed(range(LEVELS))
        }
        only = None if servers is None else [*filter(None, map(index.numbers.get, servers))]
        # With `OFFSET 0` the keys are looked up one after the other.
        query = """
            SELECT server, position FROM (
                SELECT server, position, weight
                FROM unnest(%s::bigint[], %s::float8[]) AS wanted(key, weight)
                CROSS JOIN LATERAL (
                    SELECT server, position FROM discovery.search_tools
                    WHERE terms @> ARRAY[key] AND (%s::bigint[] IS NULL OR server = ANY(%s))
                    OFFSET 0
                ) AS holding LIMIT %s
            ) AS posting
            GROUP BY server, position ORDER BY sum(weight) DESC, server, position LIMIT %s
            """

        def find(db: Connection) -> list[Place] | None:
            revision = "SELECT revision FROM discovery.search_indexes WHERE id = %s"
            if db.execute(revision, (index.number,)).fetchone() != (index.revision,):
                return None
            # To compile it takes longer than to run it, and workers would mix up the keys' order.
            db.execute("SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0")
            parameters = [*keys], [*keys.values()], only, only, postings, most
            return [Place(*row) for row in db.execute(query, parameters, binary=True)]

        return self.database.read(find)

    def documents(self, places: Collection[Place]) -> dict[Place, StoredDocument]:
        """Return the documents at these places; missing ones are left out."""
        query = """
            SELECT server, position, profile, terms, impacts
            FROM unnest(%s::bigint[], %s::int[]) AS wanted(server, position)
            JOIN discovery.search_tools USING (server, position)
            """
        columns = [place.number for place in places], [place.position for place in places]

        def find(db: Connection) -> dict[Place, StoredDocument]:
            rows = db.execute(query, columns, binary=True)
            documents = {}
            for server, position, profile, keys, impacts in rows:
                terms = zip((key & -LEVELS for key in keys), impacts, strict=True)
                documents[Place(server, position)] = StoredDocument(profile, dict(terms))
            return documents

        return self.database.read(find) if places else {}

    def _read(self, recipe: bytes) -> None:
        """Read the documents that are there, and the counts that changed."""
        scope, number, since = self._scope, self._number, self._revision

        def find(db: Connection) -> bool:
            query = """
                SELECT search_indexes.id, search_indexes.revision FROM discovery.search_indexes
                JOIN discovery.scopes ON scopes.id = scope WHERE scopes.key = %s AND recipe = %s
                """
            if (row := db.execute(query, (scope, recipe)).fetchone()) is None:
                return False
            self._number, self._revision = row
            if self._number != number:
                self._counts = {}
            query = """
                SELECT name, id, made_of, content FROM discovery.search_servers
                WHERE search_index = %s AND ended_at IS NULL
                """
            rows = db.execute(query, row[:1])
            self._stored = {ServerName(from_column(name)): tuple(stored) for name, *stored in rows}
            query = """
                SELECT key, count FROM discovery.search_terms
                WHERE search_index = %s AND revision > %s
                """
            rows = db.execute(query, (self._number, since if self._number == number else 0))
            self._counts.update(rows.fetchall())
            return True

        with suppress(RegistryError):  # a database that is read-only can be searched
            self.database.write(partial(_use, scope=scope, recipe=recipe))
        if not self.database.read(find):
            raise RegistryError("nothing is saved of this configuration yet")

    def _lacking(self, servers: Mapping[ServerName, IndexedServer], *, every: bool) -> _Lacking:
        """The servers whose documents the database seems to lack, or every one."""
        return {
            name: (server, made_of)
            for name, server in servers.items()
            if (made_of := _digest(server, server.book.digest)) not in self._stored.get(name, ())
            or every
        }

    def _store(
        self,
        lacking: _Lacking,
        lexicon: Lexicon,
        unlisted: Collection[ServerName],
        *,
        most: int | None,
    ) -> _Lacking:
        """Store documents in at most so many batches, and return what the database still lacks."""
        left = dict(lacking)
        by_size = batches(lacking, lambda name: len(lacking[name][0].part.entries), most=_BATCH)
        for batch in islice(by_size, most):
            changed = []
            for name in batch:
                server, made_of = left.pop(name)
                # By the requests for its own tools: those for others may have changed.
                examples = server.examples.items()
                requests = sorted(
                    (tool, entry.texts, str(entry.source)) for tool, entry in examples
                )
                is_rewrite = most is None and self._is_rewriting
                content = os.urandom(32) if is_rewrite else _digest(server, requests)
                is_stored = content in self._stored.get(name, ())
                documents = None if is_stored else _documents(name, server, lexicon, self._number)
                changed.append(_ServerDocuments(name, made_of, content, documents))
            if any(lacking[name][0].book.has_failed for name in batch):
                raise RegistryError("the typical requests of tools cannot be read")
            save = partial(_save, index=self._number, servers=changed, unlisted=unlisted)
            self.database.write(save)
        if most is None:
            self._is_rewriting = False
        return left


@lru_cache(200_000)  # to make one takes a microsecond, and each tool has eighty
def key_of_term(index: int, term: str) -> int:
    """A number for a term, with level 0; that of another index differs: one table holds several.

    Of 60 bits, two of a million terms are the same with a probability of one in two million.
    """
    text = term.encode("utf-8", "surrogatepass")
    digest = digests.blake2b(text, digest_size=8, key=index.to_bytes(8, "big")).digest()
    return int.from_bytes(digest, "big", signed=True) & -LEVELS


def _documents(
    name: ServerName, server: IndexedServer, lexicon: Lexicon, index: int
) -> list[StoredDocument]:
    tools, examples = server.tools, server.examples
    documents = build_documents(tools, name, server.description, lexicon, examples)
    stored = []
    for profile, document in zip(profiles_of(tools, examples, lexicon), documents, strict=True):
        impacts = {key_of_term(index, term): impact for term, impact in document.items()}
        stored.append(StoredDocument(profile, impacts))
    return stored


def _digest(server: IndexedServer, requests: object) -> bytes:
    made_of = (server.description, server.part.digest, requests)
    return digests.digest(repr(made_of).encode("utf-8", "backslashreplace"))


def _use(db: Connection, scope: bytes, recipe: bytes) -> None:
    """Make an index, or note that it is used; indexes that no gateway uses are dropped."""
    query = """
        INSERT INTO discovery.search_indexes (scope, recipe)
        SELECT id, %s FROM discovery.scopes WHERE key = %s
        ON CONFLICT (scope, recipe) DO UPDATE SET used_at = excluded.used_at
        WHERE search_indexes.used_at < excluded.used_at - interval '1 hour'
        """
    db.execute(query, (recipe, scope))
    db.execute(
        "DELETE FROM discovery.search_indexes WHERE used_at < clock_timestamp() - interval '7 days'"
    )


def _save(
    db: Connection,
    index: int,
    servers: list[_ServerDocuments],
    unlisted: Collection[ServerName],
) -> None:
    """Replace the documents of servers; those of before stay a minute for other gateways.

    `unlisted` servers are dropped unless another gateway has listed tools of them.
    """
    query = """
        UPDATE discovery.search_indexes SET revision = revision + 1 WHERE id = %s RETURNING revision
        """
    [revision] = db.execute(query, (index,)).fetchone() or (None,)
    if revision is None:
        return
    by_key = {key_of(server.name): server for server in servers}
    query = """
        UPDATE discovery.search_servers SET made_of = new.made_of
        FROM unnest(%s::bytea[], %s::bytea[], %s::bytea[]) AS new(key, made_of, content)
        WHERE search_index = %s AND search_servers.key = new.key AND ended_at IS NULL
        AND search_servers.content = new.content RETURNING new.key
        """
    columns = [
        [*by_key],
        [server.made_of for server in servers],
        [server.content for server in servers],
    ]
    for (key,) in db.execute(query, (*columns, index)):  # perhaps by another gateway, just now
        del by_key[key]
    query = """
        SELECT key FROM unnest(%s::bytea[]) AS named(key) WHERE NOT EXISTS (
            SELECT FROM discovery.search_indexes JOIN discovery.servers USING (scope)
            JOIN discovery.listings ON listings.server = servers.id
            WHERE search_indexes.id = %s AND servers.key = named.key AND listings.names <> '[]'
        )
        """
    gone = [key for (key,) in db.execute(query, ([*map(key_of, unlisted)], index))]
    query = """
        DELETE FROM discovery.search_servers
        WHERE search_index = %s AND ended_at < clock_timestamp() - interval '1 minute'
        """
    db.execute(query, (index,))
    query = """
        UPDATE discovery.search_servers SET ended_at = clock_timestamp(), revision = %s
        WHERE search_index = %s AND ended_at IS NULL AND key = ANY(%s) RETURNING id
        """
    ended = [number for (number,) in db.execute(query, (revision, index, [*by_key, *gone]))]
    added = _add(db, index, by_key, revision)
    query = """
        INSERT INTO discovery.search_terms (search_index, key, term, count, revision)
        SELECT %s, term & -16::bigint, '', sum(1 - 2 * (server = ANY(%s))::int), %s
        FROM discovery.search_tools, unnest(terms) AS term WHERE server = ANY(%s)
        GROUP BY 2 ORDER BY 2 ON CONFLICT (search_index, key) DO UPDATE
        SET count = search_terms.count + excluded.count, revision = excluded.revision
        """
    db.execute(query, (index, ended, revision, [*ended, *added]))


def _add(
    db: Connection, index: int, servers: Mapping[bytes, _ServerDocuments], revision: int
) -> list[int]:
    """Add the documents of servers, which are by their keys; returns their numbers."""
    documents = {
        k: server.documents for k, server in servers.items() if server.documents is not None
    }
    if len(documents) < len(servers):
        raise RegistryError("the documents of a server were replaced meanwhile")
    query = """
        INSERT INTO discovery.search_servers (search_index, revision, key, name, made_of, content)
        SELECT %s, %s, * FROM unnest(%s::bytea[], %s::text[], %s::bytea[], %s::bytea[])
        RETURNING id, key
        """
    names = [to_column(server.name) for server in servers.values()]
    made_of, content = [s.made_of for s in servers.values()], [s.content for s in servers.values()]
    rows = db.execute(query, (index, revision, [*servers], names, made_of, content)).fetchall()
    command = "COPY discovery.search_tools (server, position, profile, terms, impacts) FROM STDIN"
    with db.cursor() as cursor, cursor.copy(command) as copy:
        for number, key in rows:
            for position, (profile, impacts) in enumerate(documents[key]):
                # An array as PostgreSQL reads it: the driver takes ten times as long for a list.
                terms = ",".join(str(key | i * LEVELS // 256) for key, i in impacts.items())
                values = number, position, profile, f"{{{terms}}}", bytes(impacts.values())
                copy.write_row(values)
    return [number for number, _ in rows]
