"""The state that gateways share in PostgreSQL; see `store.gateway_records`."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import anyio

from discovery_engine.store.gateway_records import RelayNews
from discovery_engine.store.tables import gateway_table, relay_table

if TYPE_CHECKING:
    from discovery_engine.store.gateway_records import GatewayReport, RelayTurn, TokenDocuments
    from discovery_engine.store.search_database import SearchDatabase
    from discovery_engine.store.statements import Connection

# 32 MiB and 80 ms for each guess of a password, by who has both a sealed state and the salt.
_COST, _BLOCK_SIZE, _MEMORY = 2**15, 8, 1 << 26
_KEY_SIZE = 32  # bytes
_INSTANCE = 8  # random bytes


class PostgresGateways:
    """Calls block; all raise `RegistryError` if the database does not answer or refuses.

    Args:
        database: Where it is kept.
        name: Of the database, without any secret.
    """

    def __init__(self, database: SearchDatabase, name: str) -> None:
        self._database = database
        self.name = name
        self.instance = secrets.token_hex(_INSTANCE)
        """This process among those of the database: a random name that no other one ever has."""
        self.changed = anyio.Event()
        """Set soon after the next change, while `Registry.changes` is followed."""
        self.relayed = anyio.Event()
        """Set soon after the next relayed request, or answer, for `instance`; as `changed`."""

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
        """A key of 32 bytes, the same for all gateways with the same secret; None without one.

        Args:
            secret: What all gateways have, and no client; by default the password with which the
                database is used.
        """

        def read(db: Any) -> tuple[bytes, bytes]:
            return secret.encode() or db.pgconn.password, gateway_table.salt(db)

        shared, salt = self._database.read(read)
        if not shared:
            return None
        return hashlib.scrypt(
            shared, salt=salt, n=_COST, r=_BLOCK_SIZE, p=1, maxmem=_MEMORY, dklen=_KEY_SIZE
        )

    def access_tokens(self, scope: str) -> TokenDocuments:
        """Return the access tokens of a configuration."""
        return self._database.read(lambda db: gateway_table.tokens(db, scope))

    def token_scopes(self) -> frozenset[str]:
        """The configurations that have access tokens."""
        return self._database.read(gateway_table.token_scopes)

    def change_access_tokens(
        self, scope: str, change: Callable[[TokenDocuments], TokenDocuments]
    ) -> None:
        """Keep what `change` makes of them, or nothing if it raises; no other process writes then.

        What it adds comes last.
        """

        def write(db: Connection) -> None:
            gateway_table.lock_tokens(db)
            tokens = gateway_table.tokens(db, scope)
            new_tokens = change(tokens)
            gateway_table.delete_tokens(db, scope, set(tokens).difference(new_tokens))
            gateway_table.add_tokens(
                db, scope, [token for token in new_tokens if token not in tokens]
            )
            gateway_table.notify(db)

        self._database.write(write)

    def report(self, scope: str, decided: int) -> None:
        """Record that all decisions of a scope up to this number are in force in this process."""
        self._database.write(lambda db: gateway_table.report(db, self.instance, scope, decided))

    def withdraw_report(self) -> None:
        """Delete the report of this process, which ends."""
        self._database.write(lambda db: gateway_table.withdraw_report(db, self.instance))

    def reports(self, scope: str) -> tuple[GatewayReport, ...]:
        """Return the last report of each gateway that has not ended in order, by machine."""
        return self._database.read(lambda db: gateway_table.reports(db, scope))

    def result(self, key: bytes) -> bytes | None:
        """Return the result kept under a key; None if there is none, or not any more."""
        return self._database.read(lambda db: gateway_table.result(db, key))

    def keep_result(
        self, key: bytes, result: bytes, *, lifetime: float, instead_of: Collection[bytes] = ()
    ) -> None:
        """Keep it for so many seconds of the database's clock; others, by their keys, no longer."""

        def write(db: Connection) -> None:
            gateway_table.delete_results(db, instead_of)
            gateway_table.add_result(db, key, result, lifetime)

        self._database.write(write)

    def take_turn(self, turn: RelayTurn) -> RelayNews:
        """Write the turn of `instance`, then return the news for it."""

        def write(db: Connection) -> RelayNews:
            request_ids = {*turn.waiting, *turn.over, *turn.serving, *turn.answers}
            there = relay_table.lock(db, self.instance, request_ids)
            concerned = relay_table.add(db, turn.asked)
            concerned |= relay_table.delete(db, turn.over)
            concerned |= relay_table.answer(db, turn.answers)
            relay_table.renew(db, turn.waiting, turn.serving)
            relay_table.delete_leftovers(db)
            taken = relay_table.take(db, self.instance, turn.room, there - request_ids)
            untaken, lost = relay_table.untaken_and_lost(db, turn.waiting)
            relay_table.delete(db, untaken)  # never taken, should the clock be set back
            for instance in concerned:
                gateway_table.notify_relayed(db, instance)
            return RelayNews(
                taken,
                withdrawn=frozenset(turn.serving) - there,
                answers=relay_table.answers(db, turn.waiting),
                untaken=untaken,
                lost=lost,
            )

        return self._database.write(write)
