"""The owner's decisions: approvals, acceptances, losses, registered servers, switches and rules.

Every writer first locks the number of the newest decision, so all decisions have one order. Each
row has a checksum. It is verified in SQLite files only: PostgreSQL has checksums, a log and backups
of its own.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import astuple
from msgspec.structs import replace as replace_fields

from discovery_engine._util.digests import blake2b
from discovery_engine.store.records import (
    EVERY_SCOPE,
    AcceptanceRecord,
    ApprovalRecord,
    DecisionExport,
    LossRecord,
    Record,
    RegistrationRecord,
    RulesRecord,
    SwitchRecord,
)
from discovery_engine.store.stored_text import from_column, key_of, to_column
from discovery_engine.trust.decisions import Acceptance, AcceptedTools, Approval, Decisions

if TYPE_CHECKING:
    from discovery_engine.store.server_records import RegisteredServer, ServerSwitch
    from discovery_engine.store.statements import Connection

_SERVERS_AT_ONCE = 50  # servers whose acceptances are moved in one transaction
_ROWS_AT_ONCE = 5_000  # rows, at least one for each tool: a few MB


class DecisionTable(Struct, frozen=True):
    """A table of decisions; the key of a row is the digest of its first columns."""

    name: str
    identity: int
    """The number of columns that make the key."""
    digests: int
    """The number of further digests: 1 for `scope_key`, of the first column, 2 for `server_key`, of
    the first two, as well."""
    replaced: tuple[str, ...]
    """The columns that a newer row of the same key replaces; if empty, the old row stays."""
    record: Any
    """The struct of a row."""

    @property
    def columns(self) -> str:
        """All columns, separated by commas: the number, those under the checksum, the checksum."""
        fields = self.record.__struct_fields__[:-1]
        digests = ("scope_key", "server_key")[: self.digests]
        return ", ".join(("number", "key", *digests, *fields, "checksum"))

    def row(self, record: Record) -> tuple[object, ...]:
        *fields, number = astuple(record)
        names = fields[: self.identity]
        digests = [_cached_key(*names[: size + 1]) for size in range(self.digests)]
        stored = [to_column(field) if isinstance(field, str) else field for field in fields]
        covered = key_of(*names), *digests, *stored
        return number, *covered, checksum_of(covered)

    def record_of(self, row: Sequence[Any]) -> Any:
        """Convert a row of `columns` to its record."""
        stored = row[2 + self.digests : -1]
        fields = [from_column(field) if isinstance(field, str) else field for field in stored]
        if self is SWITCHES:
            fields[2] = bool(fields[2])  # SQLite has no booleans
        return self.record(*fields, row[0])


APPROVALS = DecisionTable("approvals", 3, 2, (), ApprovalRecord)
ACCEPTANCES = DecisionTable(
    "acceptances", 4, 2, ("number", "fingerprint", "definition", "at"), AcceptanceRecord
)
LOSSES = DecisionTable("losses", 1, 0, ("number", "at", "acknowledged"), LossRecord)
SERVERS = DecisionTable("registered_servers", 2, 1, ("content",), RegistrationRecord)
SWITCHES = DecisionTable("switches", 2, 1, ("number", "is_wanted", "at"), SwitchRecord)
RULES = DecisionTable("shared_rules", 2, 1, ("number", "text", "at"), RulesRecord)
TABLES = APPROVALS, ACCEPTANCES, LOSSES, SERVERS, SWITCHES, RULES
_NAMED = SERVERS, SWITCHES, RULES  # with at most one row for a name of a scope
_OF_SCOPES = APPROVALS, ACCEPTANCES, *_NAMED


_cached_key = lru_cache(100)(key_of)  # all tools of a server have the same digests


def checksum_of(columns: Iterable[object]) -> str:
    # SQLite returns booleans as numbers.
    covered = [int(column) if isinstance(column, bool) else column for column in columns]
    return blake2b(repr(tuple(covered)).encode(), digest_size=8).hexdigest()


# The number of the newest decision


def newest(connection: Connection) -> int:
    """Return the number of the newest decision; 0 if there is none, or its row is damaged."""
    return _number(connection, "")


def locked_newest(connection: Connection) -> int:
    """Return the number of the newest decision, and lock it for the rest of the transaction."""
    return _number(connection, connection.for_update)


def set_newest(connection: Connection, number: int) -> None:
    connection.execute(
        """
        INSERT INTO decision_log (id, number) VALUES (1, ?)
        ON CONFLICT (id) DO UPDATE SET number = excluded.number
        """,
        (number,),
    )


def _number(connection: Connection, lock: str) -> int:
    row = connection.execute(f"SELECT number FROM decision_log{lock}").fetchone()  # noqa: S608 - a constant
    return row[0] if row and isinstance(row[0], int) else 0


# Approvals, acceptances and losses


def decisions(connection: Connection, scope: str) -> Decisions:
    accepted: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    statement = "SELECT server, tool, meaning, fingerprint FROM acceptances WHERE scope_key = ?"
    rows = connection.rows(statement, (key_of(scope),), at_once=_ROWS_AT_ONCE)
    for server, tool, *digests in rows:
        accepted[from_column(server)][from_column(tool)].update(map(from_column, digests))
    return Decisions(
        approvals(connection, scope),
        {
            server: {tool: frozenset(digests) for tool, digests in tools.items()}
            for server, tools in accepted.items()
        },
        lost_at(connection, scope),
    )


def approvals(connection: Connection, scope: str) -> dict[str, frozenset[str]]:
    by_server: defaultdict[str, set[str]] = defaultdict(set)
    statement = "SELECT server, identity FROM approvals WHERE scope_key = ?"
    for server, identity in connection.execute(statement, (key_of(scope),)):
        by_server[from_column(server)].add(from_column(identity))
    return {server: frozenset(identities) for server, identities in by_server.items()}


def accepted(connection: Connection, scope: str, server: str) -> AcceptedTools:
    by_tool: defaultdict[str, set[str]] = defaultdict(set)
    statement = "SELECT tool, meaning, fingerprint FROM acceptances WHERE server_key = ?"
    for tool, *digests in connection.execute(statement, (key_of(scope, server),)):
        by_tool[from_column(tool)].update(map(from_column, digests))
    return {tool: frozenset(digests) for tool, digests in by_tool.items()}


def accepted_since(connection: Connection, scope: str, number: int) -> frozenset[str]:
    """Return the servers that have an acceptance with a number higher than `number`."""
    statement = "SELECT DISTINCT server FROM acceptances WHERE number > ? AND scope_key = ?"
    rows = connection.execute(statement, (number, key_of(scope)))
    return frozenset(from_column(server) for (server,) in rows)


def history(connection: Connection, scope: str, server: str) -> tuple[Acceptance, ...]:
    statement = """
        SELECT tool, meaning, fingerprint, definition FROM acceptances
        WHERE server_key = ? ORDER BY number
        """
    rows = connection.execute(statement, (key_of(scope, server),))
    return tuple(Acceptance(server, *map(from_column, row)) for row in rows)


def approve(
    connection: Connection, newest: int, scope: str, new: Iterable[Approval], at: float
) -> int:
    """Insert approvals, numbered from `newest + 1`; return how many did not exist."""
    records = [
        ApprovalRecord(scope, approval.server, approval.identity, float(at), number)
        for number, approval in enumerate(dict.fromkeys(new), newest + 1)
    ]
    rows = map(APPROVALS.row, records)
    return sum(connection.execute(_insert(APPROVALS), row).rowcount for row in rows)


def revoke(connection: Connection, scope: str, servers: Iterable[str]) -> int:
    """Delete all approvals of servers; return their number."""
    statement = "DELETE FROM approvals WHERE server_key = ?"
    keys = [key_of(scope, server) for server in dict.fromkeys(servers)]
    return sum(connection.execute(statement, (key,)).rowcount for key in keys)


def accept(
    connection: Connection, newest: int, scope: str, acceptances: Iterable[Acceptance], at: float
) -> int:
    """Insert acceptances, numbered from `newest + 1`; return how many."""
    return save(
        connection,
        [
            AcceptanceRecord(
                scope, tool.server, tool.tool, tool.meaning, tool.fingerprint, tool.definition,
                float(at), number,
            )
            for number, tool in enumerate(acceptances, newest + 1)
        ],
    )  # fmt: skip


def accept_new(
    connection: Connection, newest: int, scope: str, acceptances: Sequence[Acceptance], at: float
) -> int:
    """Insert the acceptances of tools that have none; return how many.

    After a loss that the owner has not acknowledged none is inserted: new tools cannot be told
    from those whose acceptances were lost.
    """
    if lost_at(connection, scope) is not None:
        return 0
    statement = "SELECT DISTINCT tool FROM acceptances WHERE server_key = ?"
    tools = {
        (server, from_column(tool))
        for server in {acceptance.server for acceptance in acceptances}
        for (tool,) in connection.execute(statement, (key_of(scope, server),))
    }
    new = [a for a in acceptances if (a.server, a.tool) not in tools]
    return accept(connection, newest, scope, new, at)


def lost_at(connection: Connection, scope: str) -> float | None:
    statement = "SELECT key, at, acknowledged FROM losses WHERE key IN (?, ?)"
    keys = key_of(scope), key_of(EVERY_SCOPE)
    losses = {bytes(key): rest for key, *rest in connection.execute(statement, keys)}
    at, acknowledged = losses.get(keys[0]) or losses.get(keys[1]) or (None, None)
    return at if acknowledged is None else None


def save_loss(connection: Connection, loss: LossRecord) -> int:
    if loss.scope == EVERY_SCOPE and loss.acknowledged is None:
        # It replaces all earlier losses, including acknowledged ones.
        connection.execute("DELETE FROM losses")
    return save(connection, [loss])


# Registered servers, switches and rules. Most registries have none: their types are imported late.


def servers(connection: Connection, scope: str) -> tuple[RegisteredServer, ...]:
    """Return the registered servers, the earliest first."""
    from discovery_engine.store.server_records import RegisteredServer  # noqa: PLC0415

    statement = "SELECT content FROM registered_servers WHERE scope_key = ? ORDER BY number"
    rows = connection.execute(statement, (key_of(scope),))
    return tuple(RegisteredServer.from_text(from_column(content)) for (content,) in rows)


def save_servers(
    connection: Connection, newest: int, scope: str, servers: Iterable[RegisteredServer]
) -> int:
    """Insert servers, or replace those of the same names; return how many."""
    records = [
        RegistrationRecord(scope, server.name, server.to_text(), number)
        for number, server in enumerate(servers, newest + 1)
    ]
    _set_mark(connection, scope, is_changed=bool(records))
    return save(connection, records)


def delete_servers(connection: Connection, scope: str, names: Iterable[str]) -> int:
    keys = [key_of(scope, name) for name in dict.fromkeys(names)]
    statement = "DELETE FROM registered_servers WHERE key = ?"
    count = sum(connection.execute(statement, (key,)).rowcount for key in keys)
    _set_mark(connection, scope, is_changed=count > 0)
    return count


def switches(connection: Connection, scope: str) -> dict[str, ServerSwitch]:
    from discovery_engine.store.server_records import ServerSwitch  # noqa: PLC0415

    statement = "SELECT server, is_wanted, at FROM switches WHERE scope_key = ?"
    return {
        from_column(server): ServerSwitch(bool(is_wanted), at)
        for server, is_wanted, at in connection.execute(statement, (key_of(scope),))
    }


def set_switches(
    connection: Connection, newest: int, scope: str, wanted: Mapping[str, bool | None], at: float
) -> int:
    """Set switches by server, or delete them with None; return how many changed."""
    old = {server: switch.is_wanted for server, switch in switches(connection, scope).items()}
    changed = {
        server: is_wanted
        for server, is_wanted in wanted.items()
        if is_wanted is not old.get(server)
    }
    records = []
    for number, (server, is_wanted) in enumerate(changed.items(), newest + 1):
        if is_wanted is None:
            connection.execute("DELETE FROM switches WHERE key = ?", (key_of(scope, server),))
        else:
            records.append(SwitchRecord(scope, server, is_wanted, float(at), number))
    save(connection, records)
    _set_mark(connection, scope, is_changed=bool(changed))
    return len(changed)


def rules(connection: Connection, scope: str) -> dict[str, str]:
    """Return the texts of shared rules by section."""
    statement = "SELECT section, text FROM shared_rules WHERE scope_key = ?"
    rows = connection.execute(statement, (key_of(scope),))
    return {from_column(section): from_column(text) for section, text in rows}


def set_rules(
    connection: Connection,
    newest: int,
    scope: str,
    texts: Mapping[str, str],
    before: Mapping[str, str],
    at: float,
) -> int:
    """Replace the rules of some sections, an empty text by none; return how many sections.

    If one of these sections is not as in `before`, nothing is replaced, and 0 is returned.
    """
    present = rules(connection, scope)
    if any(present.get(section, "") != before.get(section, "") for section in texts):
        return 0
    for section, text in texts.items():
        if not text:
            connection.execute("DELETE FROM shared_rules WHERE key = ?", (key_of(scope, section),))
    records = [
        RulesRecord(scope, section, text, float(at), number)
        for number, (section, text) in enumerate(texts.items(), newest + 1)
        if text
    ]
    save(connection, records)
    _set_mark(connection, scope, is_changed=bool(texts))
    return len(texts)


def mark(connection: Connection, scope: str) -> str:
    """Return a text that differs after every change of a scope's servers, switches or rules."""
    # Programs that know no rules save settings without them under the first of the two.
    statement = """
        SELECT mark, (SELECT max(number) FROM shared_rules WHERE scope_key = ?)
        FROM server_marks WHERE key = ?
        """
    row = connection.execute(statement, [key_of(scope)] * 2).fetchone()
    return " ".join(str(part) for part in row or () if part is not None)


