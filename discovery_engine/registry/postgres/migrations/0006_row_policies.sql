-- usable from: 5
-- A database role may be restricted to what some teams and users see of a configuration. It has
-- rights to the columns of two tables below and to no other table: what is in these is a copy of
-- what it may see, and a policy keeps the rows apart.

-- For which teams and users a role stands; '' for none, so that it sees what is for all.
CREATE TABLE discovery.role_principals (
    role text NOT NULL,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    principal text NOT NULL,
    PRIMARY KEY (role, scope_key, principal)
);
CREATE INDEX role_principals_by_scope ON discovery.role_principals (scope_key);

-- The servers whose copy below is of what they listed last, under the present `visibleTo`. Without
-- a row there is no copy. Every write of a listing or of settings deletes rows, also one by a
-- program that does not know these tables, and only a program that does adds them again.
CREATE TABLE discovery.publications (
    server bigint PRIMARY KEY REFERENCES discovery.servers ON DELETE CASCADE
);

-- What a server lists for one audience: `visible_to` is a list of lists of teams and users, and
-- who sees the row stands for at least one of each list.
CREATE TABLE discovery.published_parts (
    server bigint NOT NULL REFERENCES discovery.publications ON DELETE CASCADE,
    scope_key bytea NOT NULL,
    visible_to jsonb NOT NULL CHECK (jsonb_typeof(visible_to) = 'array'),
    name text NOT NULL,
    part text NOT NULL,
    names text NOT NULL,
    upstream_names text NOT NULL,
    verdicts text NOT NULL,
    judged text NOT NULL,
    sources bytea NOT NULL,
    offerings text,
    mark bytea NOT NULL -- another one after each change of the row
);
CREATE INDEX published_parts_by_server ON discovery.published_parts (server);
CREATE INDEX published_parts_by_scope ON discovery.published_parts (scope_key);

CREATE FUNCTION discovery.withdraw_server() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM discovery.publications WHERE server = coalesce(NEW.server, OLD.server);
    RETURN NULL;
END
$$;
CREATE TRIGGER withdraw_server AFTER INSERT OR UPDATE OR DELETE ON discovery.listings
    FOR EACH ROW EXECUTE FUNCTION discovery.withdraw_server();

CREATE FUNCTION discovery.withdraw_servers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM discovery.publications USING discovery.servers
    WHERE servers.id = publications.server AND servers.scope = NEW.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER withdraw_servers AFTER UPDATE OF settings ON discovery.scopes
    FOR EACH ROW EXECUTE FUNCTION discovery.withdraw_servers();
-- They are on while any role is granted something; until then nothing is published, and the triggers
-- would take a tenth of a save.
ALTER TABLE discovery.listings DISABLE TRIGGER withdraw_server;
ALTER TABLE discovery.scopes DISABLE TRIGGER withdraw_servers;
REVOKE ALL ON FUNCTION discovery.withdraw_server(), discovery.withdraw_servers() FROM PUBLIC;

-- Roles that own no table see no row of any, unless a policy shows it. The owner of the tables is
-- not held to policies (no FORCE): its statements cost what they did, and `pg_dump` reads all.
DO $$
DECLARE
    named text;
BEGIN
    FOR named IN SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'discovery' LOOP
        EXECUTE format('ALTER TABLE discovery.%I ENABLE ROW LEVEL SECURITY', named);
    END LOOP;
END
$$;

CREATE POLICY all_roles ON discovery.schema_version FOR SELECT USING (true);

-- `current_user`, and what it is a member of: nothing that a client can set.
CREATE POLICY own_roles ON discovery.role_principals FOR SELECT USING (
    role IN (
        SELECT rolname::text FROM pg_catalog.pg_roles
        WHERE pg_catalog.pg_has_role(current_user, oid, 'USAGE')
    )
);

-- The rows of `role_principals` are those that the policy before shows.
CREATE POLICY own_principals ON discovery.published_parts FOR SELECT USING (
    EXISTS (
        SELECT FROM discovery.role_principals AS own
        WHERE own.scope_key = published_parts.scope_key
    )
    AND NOT EXISTS (
        SELECT FROM pg_catalog.jsonb_array_elements(visible_to) AS admitted
        WHERE NOT admitted OPERATOR(pg_catalog.?|) ARRAY(
            SELECT own.principal FROM discovery.role_principals AS own
            WHERE own.scope_key = published_parts.scope_key
        )
    )
);

-- Estimates of a plan are made of statistics of all rows, and a plan can be shown by any role.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT relname, attname FROM pg_catalog.pg_attribute
        JOIN pg_catalog.pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'discovery'::regnamespace AND attnum > 0
            AND relname IN ('role_principals', 'publications', 'published_parts')
            AND relkind = 'r'
    LOOP
        EXECUTE format(
            'ALTER TABLE discovery.%I ALTER COLUMN %I SET STATISTICS 0', kept.relname, kept.attname
        );
    END LOOP;
END
$$;
