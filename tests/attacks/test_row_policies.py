"""What a database role of one team can read of a registry in PostgreSQL, whatever it tries.

Here no gateway filters anything: all that is not shown is kept by the policies of the database. The
tables, columns, functions and sequences are those that the catalog of PostgreSQL has, so a new one
without a decision fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import errors, sql

from discovery_engine.catalog import DroppedTool, RemovedTool
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import RegistryError
from discovery_engine.fleet.refresh_job import RefreshTarget
from discovery_engine.registry.backends import open_database
from discovery_engine.registry.codec import settings_to_text
from discovery_engine.registry.postgres.restricted_roles import READABLE
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.model import ServerName
from tests.attacks.reserved_rows import (
    CANARY,
    OPEN,
    OTHER_TEAM,
    OWN_TEAM,
    PAYROLL,
    SCOPE,
    ReservedRows,
    Role,
    docs,
    filled,
    payroll,
    reserving,
)
from tests.factories import make_part, make_problem, make_server, make_settings
from tests.postgres import PostgresServer

OWNERS_ALONE = {
    "acceptances", "access_tokens", "agent_requests", "approvals", "decision_log", "eras",
    "kept_results", "leases", "listings", "losses", "presets", "publications", "refresh_jobs",
    "registered_servers", "relayed_requests", "scopes", "sealing_salt", "search_indexes",
    "search_servers", "search_spaces", "search_terms", "search_tools", "search_vector_servers",
    "search_vectors", "server_marks", "servers", "switches", "typical_requests", "uses",
    "vector_uses", "vectors", "webhook_deliveries", "webhooks",
}  # fmt: skip
"""Tables to which restricted roles have no right. Each is described in specs/teams.md."""


@pytest.fixture(scope="module")
def rows(postgres_server: PostgresServer) -> Iterator[ReservedRows]:
    with filled(postgres_server) as opened:
        opened.role(OWN_TEAM)
        yield opened


@pytest.fixture(scope="module")
def other(rows: ReservedRows) -> Iterator[psycopg.Connection]:
    """What a team may do for which nothing is reserved."""
    with rows.role(OTHER_TEAM).connect() as connection:
        yield connection


def relations(connection: psycopg.Connection, kinds: str) -> list[str]:
    query = """
        SELECT relname FROM pg_class WHERE relnamespace = 'discovery'::regnamespace
        AND relkind = ANY(%s) ORDER BY relname
        """
    return [name for (name,) in connection.execute(query, (list(kinds),))]


def columns(connection: psycopg.Connection, table: str) -> list[str]:
    """With those of the system."""
    query = """
        SELECT attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'discovery'::regnamespace AND relname = %s AND NOT attisdropped
        ORDER BY attnum
        """
    return [name for (name,) in connection.execute(query, (table,))]


@pytest.mark.requirement("SCP-23")
def test_every_table_has_a_decision_and_a_policy(rows: ReservedRows) -> None:
    with psycopg.connect(rows.url, autocommit=True) as owner:
        tables = relations(owner, "rpvmf")
        query = """
            SELECT relname FROM pg_class WHERE relnamespace = 'discovery'::regnamespace
            AND relkind IN ('r', 'p') AND NOT relrowsecurity
            """
        unprotected = [name for (name,) in owner.execute(query)]
        empty = [
            table
            for table in tables
            if not owner.execute(f"SELECT 1 FROM discovery.{table} LIMIT 1").fetchone()
        ]

    assert set(tables) == OWNERS_ALONE | READABLE.keys()
    assert unprotected == []
    assert empty == []  # else the tests below show nothing


@pytest.mark.requirement("SCP-22", "SCP-23")
def test_a_role_of_another_team_reads_nothing_reserved(
    rows: ReservedRows, other: psycopg.Connection
) -> None:
    readable, refusals = [], []
    for table in relations(other, "rpvmf"):
        for column in columns(other, table):
            query = sql.SQL("SELECT {}::text FROM discovery.{}")
            try:
                found = other.execute(query.format(sql.Identifier(column), sql.Identifier(table)))
            except errors.InsufficientPrivilege as error:
                refusals.append(str(error))
                continue
            readable.append((table, column))
            assert CANARY not in str(found.fetchall())
    seen = other.execute("SELECT sources, offerings FROM discovery.published_parts").fetchall()

    assert CANARY not in str(refusals)
    assert set(readable) == {(table, one) for table, some in READABLE.items() for one in some}
    assert OPEN in str(seen)
    assert len(seen) == 1
    with rows.role(OWN_TEAM).connect() as own:
        assert CANARY in str(own.execute("SELECT name FROM discovery.published_parts").fetchall())


@pytest.mark.requirement("SCP-23")
def test_nothing_of_the_system_reveals_what_is_reserved(
    rows: ReservedRows, other: psycopg.Connection
) -> None:
    with psycopg.connect(rows.url) as owner:
        owner.execute("ANALYZE discovery.listings, discovery.published_parts, discovery.servers")
        owner.commit()
        owner.execute("SELECT %s", (CANARY,))  # of a transaction that is open while others look
        looked = 0
        query = """
            SELECT nspname, relname FROM pg_class
            JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE nspname IN ('pg_catalog', 'information_schema') AND relkind IN ('r', 'v')
            """
        for schema, view in other.execute(query).fetchall():
            whole = sql.SQL("SELECT whole::text FROM {}.{} AS whole")
            try:
                found = other.execute(whole.format(*map(sql.Identifier, (schema, view))))
            except (errors.InsufficientPrivilege, errors.UndefinedFunction):
                continue
            text = "\n".join(line for (line,) in found if line)
            assert CANARY not in text, view
            looked += 1

    assert looked > 150


@pytest.mark.requirement("SCP-23")
def test_no_plan_and_no_error_depends_on_what_is_reserved(other: psycopg.Connection) -> None:
    plans, values = [], (f"payroll-{CANARY}", "not-there-at-all")
    for value in values:
        query = sql.SQL("EXPLAIN SELECT name FROM discovery.published_parts WHERE name = {}")
        plan = str(other.execute(query.format(sql.Literal(value))).fetchall())
        plans.append(plan.replace(value, ""))
    other.execute(
        "CREATE FUNCTION pg_temp.told(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 "
        "AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
    )
    told: list[str] = []
    other.add_notice_handler(lambda notice: told.append(str(notice.message_primary)))
    other.execute(
        "SELECT FROM discovery.published_parts "
        "WHERE pg_temp.told(name || convert_from(sources, 'UTF8') || part)"
    )
    with pytest.raises(psycopg.DataError) as raised:
        other.execute("SELECT FROM discovery.published_parts WHERE (name || part)::int = 1")

    assert plans[0] == plans[1]
    assert OPEN in str(told)
    assert CANARY not in str(told) + str(raised.value)


WRITES = (
    "INSERT INTO discovery.{} DEFAULT VALUES",
    "UPDATE discovery.{} SET {} = {}",
    "DELETE FROM discovery.{}",
    "TRUNCATE discovery.{} CASCADE",
    "LOCK TABLE discovery.{} IN ACCESS EXCLUSIVE MODE",
    "ALTER TABLE discovery.{} DISABLE ROW LEVEL SECURITY",
    "DROP TABLE discovery.{} CASCADE",
    "GRANT ALL ON discovery.{} TO CURRENT_USER",
    "CREATE POLICY mine ON discovery.{} USING (true)",
    "CREATE TRIGGER mine AFTER INSERT ON discovery.{} EXECUTE FUNCTION discovery.withdraw_server()",
    "SELECT FROM discovery.{} FOR UPDATE",
)


@pytest.mark.requirement("SCP-24")
def test_a_restricted_role_writes_nothing(rows: ReservedRows, other: psycopg.Connection) -> None:
    allowed, refusals = [], []
    for table in relations(other, "rpvmf"):
        column = sql.Identifier(columns(other, table)[-1])
        for write in WRITES:
            named = [sql.Identifier(table), column, column][: write.count("{}")]
            try:
                with other.transaction(force_rollback=True):
                    other.execute(sql.SQL(write).format(*named))
            except (errors.InsufficientPrivilege, errors.WrongObjectType) as error:
                refusals.append(str(error))
            else:
                allowed.append((table, write))
    for statement in (
        "CREATE TABLE discovery.mine (a int)",
        "CREATE FUNCTION discovery.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "DROP SCHEMA discovery CASCADE",
        f"SET ROLE {rows.owner.database.address.parameters['user']}",
        "SET SESSION AUTHORIZATION postgres",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            other.execute(statement)

    assert CANARY not in str(refusals)
    # It grants nothing: the role has no right that it could pass on.
    assert {write for _, write in allowed} <= {"GRANT ALL ON discovery.{} TO CURRENT_USER"}


@pytest.mark.requirement("SCP-23")
def test_sequences_and_functions_are_the_owners_alone(other: psycopg.Connection) -> None:
    sequences = relations(other, "S")
    for sequence in sequences:
        for query in ("SELECT last_value FROM discovery.{}", "SELECT nextval('discovery.{}')"):
            with pytest.raises(errors.InsufficientPrivilege):
                other.execute(query.format(sequence))
    query = "SELECT last_value FROM pg_sequences WHERE schemaname = 'discovery'"
    numbers = [number for (number,) in other.execute(query)]
    query = """
        SELECT proname FROM pg_proc WHERE pronamespace = 'discovery'::regnamespace
        AND has_function_privilege(oid, 'EXECUTE')
        """
    functions = other.execute(query).fetchall()

    assert len(sequences) > 5
    assert set(numbers) == {None}
    assert functions == []


@pytest.fixture
def fresh(postgres_server: PostgresServer) -> Iterator[ReservedRows]:
    """A database that the test may change."""
    with filled(postgres_server) as opened:
        yield opened


def seen(role: Role) -> set[str]:
    """The servers of which a role sees anything, and the names of all their tools."""
    with role.connect() as connection:
        query = "SELECT name, names FROM discovery.published_parts"
        found = connection.execute(query).fetchall()
    return {name for name, _ in found} | {
        word for _, names in found for word in names.split('"')[1::2]
    }


TOOL = f"read_{OPEN}"
ALL = {"docs", TOOL, PAYROLL, f"pay_{CANARY}", f"transfer_{CANARY}"}


@pytest.mark.requirement("SCP-22", "SCP-25")
def test_a_change_of_what_is_reserved_moves_rows_both_ways(fresh: ReservedRows) -> None:
    other, own = fresh.role(OTHER_TEAM), fresh.role(OWN_TEAM)
    both = fresh.role(OTHER_TEAM, OWN_TEAM)
    before = seen(other), seen(own), seen(both)
    free = make_settings(make_server(PAYROLL), "docs")
    fresh.owner.save_settings(SCOPE, free)
    opened = seen(other), seen(own)
    fresh.owner.save_settings(
        SCOPE, reserving(server_rules=(Rule(("*",), visible_to=(OWN_TEAM,)),))
    )
    closed = seen(other), seen(own)
    fresh.owner.save_settings(
        SCOPE, reserving(server_rules=(Rule(("*",), visible_to=(OTHER_TEAM,)),))
    )
    conjoined = seen(other), seen(own), seen(both)

    assert before == ({"docs", TOOL}, ALL, ALL)
    assert opened == (ALL, ALL)
    assert closed == (set(), ALL)
    assert conjoined == ({"docs", TOOL}, set(), ALL)


@pytest.mark.requirement("SCP-25")
def test_what_is_listed_anew_is_seen_at_once_by_those_whom_it_is_for(fresh: ReservedRows) -> None:
    other, own = fresh.role(OTHER_TEAM), fresh.role(OWN_TEAM)
    fresh.owner.save_parts(SCOPE, [make_part("docs", "pay_more", "read_more")], revision=2)
    listed = seen(other), seen(own)
    fresh.owner.forget(SCOPE, ["docs"])  # type: ignore[list-item]
    forgotten = seen(other), seen(own)
    fresh.owner.save_settings(SCOPE, make_settings("docs"))  # others may name the other one still
    dropped = seen(own)

    assert listed == (
        {"docs", "read_more"},
        ALL - {TOOL, f"pay_{CANARY}"} | {"read_more", "pay_more"},
    )
    assert forgotten == (set(), {PAYROLL, f"transfer_{CANARY}"})
    assert dropped == set()
    assert PAYROLL in [job.server for job in fresh.owner.refresh_jobs(SCOPE)]


@pytest.mark.requirement("SCP-25")
def test_a_program_that_does_not_know_roles_hides_what_it_writes(fresh: ReservedRows) -> None:
    own = fresh.role(OWN_TEAM)
    with psycopg.connect(fresh.url, autocommit=True) as older:
        older.execute(
            "UPDATE discovery.listings SET judged = judged FROM discovery.servers "
            "WHERE servers.id = server AND name = 'docs'"
        )
        listed = seen(own)
        text = settings_to_text(make_settings(make_server(PAYROLL, visible_to=("team:x",)), "docs"))
        older.execute("UPDATE discovery.scopes SET settings = %s", (text,))
        reserved = seen(own)
    fresh.owner.save_parts(SCOPE, [], revision=3)
    again = seen(own)

    assert listed == {PAYROLL, f"transfer_{CANARY}"}
    assert reserved == set()
    assert again == {"docs", TOOL, f"pay_{CANARY}"}


@pytest.mark.requirement("SCP-22")
def test_settings_that_cannot_be_read_publish_nothing(fresh: ReservedRows) -> None:
    own = fresh.role(OWN_TEAM)
    with psycopg.connect(fresh.url, autocommit=True) as newer:
        newer.execute("UPDATE discovery.scopes SET settings = %s", ('{"fromALaterVersion":1}',))
    fresh.owner.save_parts(SCOPE, [payroll(), docs()], revision=3)

    assert seen(own) == set()


@pytest.mark.requirement("SCP-22")
@pytest.mark.parametrize("entry", ["problem", "disabled", "never listed"])
def test_a_server_that_must_not_be_used_is_the_owners_alone(
    fresh: ReservedRows, entry: str
) -> None:
    own = fresh.role(OWN_TEAM)
    settings = make_settings("docs")
    part = make_part("docs", "read")
    if entry == "problem":
        problem = make_problem(Origin("discovery.yaml"), "servers.docs", "is wrong")
        settings = replace(settings, servers=(replace(settings.servers[0], problem=problem),))
    elif entry == "disabled":
        part = replace(part, verdict=Verdict(enabled=False, reason="server"))
    else:
        part = replace(part, listed_at=None)
    fresh.owner.save_settings(SCOPE, settings)
    fresh.owner.save_parts(SCOPE, [part], revision=3)

    assert seen(own) == set()


@pytest.mark.requirement("SCP-22")
@pytest.mark.parametrize("how", ["removed", "dropped"])
def test_instructions_that_name_a_tool_that_is_gone_are_the_owners_alone(
    fresh: ReservedRows, how: str
) -> None:
    role = fresh.role(OTHER_TEAM)
    name = f"pay_{CANARY}"
    gone = RemovedTool(name, 1.0) if how == "removed" else DroppedTool(name, "is broken")
    part = make_part("docs", "read_page", instructions=f"Call {name}.", **{how: (gone,)})
    fresh.owner.save_parts(SCOPE, [part], revision=3)
    with role.connect() as connection:
        found = connection.execute("SELECT part, names FROM discovery.published_parts").fetchall()

    assert "read_page" in str(found)
    assert CANARY not in str(found)


@pytest.mark.requirement("SCP-26")
def test_a_role_stands_for_what_its_owner_granted_and_for_no_more(fresh: ReservedRows) -> None:
    roles = fresh.owner.roles
    role, group, stranger = fresh.role(OWN_TEAM), fresh.role(OWN_TEAM), fresh.stranger()
    elsewhere = fresh.role(OWN_TEAM, scope="name:elsewhere")
    with fresh.server.admin() as admin:
        admin.execute(f"GRANT {group.name} TO {stranger.name}")
    member = seen(stranger)
    with stranger.connect() as connection:
        connection.execute(f"SET ROLE {group.name}")
        query = "SELECT count(*) FROM discovery.published_parts"
        as_group = connection.execute(query).fetchone()
    roles.grant(role.name, SCOPE, (OTHER_TEAM,))
    changed = seen(role)
    listed = {one.role: one.principals for one in roles.grants() if one.scope == SCOPE}

    assert member == ALL
    assert as_group == (3,)
    assert changed == {"docs", TOOL}
    assert seen(elsewhere) == set()
    assert listed == {role.name: (OTHER_TEAM,), group.name: (OWN_TEAM,)}
    assert roles.revoke(role.name, SCOPE)
    assert not roles.revoke(role.name, SCOPE)
    with role.connect() as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute("SELECT name FROM discovery.published_parts")


@pytest.mark.requirement("SCP-26")
def test_the_grant_of_a_role_that_was_dropped_can_be_revoked(fresh: ReservedRows) -> None:
    role, roles = fresh.stranger(), fresh.owner.roles
    roles.grant(role.name, SCOPE, (OTHER_TEAM,))
    with fresh.server.admin(fresh.url.rpartition("/")[2]) as admin:
        admin.execute(f"DROP OWNED BY {role.name}")
        admin.execute(f"DROP ROLE {role.name}")

    assert roles.revoke(role.name, SCOPE)
    assert role.name not in {one.role for one in roles.grants()}


@pytest.mark.requirement("SCP-26")
def test_a_role_from_which_nothing_can_be_kept_is_refused(fresh: ReservedRows) -> None:
    indirect = fresh.stranger("NOINHERIT IN ROLE gateway")
    reasons = {"nothere": "no role", "postgres": "is a superuser", "gateway": "owns the tables"}
    for right in ("BYPASSRLS", "CREATEROLE", "REPLICATION"):
        mighty = fresh.stranger(right)
        reasons[mighty.name] = f"it has {right}"
        reasons[fresh.stranger(f"IN ROLE {mighty.name}").name] = f"is a member of {mighty.name}"
    for role in ("gateway", *predefined_roles(fresh)):
        reasons[fresh.stranger(f"IN ROLE {role}").name] = f"is a member of {role}"
    reasons[fresh.stranger(f"IN ROLE {indirect.name}").name] = "is a member of gateway"
    for name, reason in reasons.items():
        with pytest.raises(RegistryError, match=reason) as raised:
            fresh.owner.roles.grant(name, SCOPE, ())
        assert raised.value.hint


def predefined_roles(rows: ReservedRows) -> list[str]:
    """Those that can be given to others."""
    query = """
        SELECT rolname FROM pg_roles
        WHERE rolname LIKE 'pg\\_%' AND rolname <> 'pg_database_owner' ORDER BY rolname
        """
    with rows.server.admin() as admin:
        found = [name for (name,) in admin.execute(query)]
    assert "pg_execute_server_program" in found
    return found


@pytest.mark.requirement("SCP-26")
def test_a_granted_role_from_which_nothing_is_kept_any_more_is_noticed(
    fresh: ReservedRows,
) -> None:
    kept, member, changed = (fresh.role(OTHER_TEAM) for _ in range(3))
    assert fresh.owner.roles.unrestricted() == {}
    with fresh.server.admin() as admin:
        admin.execute(f"GRANT gateway TO {member.name}")
        admin.execute(f"ALTER ROLE {changed.name} BYPASSRLS")

    assert fresh.owner.roles.unrestricted() == {
        changed.name: "it has BYPASSRLS", member.name: "it is a member of gateway",
    }  # fmt: skip
    advice = " ".join(fresh.owner.state().advice)
    assert f"nothing is kept from the role {member.name!r}" in advice
    assert kept.name not in advice


@pytest.mark.requirement("SCP-24")
def test_a_role_has_no_right_but_those_of_the_grant(fresh: ReservedRows) -> None:
    role = fresh.stranger()
    with psycopg.connect(fresh.url, autocommit=True) as owner:
        owner.execute(f"GRANT ALL ON SCHEMA discovery TO {role.name}")
        owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA discovery TO {role.name}")
        with role.connect() as connection:  # even with all rights it sees no row
            found = connection.execute("SELECT name FROM discovery.servers").fetchall()
    fresh.owner.roles.grant(role.name, SCOPE, (OTHER_TEAM,))

    assert found == []
    assert seen(role) == {"docs", TOOL}
    with role.connect() as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute("TRUNCATE discovery.uses")


@pytest.mark.requirement("SCP-24")
def test_nothing_that_a_role_makes_elsewhere_runs_with_the_rights_of_the_owner(
    fresh: ReservedRows,
) -> None:
    role = fresh.role(OTHER_TEAM)
    with fresh.server.admin(fresh.url.rpartition("/")[2]) as admin:
        # As in each database that was made by PostgreSQL 14 or older.
        admin.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    with role.connect() as connection:
        # It fits better than the function of the system, which takes arrays of any type.
        connection.execute(
            "CREATE FUNCTION public.unnest(bytea[]) RETURNS SETOF bytea LANGUAGE plpgsql AS $$ "
            f"BEGIN GRANT ALL ON SCHEMA discovery TO {role.name}; "
            f"GRANT ALL ON discovery.access_tokens TO {role.name}; "
            f"CREATE POLICY mine ON discovery.access_tokens TO {role.name} USING (true); "
            "RETURN QUERY SELECT pg_catalog.unnest($1); END $$"
        )
    index = fresh.owner.search.stored_index(SCOPE, CANARY.encode(), since=0)
    assert index
    fresh.owner.search.save_documents(index.number, [], unlisted=[ServerName("docs")])

    with role.connect() as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute("SELECT * FROM discovery.access_tokens")


@pytest.mark.requirement("SCP-24")
def test_a_restricted_role_holds_up_no_plan_of_refreshes(fresh: ReservedRows) -> None:
    with fresh.role(OTHER_TEAM).connect() as connection:
        # All locks that can be made of what it can read, for as long as it likes.
        connection.execute(
            "SELECT pg_advisory_lock(('x' || left(encode(scope_key, 'hex'), 16))::bit(64)::int8) "
            "FROM discovery.role_principals"
        )
        with closing(open_database(fresh.url, timeout=5.0)) as owner:
            owner.plan_refreshes(SCOPE, [RefreshTarget(ServerName("docs"), "any")])
            planned = {job.server for job in owner.refresh_jobs(SCOPE)}

    assert "docs" in planned


@pytest.mark.requirement("SCP-27")
def test_a_restricted_role_that_would_have_to_update_the_tables_says_who_can(
    fresh: ReservedRows,
) -> None:
    role = fresh.role(OTHER_TEAM)
    with psycopg.connect(fresh.url, autocommit=True) as owner:
        owner.execute("UPDATE discovery.schema_version SET version = version - 1")
    with closing(open_database(role.url)) as registry, pytest.raises(RegistryError) as raised:
        registry.load(SCOPE)

    assert "which its role may not make" in raised.value.message
    assert "discovery registry migrate" in str(raised.value.hint)


@pytest.mark.requirement("SCP-23")
def test_notifications_say_nothing(fresh: ReservedRows) -> None:
    role = fresh.role(OTHER_TEAM)
    with role.connect() as listener:
        for channel in ("discovery", CANARY, PAYROLL):
            listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        fresh.owner.save_parts(SCOPE, [payroll()], revision=3)
        fresh.owner.set_switches(SCOPE, {PAYROLL: False}, at=3.0)
        found = list(listener.notifies(timeout=60.0, stop_after=2))

    assert {(one.channel, one.payload) for one in found} == {("discovery", "")}


def triggers(connection: psycopg.Connection) -> set[str]:
    """Whether those that withdraw are on, as the database has it."""
    query = "SELECT tgenabled::text FROM pg_trigger WHERE tgname LIKE 'withdraw%'"
    return {state for (state,) in connection.execute(query)}


@pytest.mark.requirement("SCP-29")
def test_the_owner_is_held_to_no_policy_and_publishes_for_roles_alone(
    postgres_server: PostgresServer,
) -> None:
    published = "SELECT count(*) FROM discovery.publications"
    with filled(postgres_server) as rows, psycopg.connect(rows.url, autocommit=True) as owner:
        without = owner.execute(published).fetchone()
        plans = [
            str(owner.execute(f"EXPLAIN SELECT * FROM discovery.{table}").fetchall())
            for table in relations(owner, "r")
        ]
        role = rows.role(OTHER_TEAM)
        granted = owner.execute(published).fetchone()
        enabled = triggers(owner)
        rows.owner.roles.revoke(role.name, SCOPE)
        revoked = owner.execute(published).fetchone()
        disabled = triggers(owner)

    assert (enabled, disabled) == ({"O"}, {"D"})
    assert (without, granted, revoked) == ((0,), (2,), (0,))
    assert not [plan for plan in plans if "Filter" in plan or "SubPlan" in plan]