def marks(connection: Connection) -> dict[str, str]:
    """Return the marks of all scopes, by scope."""
    rows = connection.execute("SELECT scope, mark FROM server_marks")
    return {from_column(scope): mark for scope, mark in rows}


def _set_mark(connection: Connection, scope: str, *, is_changed: bool) -> None:
    if is_changed:
        _save_marks(connection, {scope: os.urandom(8).hex()})


def _save_marks(connection: Connection, marks: Mapping[str, str]) -> None:
    connection.executemany(
        """
        INSERT INTO server_marks (key, scope, mark) VALUES (?, ?, ?)
        ON CONFLICT (key) DO UPDATE SET mark = excluded.mark
        """,
        [(key_of(scope), to_column(scope), mark) for scope, mark in marks.items()],
    )


# A scope under another name


def is_empty(connection: Connection, scope: str) -> bool:
    """Return whether a scope has no decision; a loss is none."""
    statement = " UNION ALL ".join(
        f"SELECT 1 FROM {table.name} WHERE scope_key = ?"  # noqa: S608 - constants
        for table in _OF_SCOPES
    )
    keys = [key_of(scope)] * len(_OF_SCOPES)
    return connection.execute(f"{statement} LIMIT 1", keys).fetchone() is None


def scopes(connection: Connection) -> list[str]:
    """Return the scopes that have decisions, sorted by name."""
    statement = " UNION ".join(f"SELECT scope FROM {table.name}" for table in _OF_SCOPES)  # noqa: S608 - constants
    return sorted(from_column(scope) for (scope,) in connection.execute(statement))


