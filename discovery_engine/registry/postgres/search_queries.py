"""The documents of tools in PostgreSQL; `search.database.search_store` has their contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from discovery_engine.registry.postgres.storable_text import from_column, key_of, to_column
from discovery_engine.search.database.document_place import DocumentPlace
from discovery_engine.search.database.search_store import (
    Nearest,
    ServerDocuments,
    StoredDocument,
    StoredIndex,
    StoredServer,
)
from discovery_engine.tools.model import ServerName

if TYPE_CHECKING:
    from psycopg import Connection

_FOUND_FOR = timedelta(seconds=60)  # how long documents that were replaced stay
_KEPT_FOR = timedelta(days=7)  # an index that no gateway uses
NOTED_EACH = timedelta(days=1)  # that it is used


def find(connection: Connection, scope: str, recipe: bytes, since: int) -> StoredIndex | None:
    query = """
        SELECT search_indexes.id, search_indexes.revision, (
            SELECT count(*) FROM discovery.search_servers
            WHERE search_index = search_indexes.id AND ended_at IS NULL
        )
        FROM discovery.search_indexes JOIN discovery.scopes ON scopes.id = scope
        WHERE scopes.key = %s AND recipe = %s
        """
    row = connection.execute(query, (key_of(scope), recipe)).fetchone()
    if row is None:
        return None
    index, revision, size = row
    query = """
        SELECT name, id, made_of, content, ended_at IS NOT NULL FROM discovery.search_servers
        WHERE search_index = %s AND revision > %s ORDER BY id
        """
    servers: dict[ServerName, StoredServer | None] = {}
    for name, number, made_of, content, is_ended in connection.execute(query, (index, since)):
        server = ServerName(from_column(name))
        servers[server] = None if is_ended else StoredServer(number, made_of, content)
    query = """
        SELECT term, count FROM discovery.search_terms WHERE search_index = %s AND revision > %s
        """
    rows = connection.execute(query, (index, since))
    counts = {from_column(term): count for term, count in rows}
    return StoredIndex(index, revision, servers, size, counts)


def use(connection: Connection, scope: str, recipe: bytes) -> None:
    """Make an index, or note that it is used; indexes that no gateway uses are dropped."""
    connection.execute(
        """
        INSERT INTO discovery.search_indexes (scope, recipe)
        SELECT id, %s FROM discovery.scopes WHERE key = %s
        ON CONFLICT (scope, recipe) DO UPDATE SET used_at = excluded.used_at
        WHERE search_indexes.used_at < excluded.used_at - %s
        """,
        (recipe, key_of(scope), NOTED_EACH),
    )
    # This one was noted just now, however long ago it was used before.
    query = "DELETE FROM discovery.search_indexes WHERE used_at < clock_timestamp() - %s"
    connection.execute(query, (_KEPT_FOR,))


def note_use(connection: Connection, index: int) -> None:
    """As `use`, of an index that is known."""
    query = """
        UPDATE discovery.search_indexes SET used_at = clock_timestamp()
        WHERE id = %s AND used_at < clock_timestamp() - %s
        """
    connection.execute(query, (index, NOTED_EACH))


def save(
    connection: Connection,
    index: int,
    servers: Sequence[ServerDocuments],
    unlisted: Collection[ServerName],
) -> None:
    revision = _next_revision(connection, index)
    if revision is None:
        return
    query = """
        SELECT key, content FROM discovery.search_servers
        WHERE search_index = %s AND key = ANY(%s) AND ended_at IS NULL
        """
    keys = {key_of(server.server): server for server in servers}
    stored: dict[bytes, bytes] = dict(connection.execute(query, (index, [*keys])).fetchall())
    # Another gateway may have stored the same meanwhile.
    new = {key: one for key, one in keys.items() if stored.get(key) != one.content}
    _end(connection, index, [*new, *_gone(connection, index, unlisted)], revision)
    numbers = _add_servers(connection, index, new, revision)
    with (
        connection.cursor() as cursor,
        cursor.copy(
            "COPY discovery.search_tools (server, position, profile, terms, impacts) FROM STDIN"
        ) as copy,
    ):
        for key, server in new.items():
            for position, one in enumerate(server.documents):
                row = numbers[key], position, one.profile, _array(one.keys), one.impacts
                copy.write_row(row)
    _count(connection, index, new.values(), revision)


def confirm(connection: Connection, index: int, made_of: Mapping[ServerName, bytes]) -> None:
    if revision := _next_revision(connection, index):
        connection.execute(
            """
            UPDATE discovery.search_servers SET made_of = new.made_of, revision = %s
            FROM unnest(%s::bytea[], %s::bytea[]) AS new(key, made_of)
            WHERE search_index = %s AND ended_at IS NULL AND search_servers.key = new.key
            """,
            (revision, [*map(key_of, made_of)], [*made_of.values()], index),
        )


def nearest(
    connection: Connection,
    index: int,
    weights: Mapping[int, float],
    most: int,
    *,
    postings: int,
    servers: Collection[int] | None,
) -> Nearest | None:
    query = "SELECT revision FROM discovery.search_indexes WHERE id = %s"
    if (row := connection.execute(query, (index,)).fetchone()) is None:
        return None
    # To compile the query takes longer than to run it, and workers would mix up the keys' order.
    connection.execute("SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0")
    # With `OFFSET 0` the keys are looked up one after the other, until there are enough postings:
    # each is a page of the table, of which 12,000 took 200 ms.
    query = """
        SELECT server, position, sum(count(*)) OVER ()::bigint FROM (
            SELECT server, position, weight
            FROM unnest(%s::bigint[], %s::float8[]) AS asked(key, weight)
            CROSS JOIN LATERAL (
                SELECT server, position FROM discovery.search_tools
                WHERE terms @> ARRAY[asked.key] AND (%s::bigint[] IS NULL OR server = ANY(%s))
                OFFSET 0
            ) AS holding
            LIMIT %s
        ) AS posting
        GROUP BY server, position ORDER BY sum(weight) DESC, server, position LIMIT %s
        """
    named = None if servers is None else [*servers]
    parameters = [*weights], [*weights.values()], named, named, postings, most
    found = connection.execute(query, parameters, binary=True).fetchall()
    read = found[0][2] if found else 0
    places = [DocumentPlace(server, position) for server, position, _ in found]
    return Nearest(row[0], places, are_all=read < postings and len(found) < most)


def documents(
    connection: Connection, places: Collection[DocumentPlace]
) -> dict[DocumentPlace, StoredDocument]:
    query = """
        SELECT server, position, profile, terms, impacts
        FROM unnest(%s::bigint[], %s::int[]) AS asked(server, position)
        JOIN discovery.search_tools USING (server, position)
        """
    parameters = [one.number for one in places], [one.position for one in places]
    rows = connection.execute(query, parameters, binary=True)
    return {DocumentPlace(row[0], row[1]): StoredDocument(*row[2:]) for row in rows}


def _next_revision(connection: Connection, index: int) -> int | None:
    """The number of this change, with the index locked; None if it is gone."""
    query = """
        UPDATE discovery.search_indexes SET revision = revision + 1, used_at = clock_timestamp()
        WHERE id = %s RETURNING revision
        """
    row = connection.execute(query, (index,)).fetchone()
    return row[0] if row else None


def _gone(connection: Connection, index: int, servers: Collection[ServerName]) -> list[bytes]:
    """The keys of those that list no tools by now."""
    query = """
        SELECT key FROM unnest(%s::bytea[]) AS named(key) WHERE NOT EXISTS (
            SELECT FROM discovery.search_indexes JOIN discovery.servers USING (scope)
            JOIN discovery.listings ON listings.server = servers.id
            WHERE search_indexes.id = %s AND servers.key = named.key AND listings.names <> '[]'
        )
        """
    return [key for (key,) in connection.execute(query, ([*map(key_of, servers)], index))]


def _end(connection: Connection, index: int, keys: list[bytes], revision: int) -> None:
    """End the documents of servers."""
    query = """
        DELETE FROM discovery.search_servers
        WHERE search_index = %s AND ended_at < clock_timestamp() - %s
        """
    connection.execute(query, (index, _FOUND_FOR))
    query = """
        UPDATE discovery.search_servers SET ended_at = clock_timestamp(), revision = %s
        WHERE search_index = %s AND ended_at IS NULL AND key = ANY(%s) RETURNING id
        """
    ended = [row[0] for row in connection.execute(query, (revision, index, keys))]
    connection.execute(
        """
        UPDATE discovery.search_terms SET count = search_terms.count - old.count, revision = %s
        FROM (
            SELECT term & -16::bigint AS key, count(*) AS count
            FROM discovery.search_tools, unnest(terms) AS term WHERE server = ANY(%s) GROUP BY 1
        ) AS old
        WHERE search_index = %s AND search_terms.key = old.key
        """,
        (revision, ended, index),
    )


def _add_servers(
    connection: Connection, index: int, new: Mapping[bytes, ServerDocuments], revision: int
) -> dict[bytes, int]:
    """The numbers of the new documents, by the keys of the servers."""
    query = """
        INSERT INTO discovery.search_servers
            (search_index, key, name, made_of, content, revision)
        SELECT %s, key, name, made_of, content, %s
        FROM unnest(%s::bytea[], %s::text[], %s::bytea[], %s::bytea[])
            AS new(key, name, made_of, content)
        RETURNING key, id
        """
    columns = (
        [*new],
        [to_column(one.server) for one in new.values()],
        [one.made_of for one in new.values()],
        [one.content for one in new.values()],
    )
    return dict(connection.execute(query, (index, revision, *columns)).fetchall())


def _count(
    connection: Connection, index: int, new: Collection[ServerDocuments], revision: int
) -> None:
    counts: Counter[tuple[int, str]] = Counter()
    for server in new:
        counts.update(server.counts)
    connection.execute(
        """
        INSERT INTO discovery.search_terms (search_index, key, term, count, revision)
        SELECT %s, key, term, count, %s
        FROM unnest(%s::bigint[], %s::text[], %s::bigint[]) AS new(key, term, count)
        ON CONFLICT (search_index, key) DO UPDATE
        SET count = search_terms.count + excluded.count, revision = excluded.revision
        """,
        (
            index,
            revision,
            _array(key for key, _ in counts),
            [to_column(term) for _, term in counts],
            _array(counts.values()),
        ),
    )


def _array(numbers: Iterable[int]) -> str:
    """An array as PostgreSQL reads it: the driver takes ten times as long for a list."""
    return "{" + ",".join(map(str, numbers)) + "}"
