"""The state that gateways share in PostgreSQL; `registry.gateway_store` has the contract."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import anyio

from discovery_engine.registry.postgres import gateway_queries, relay_queries
from discovery_engine.registry.postgres.database_feed import notify, notify_relayed
from discovery_engine.registry.relay_records import RelayNews

if TYPE_CHECKING:
    from discovery_engine.registry.gateway_store import TokenDocuments
    from discovery_engine.registry.postgres.postgres_database import PostgresDatabase
    from discovery_engine.registry.postgres.timed_connection import TimedConnection
    from discovery_engine.registry.relay_records import RelayTurn

# 32 MiB and 80 ms for each guess of a password, by who has both a sealed state and the salt.
_COST, _BLOCK_SIZE, _MEMORY = 2**15, 8, 1 << 26
_KEY_SIZE = 32  # bytes
_INSTANCE = 8  # random bytes


class PostgresGateways:
    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.name = database.address.name
        self.instance = secrets.token_hex(_INSTANCE)
        self.changed = anyio.Event()
        self.relayed = anyio.Event()

    def note_change(self) -> None:
        """Wake those who wait for `changed`."""
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    def note_relayed(self, instance: str) -> None:
        """Wake those who wait for `relayed`, if that is this process."""
        if instance == self.instance:
            relayed, self.relayed = self.relayed, anyio.Event()
            relayed.set()

    def sealing_key(self, secret: str = "") -> bytes | None:
        def read(db: TimedConnection) -> tuple[bytes, bytes]:
            return secret.encode() or db.pgconn.password, gateway_queries.salt(db)

        shared, salt = self._database.read(read)
        if not shared:
            return None
        return hashlib.scrypt(
            shared, salt=salt, n=_COST, r=_BLOCK_SIZE, p=1, maxmem=_MEMORY, dklen=_KEY_SIZE
        )

    def access_tokens(self, scope: str) -> TokenDocuments:
        return self._database.read(lambda db: gateway_queries.tokens(db, scope))

    def token_scopes(self) -> frozenset[str]:
        return self._database.read(gateway_queries.token_scopes)

    def change_access_tokens(
        self, scope: str, change: Callable[[TokenDocuments], TokenDocuments]
    ) -> None:
        def write(db: TimedConnection) -> None:
            gateway_queries.lock_tokens(db)
            tokens = gateway_queries.tokens(db, scope)
            new_tokens = change(tokens)
            gateway_queries.delete_tokens(db, scope, set(tokens).difference(new_tokens))
            gateway_queries.add_tokens(
                db, scope, [token for token in new_tokens if token not in tokens]
            )
            notify(db)

        self._database.write(write)

    def result(self, key: bytes) -> bytes | None:
        return self._database.read(lambda db: gateway_queries.result(db, key))

    def keep_result(
        self, key: bytes, result: bytes, *, lifetime: float, instead_of: Collection[bytes] = ()
    ) -> None:
        def write(db: TimedConnection) -> None:
            gateway_queries.delete_results(db, instead_of)
            gateway_queries.add_result(db, key, result, lifetime)

        self._database.write(write)

    def take_turn(self, turn: RelayTurn) -> RelayNews:
        def write(db: TimedConnection) -> RelayNews:
            request_ids = {*turn.waiting, *turn.over, *turn.serving, *turn.answers}
            there = relay_queries.lock(db, self.instance, request_ids)
            concerned = relay_queries.add(db, turn.asked)
            concerned |= relay_queries.delete(db, turn.over)
            concerned |= relay_queries.answer(db, turn.answers)
            relay_queries.renew(db, turn.waiting, turn.serving)
            relay_queries.delete_leftovers(db)
            taken = relay_queries.take(db, self.instance, turn.room, there - request_ids)
            untaken, lost = relay_queries.untaken_and_lost(db, turn.waiting)
            relay_queries.delete(db, untaken)  # never taken, should the clock be set back
            for instance in concerned:
                notify_relayed(db, instance)
            return RelayNews(
                taken,
                withdrawn=frozenset(turn.serving) - there,
                answers=relay_queries.answers(db, turn.waiting),
                untaken=untaken,
                lost=lost,
            )

        return self._database.write(write)