def take_over(connection: Connection, newest: int, scope: str, earlier: str, at: float) -> int:
    """Move decisions from `earlier` to `scope`; return how many rows were written.

    One call moves the acceptances of 50 servers at most: repeat it until `earlier` is empty.
    Decisions under `scope` take precedence. For a tool with acceptances under both, only the
    definitions that both accept remain accepted. The empty scope gets a loss, so that programs
    which still use it accept nothing at first sight.
    """
    others = [record for table in _NAMED for record in _records(connection, table, scope)]
    names = {(type(record), _name_of(record)) for record in others}
    may_start = is_empty(connection, scope)  # else an approval may have been revoked there
    moved: list[Record] = [
        record
        for table in _NAMED
        for record in _records(connection, table, earlier)
        if (type(record), _name_of(record)) not in names
    ]
    if may_start:
        moved += _records(connection, APPROVALS, earlier)
    for table in (APPROVALS, *_NAMED):
        statement = f"DELETE FROM {table.name} WHERE scope_key = ?"  # noqa: S608 - a constant
        connection.execute(statement, (key_of(earlier),))
    statement = "SELECT DISTINCT server FROM acceptances WHERE scope_key = ? LIMIT ?"
    for (server,) in connection.execute(statement, (key_of(earlier), _SERVERS_AT_ONCE)).fetchall():
        moved += _merged(connection, scope, earlier, from_column(server))
    moved = [replace_fields(record, scope=scope) for record in moved]
    if (loss := lost_at(connection, earlier)) is not None:
        moved.append(LossRecord(scope, loss))
    if is_empty(connection, earlier):
        moved.append(LossRecord(earlier, at))
    save(connection, [replace_fields(r, number=n) for n, r in enumerate(moved, newest + 1)])
    _save_marks(connection, {name: os.urandom(8).hex() for name in (scope, earlier)})
    return len(moved)


