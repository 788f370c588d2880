"""Requests that gateways leave for each other in PostgreSQL: see `store.gateway_records`.

Nothing is asked of the database about no requests: a gateway with a task looks every second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.store.gateway_records import LEASE, TAKING, RelayedRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from discovery_engine.store.statements import Connection

_NOW = "extract(epoch FROM clock_timestamp())::float8"
_TAKEABLE = f"(receiver = %s AND served_until IS NULL AND take_until > {_NOW})"
# Bytes of requests, or of answers, after which a turn reads no more.
_MAX_RELAY_TURN_BYTES = 16 << 20


def add(connection: Connection, requests: Collection[RelayedRequest]) -> set[str]:
    """Leave requests for others; returns who is to answer them."""
    query = f"""
        INSERT INTO discovery.relayed_requests
            (id, sender, receiver, take_until, wanted_until, request)
        VALUES (%s, %s, %s, {_NOW} + %s, {_NOW} + %s, %s)
        """  # noqa: S608 - a constant
    for request in requests:
        values = request.id, request.sender, request.receiver, TAKING, LEASE, request.content
        connection.execute(query, values)
    return {request.receiver for request in requests}


def lock(connection: Connection, receiver: str, ids: Collection[bytes]) -> frozenset[bytes]:
    """Lock the requests with these ids and those that `receiver` may take; return the ids found.

    Nobody else changes them until the transaction ends. They are locked in one order, since two
    gateways write to the same rows and would wait for each other for ever.
    """
    query = f"""
        SELECT id FROM discovery.relayed_requests
        WHERE id = ANY(%s) OR {_TAKEABLE} ORDER BY id FOR UPDATE
        """  # noqa: S608 - a constant
    return frozenset(bytes(id_) for (id_,) in connection.execute(query, (list(ids), receiver)))


def delete(connection: Connection, ids: Collection[bytes]) -> set[str]:
    """Delete requests; returns who was to answer them."""
    if not ids:
        return set()
    query = "DELETE FROM discovery.relayed_requests WHERE id = ANY(%s) RETURNING receiver"
    return {receiver for (receiver,) in connection.execute(query, (list(ids),))}


def delete_leftovers(connection: Connection) -> None:
    """Delete those whose senders are gone."""
    connection.execute(
        f"""
        DELETE FROM discovery.relayed_requests WHERE id IN (
            SELECT id FROM discovery.relayed_requests WHERE wanted_until <= {_NOW}
            FOR UPDATE SKIP LOCKED
        )
        """  # noqa: S608 - a constant
    )


def renew(connection: Connection, waiting: Collection[bytes], serving: Collection[bytes]) -> None:
    for column, ids in (("wanted_until", waiting), ("served_until", serving)):
        query = f"UPDATE discovery.relayed_requests SET {column} = {_NOW} + %s WHERE id = ANY(%s)"  # noqa: S608 - as above
        if ids:
            connection.execute(query, (LEASE, list(ids)))


def answer(connection: Connection, answers: Mapping[bytes, bytes]) -> set[str]:
    """Answer requests; returns who waits for these answers."""
    query = "UPDATE discovery.relayed_requests SET answer = %s WHERE id = %s RETURNING sender"
    rows = [connection.execute(query, (text, id_)).fetchone() for id_, text in answers.items()]
    return {row[0] for row in rows if row}


def take(
    connection: Connection, receiver: str, room: int, locked: Collection[bytes]
) -> tuple[RelayedRequest, ...]:
    """Requests for a gateway, of those that are locked; nobody is given them again."""
    if not (locked and room):
        return ()
    query = f"""
        UPDATE discovery.relayed_requests SET served_until = {_NOW} + %s WHERE id IN (
            SELECT id FROM (
                SELECT id, {_before("request", "take_until, id")} AS before
                FROM discovery.relayed_requests WHERE id = ANY(%s) AND {_TAKEABLE}
            ) AS takeable WHERE before < %s ORDER BY before LIMIT %s
        ) RETURNING id, sender, request
        """  # noqa: S608 - a constant
    values = LEASE, list(locked), receiver, _MAX_RELAY_TURN_BYTES, room
    rows = connection.execute(query, values)
    return tuple(RelayedRequest(bytes(id_), by, receiver, bytes(text)) for id_, by, text in rows)


def untaken_and_lost(
    connection: Connection, waiting: Collection[bytes]
) -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Requests that will not be answered; the others are, or may be."""
    if not waiting:
        return frozenset(), frozenset()
    query = f"""
        SELECT id, served_until IS NOT NULL,
            answer IS NULL AND coalesce(served_until, take_until) <= {_NOW}
        FROM discovery.relayed_requests WHERE id = ANY(%s)
        """  # noqa: S608 - a constant
    rows = connection.execute(query, (list(waiting),)).fetchall()
    late = {bytes(id_): is_taken for id_, is_taken, is_late in rows if is_late}
    there = frozenset(bytes(id_) for id_, *_ in rows)
    lost = frozenset(id_ for id_, is_taken in late.items() if is_taken)
    return frozenset(late) - lost, lost | (frozenset(waiting) - there)


def answers(connection: Connection, waiting: Collection[bytes]) -> Mapping[bytes, bytes]:
    """Some of the answers to requests."""
    if not waiting:
        return {}
    query = f"""
        SELECT id, answer FROM (
            SELECT id, answer, {_before("answer", "id")} AS before
            FROM discovery.relayed_requests WHERE id = ANY(%s) AND answer IS NOT NULL
        ) AS there WHERE before < %s
        """  # noqa: S608 - a constant
    rows = connection.execute(query, (list(waiting), _MAX_RELAY_TURN_BYTES))
    return {bytes(id_): bytes(text) for id_, text in rows}


def _before(column: str, order: str) -> str:
    """An SQL expression: the bytes of a column in all rows that precede one in the order."""
    size = f"octet_length({column})"
    return f"sum({size}) OVER (ORDER BY {order}) - {size}"
