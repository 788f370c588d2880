"""What the database saw of a fleet: every step of a job and every write of a worker, by triggers.

The triggers are of the superuser and none of the program's code runs in them, so that they judge a
worker from outside: each write is kept with the name of the connection that made it, and with who
held the server at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import psycopg

from tests.postgres import ROLE, PostgresServer

_TRIGGERS = """
CREATE SCHEMA audit;
CREATE SEQUENCE audit.turns;
CREATE TABLE audit.steps (
    turn bigint DEFAULT nextval('audit.turns'), at float8, writer text, server text,
    old_state text, new_state text, old_fence bigint, new_fence bigint,
    old_lease float8, new_lease float8, due_at float8, is_settled boolean
);
CREATE TABLE audit.writes (
    turn bigint DEFAULT nextval('audit.turns'), at float8, writer text, server text, what text,
    state text, fence bigint
);
CREATE FUNCTION audit.now() RETURNS float8 LANGUAGE sql
    AS $$ SELECT extract(epoch FROM clock_timestamp())::float8 $$;
CREATE FUNCTION audit.step() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO audit.steps VALUES (
        DEFAULT, audit.now(), current_setting('application_name'),
        coalesce(NEW.server, OLD.server), OLD.state, NEW.state, OLD.fence, NEW.fence,
        OLD.lease_until, NEW.lease_until, NEW.due_at,
        NEW.state IN ('enabled', 'error', 'dead') AND
        (OLD.state, OLD.listed_at, OLD.tool_count, OLD.error_code, OLD.error_message)
        IS DISTINCT FROM
        (NEW.state, NEW.listed_at, NEW.tool_count, NEW.error_code, NEW.error_message)
    );
    RETURN NULL;
END $$;
CREATE FUNCTION audit.write() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    named text;
BEGIN
    IF TG_TABLE_NAME = 'listings' THEN
        SELECT name INTO named FROM discovery.servers WHERE id = NEW.server;
    ELSE
        named := NEW.server;
    END IF;
    INSERT INTO audit.writes
    SELECT nextval('audit.turns'), audit.now(), current_setting('application_name'), named,
        TG_TABLE_NAME, job.state, job.fence
    FROM (SELECT 1) AS one LEFT JOIN discovery.refresh_jobs AS job ON job.server = named;
    RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON discovery.refresh_jobs
    FOR EACH ROW EXECUTE FUNCTION audit.step();
CREATE TRIGGER audit AFTER INSERT OR UPDATE ON discovery.listings
    FOR EACH ROW EXECUTE FUNCTION audit.write();
CREATE TRIGGER audit AFTER INSERT ON discovery.acceptances
    FOR EACH ROW EXECUTE FUNCTION audit.write();
"""


class Step(NamedTuple):
    """A change of a job; the old values are None where it is new, the new ones where it is gone."""

    turn: int
    at: float
    """Unix time of the database, as all times here."""
    writer: str
    server: str
    old_state: str | None
    new_state: str | None
    old_fence: int | None
    new_fence: int | None
    old_lease: float | None
    new_lease: float | None
    due_at: float | None
    is_settled: bool
    """Whether it has another result than before."""

    @property
    def is_claim(self) -> bool:
        return self.new_state == "processing" and self.new_fence != self.old_fence


class Write(NamedTuple):
    """Something that a worker or a gateway wrote about a server."""

    turn: int
    at: float
    writer: str
    server: str
    what: str
    state: str | None
    """The job's state at that moment, in the eyes of the writer's transaction."""
    fence: int | None


class Audit:
    """Of one database; made by `install` when its tables are there."""

    def __init__(self, server: PostgresServer, database: str) -> None:
        self._server = server
        self._database = database

    def install(self) -> None:
        with self._admin() as admin:
            admin.execute(_TRIGGERS)
            admin.execute(f"GRANT USAGE ON SCHEMA audit TO {ROLE}")

    def steps(self) -> list[Step]:
        with self._admin() as admin:
            return [Step(*row) for row in admin.execute("SELECT * FROM audit.steps ORDER BY turn")]

    def writes(self) -> list[Write]:
        with self._admin() as admin:
            rows = admin.execute("SELECT * FROM audit.writes ORDER BY turn")
            return [Write(*row) for row in rows]

    def now(self) -> float:
        """Unix time in seconds by the database's clock."""
        with self._admin() as admin:
            return float(admin.execute("SELECT audit.now()").fetchall()[0][0])

    def results(self) -> int:
        """How many results there were so far."""
        query = """
            SELECT count(*) FROM audit.steps
            WHERE old_state = 'processing' AND new_state IN ('enabled', 'error', 'dead')
            """
        with self._admin() as admin:
            return int(admin.execute(query).fetchall()[0][0])

    def _admin(self) -> psycopg.Connection:
        return self._server.admin(self._database)


def fenced_writes(steps: Sequence[Step], writes: Iterable[Write]) -> list[Step | Write]:
    """What workers wrote about servers that they did not hold: there must be none."""
    claims = {(one.server, one.new_fence): one.writer for one in steps if one.is_claim}
    wrong: list[Step | Write] = [
        one
        for one in writes
        if one.writer.startswith("worker")
        # After its claim has failed, its holder notes that the server cannot be listed.
        and (
            one.state not in ("processing", "error", "dead")
            or claims.get((one.server, one.fence)) != one.writer
        )
    ]
    wrong += [
        one
        for one in steps
        if one.writer.startswith("worker")
        and one.is_settled
        and (one.old_state != "processing" or claims.get((one.server, one.old_fence)) != one.writer)
        and not _is_lost(one)
    ]
    return wrong


def early_claims(steps: Iterable[Step]) -> list[Step]:
    """Claims of servers whose holder had time left: there must be none."""
    return [
        one
        for one in steps
        if one.is_claim and one.old_state == "processing" and one.at < (one.old_lease or 0.0)
    ]


def lost_claims(steps: Sequence[Step]) -> int:
    """Claims that ended because another worker claimed the same server."""
    return sum(one.is_claim and one.old_state == "processing" for one in steps)


def delays(steps: Iterable[Step]) -> list[tuple[str, float, float]]:
    """For each claim the server, when a worker could first make it, and when one did."""
    claimable: dict[str, float] = {}
    found = []
    for one in steps:
        if one.is_claim and one.server in claimable:
            found.append((one.server, claimable[one.server], one.at))
        if one.new_state == "processing" and one.new_lease is not None:
            claimable[one.server] = one.new_lease
        elif one.new_state in ("pending", "enabled", "error") and one.due_at is not None:
            # What is made due now was not before; a claim that was given back is due at once.
            claimable[one.server] = max(one.due_at, one.at)
        else:
            claimable.pop(one.server, None)
    return found


def _is_lost(step: Step) -> bool:
    """Whoever claims finds a server with which too many workers were lost, and gives it up."""
    return step.new_state == "dead" and step.at >= (step.old_lease or 0.0)