def note_new_scope(connection: Connection, newest: int, scope: str, at: float) -> int:
    """Record a loss if a scope has no decision while others have some; return how many.

    The decisions of a renamed configuration are under its other name.
    """
    statement = "SELECT 1 FROM losses WHERE key = ?"
    is_noted = connection.execute(statement, (key_of(scope),)).fetchone() is not None
    if newest == 0 or is_noted or not is_empty(connection, scope):
        return 0
    return save_loss(connection, LossRecord(scope, at, number=newest + 1))


def _merged(
    connection: Connection, scope: str, earlier: str, server: str
) -> Iterator[AcceptanceRecord]:
    """Delete the acceptances of a server under both scopes; yield those that replace them."""
    by_tool: dict[str, list[list[AcceptanceRecord]]] = {}
    for position, name in enumerate((earlier, scope)):
        keys = (key_of(name, server),)
        statement = f"SELECT {ACCEPTANCES.columns} FROM acceptances WHERE server_key = ?"  # noqa: S608 - constants
        for row in connection.execute(f"{statement} ORDER BY number", keys).fetchall():
            record = ACCEPTANCES.record_of(row)
            by_tool.setdefault(record.tool, [[], []])[position].append(record)
        connection.execute("DELETE FROM acceptances WHERE server_key = ?", keys)
    for old, new in by_tool.values():
        meanings = {record.meaning for record in old}
        both = (
            [record for record in new if record.meaning in meanings] if old and new else old + new
        )
        # No definition has an empty digest: this record shows the earlier one and accepts nothing.
        yield from both or [replace_fields(old[-1], meaning="", fingerprint="")]


def _records(connection: Connection, table: DecisionTable, scope: str) -> list[Any]:
    statement = f"SELECT {table.columns} FROM {table.name} WHERE scope_key = ? ORDER BY number"  # noqa: S608 - constants
    return [table.record_of(row) for row in connection.execute(statement, (key_of(scope),))]


def _name_of(record: Record) -> object:
    return astuple(record)[1]


# All decisions


def save(connection: Connection, records: Collection[Record]) -> int:
    """Insert records, or replace those of the same key; return how many were passed."""
    for table in TABLES:
        rows = [table.row(record) for record in records if isinstance(record, table.record)]
        connection.executemany(_insert(table), rows)
    return len(records)


@cache
def _insert(table: DecisionTable) -> str:
    columns = table.columns
    marks = ", ".join("?" * (columns.count(",") + 1))
    changes = ", ".join(f"{name} = excluded.{name}" for name in (*table.replaced, "checksum"))
    conflict = f"UPDATE SET {changes}" if table.replaced else "NOTHING"
    return f"""
        INSERT INTO {table.name} ({columns}) VALUES ({marks}) ON CONFLICT (key) DO {conflict}
        """  # noqa: S608 - constants


def export(connection: Connection, after: int | None = None) -> DecisionExport:
    """Return all decisions; with `after`, only the acceptances with a higher number."""
    records = [
        table.record_of(row)
        for table in TABLES
        for row in stored_rows(connection, table, after if table is ACCEPTANCES else None)
    ]
    last = None if after is None else last_accepted(connection, after)
    return DecisionExport(newest(connection), tuple(records), marks(connection), after, last)


def stored_rows(
    connection: Connection, table: DecisionTable, after: int | None = None
) -> Iterator[Any]:
    """Yield the rows of a table, with the columns of `DecisionTable.columns`."""
    condition = "" if after is None else "WHERE number > ?"
    statement = f"SELECT {table.columns} FROM {table.name} {condition} ORDER BY number"  # noqa: S608 - constants
    values = () if after is None else (after,)
    yield from connection.rows(statement, values, at_once=_ROWS_AT_ONCE)


def last_accepted(connection: Connection, at_most: int) -> AcceptanceRecord | None:
    """Return the newest acceptance whose number is `at_most` or lower; None if there is none."""
    statement = f"""
        SELECT {ACCEPTANCES.columns} FROM acceptances WHERE number <= ?
        ORDER BY number DESC LIMIT 1
        """  # noqa: S608 - constants
    row = connection.execute(statement, (at_most,)).fetchone()
    return ACCEPTANCES.record_of(row) if row else None


def replace(
    connection: Connection, decisions: DecisionExport, kept: Collection[DecisionTable] = ()
) -> None:
    """Replace all decisions and the newest number; rows in the tables of `kept` stay."""
    locked_newest(connection)
    empty(connection, [table for table in TABLES if table not in kept])
    connection.execute("DELETE FROM server_marks")
    save(connection, decisions.records)
    _save_marks(connection, decisions.marks)
    set_newest(connection, decisions.number)


def empty(connection: Connection, tables: Iterable[DecisionTable]) -> None:
    for table in tables:
        connection.execute(f"DELETE FROM {table.name}")  # noqa: S608 - a constant
