CREATE SCHEMA discovery;
CREATE FUNCTION discovery.withdraw_server() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM discovery.publications WHERE server = coalesce(NEW.server, OLD.server);
    RETURN NULL;
END
$$;
CREATE FUNCTION discovery.withdraw_servers() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM discovery.publications USING discovery.servers
    WHERE servers.id = publications.server AND servers.scope = NEW.id;
    RETURN NULL;
END
$$;
CREATE TABLE discovery.acceptances (
    key bytea NOT NULL,
    number bigint NOT NULL,
    scope text NOT NULL,
    server text NOT NULL,
    tool text NOT NULL,
    meaning text NOT NULL,
    fingerprint text NOT NULL,
    definition text NOT NULL,
    at double precision NOT NULL,
    scope_key bytea NOT NULL,
    server_key bytea NOT NULL
);
CREATE TABLE discovery.access_tokens (
    id bigint NOT NULL,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    token text NOT NULL
);
ALTER TABLE discovery.access_tokens ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.access_tokens_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.agent_requests (
    number bigint NOT NULL,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    id text NOT NULL,
    request text NOT NULL
);
ALTER TABLE discovery.agent_requests ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.agent_requests_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.approvals (
    key bytea NOT NULL,
    number bigint NOT NULL,
    scope text NOT NULL,
    server text NOT NULL,
    identity text NOT NULL,
    at double precision NOT NULL,
    scope_key bytea NOT NULL,
    server_key bytea NOT NULL
);
CREATE TABLE discovery.decision_log (
    id integer NOT NULL,
    number bigint NOT NULL,
    CONSTRAINT decision_log_id_check CHECK ((id = 1))
);
CREATE TABLE discovery.eras (
    id bigint NOT NULL,
    connection text NOT NULL,
    era text NOT NULL
);
ALTER TABLE discovery.eras ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.eras_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.kept_results (
    key bytea NOT NULL,
    kept_until double precision NOT NULL,
    result bytea NOT NULL
);
ALTER TABLE ONLY discovery.kept_results ALTER COLUMN result SET STORAGE EXTERNAL;
CREATE TABLE discovery.leases (
    key bytea NOT NULL,
    name text NOT NULL,
    holder text NOT NULL,
    fence bigint NOT NULL,
    renewals bigint NOT NULL
);
CREATE TABLE discovery.listings (
    server bigint NOT NULL,
    names text NOT NULL,
    upstream_names text NOT NULL,
    verdicts text NOT NULL,
    judged text NOT NULL,
    sources bytea NOT NULL,
    digest bytea,
    offerings text
);
CREATE TABLE discovery.losses (
    key bytea NOT NULL,
    scope text NOT NULL,
    at double precision NOT NULL,
    acknowledged double precision
);
CREATE TABLE discovery.presets (
    key bytea NOT NULL,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    server text NOT NULL,
    tool text NOT NULL,
    name text NOT NULL,
    arguments text NOT NULL,
    updated_at double precision NOT NULL
);
CREATE TABLE discovery.publications (
    server bigint NOT NULL
);
ALTER TABLE ONLY discovery.publications ALTER COLUMN server SET STATISTICS 0;
CREATE TABLE discovery.published_parts (
    server bigint NOT NULL,
    scope_key bytea NOT NULL,
    visible_to jsonb NOT NULL,
    name text NOT NULL,
    part text NOT NULL,
    names text NOT NULL,
    upstream_names text NOT NULL,
    verdicts text NOT NULL,
    judged text NOT NULL,
    sources bytea NOT NULL,
    offerings text,
    mark bytea NOT NULL,
    CONSTRAINT published_parts_visible_to_check CHECK ((jsonb_typeof(visible_to) = 'array'::text))
);
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN server SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN scope_key SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN visible_to SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN name SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN part SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN names SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN upstream_names SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN verdicts SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN judged SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN sources SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN offerings SET STATISTICS 0;
ALTER TABLE ONLY discovery.published_parts ALTER COLUMN mark SET STATISTICS 0;
CREATE SEQUENCE discovery.refresh_fences
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE discovery.refresh_jobs (
    key bytea NOT NULL,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    server text NOT NULL,
    created_at double precision NOT NULL,
    due_at double precision NOT NULL,
    state text NOT NULL,
    priority integer NOT NULL,
    attempts integer NOT NULL,
    holder text NOT NULL,
    fence bigint NOT NULL,
    claimed_at double precision,
    lease_until double precision,
    listed_at double precision,
    tool_count integer,
    error_code text NOT NULL,
    error_message text NOT NULL,
    connection text NOT NULL,
    claimable_at double precision,
    failing_since double precision,
    losses integer DEFAULT 0 NOT NULL,
    named_until double precision
);
CREATE TABLE discovery.registered_servers (
    key bytea NOT NULL,
    number bigint NOT NULL,
    scope text NOT NULL,
    name text NOT NULL,
    content text NOT NULL,
    scope_key bytea NOT NULL
);
CREATE TABLE discovery.relayed_requests (
    id bytea NOT NULL,
    sender text NOT NULL,
    receiver text NOT NULL,
    take_until double precision NOT NULL,
    wanted_until double precision NOT NULL,
    served_until double precision,
    request bytea NOT NULL,
    answer bytea
);
ALTER TABLE ONLY discovery.relayed_requests ALTER COLUMN request SET STORAGE EXTERNAL;
ALTER TABLE ONLY discovery.relayed_requests ALTER COLUMN answer SET STORAGE EXTERNAL;
CREATE TABLE discovery.role_principals (
    role text NOT NULL,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    principal text NOT NULL
);
ALTER TABLE ONLY discovery.role_principals ALTER COLUMN role SET STATISTICS 0;
ALTER TABLE ONLY discovery.role_principals ALTER COLUMN scope_key SET STATISTICS 0;
ALTER TABLE ONLY discovery.role_principals ALTER COLUMN scope SET STATISTICS 0;
ALTER TABLE ONLY discovery.role_principals ALTER COLUMN principal SET STATISTICS 0;
CREATE SEQUENCE discovery.saves
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE discovery.schema_version (
    version integer NOT NULL,
    usable_from integer NOT NULL
);
CREATE TABLE discovery.scopes (
    id bigint NOT NULL,
    key bytea NOT NULL,
    name text NOT NULL,
    settings text NOT NULL,
    revision bigint DEFAULT 0 NOT NULL,
    saved bigint NOT NULL,
    decided text
);
ALTER TABLE discovery.scopes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.scopes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.sealing_salt (
    salt bytea NOT NULL
);
CREATE TABLE discovery.search_indexes (
    id bigint NOT NULL,
    scope bigint NOT NULL,
    recipe bytea NOT NULL,
    revision bigint DEFAULT 0 NOT NULL,
    used_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE discovery.search_indexes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.search_indexes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.search_servers (
    id bigint NOT NULL,
    search_index bigint NOT NULL,
    key bytea NOT NULL,
    name text NOT NULL,
    made_of bytea NOT NULL,
    content bytea NOT NULL,
    revision bigint NOT NULL,
    ended_at timestamp with time zone
);
ALTER TABLE discovery.search_servers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.search_servers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.search_spaces (
    id integer NOT NULL,
    search_index bigint NOT NULL,
    key bytea NOT NULL,
    model text NOT NULL,
    dimensions integer NOT NULL,
    used_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
ALTER TABLE discovery.search_spaces ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.search_spaces_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.search_terms (
    search_index bigint NOT NULL,
    key bigint NOT NULL,
    term text NOT NULL,
    count bigint NOT NULL,
    revision bigint NOT NULL
);
CREATE TABLE discovery.search_tools (
    server bigint NOT NULL,
    "position" integer NOT NULL,
    profile integer NOT NULL,
    terms bigint[] NOT NULL,
    impacts bytea NOT NULL
);
CREATE TABLE discovery.search_vector_servers (
    space integer NOT NULL,
    server bigint NOT NULL
);
CREATE TABLE discovery.server_marks (
    key bytea NOT NULL,
    scope text NOT NULL,
    mark text NOT NULL
);
CREATE TABLE discovery.servers (
    id bigint NOT NULL,
    scope bigint NOT NULL,
    key bytea NOT NULL,
    name text NOT NULL,
    part text,
    saved bigint DEFAULT 0 NOT NULL,
    told_failing_at double precision,
    told_well_at double precision
);
ALTER TABLE discovery.servers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.servers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.switches (
    key bytea NOT NULL,
    scope text NOT NULL,
    server text NOT NULL,
    is_wanted boolean NOT NULL,
    at double precision NOT NULL,
    scope_key bytea NOT NULL
);
CREATE TABLE discovery.typical_requests (
    id bigint NOT NULL,
    key bytea NOT NULL,
    tool_key bytea NOT NULL,
    server text NOT NULL,
    tool text NOT NULL,
    fingerprint text NOT NULL,
    requests text NOT NULL,
    model text NOT NULL,
    instructions bigint NOT NULL,
    at double precision NOT NULL
);
ALTER TABLE discovery.typical_requests ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.typical_requests_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.uses (
    server bigint NOT NULL,
    key bytea NOT NULL,
    tool text NOT NULL,
    count double precision NOT NULL,
    at double precision NOT NULL
);
CREATE TABLE discovery.vector_uses (
    scope bigint NOT NULL,
    vector bigint NOT NULL,
    period bigint DEFAULT floor((EXTRACT(epoch FROM now()) / (2592000)::numeric)) NOT NULL
);
CREATE TABLE discovery.vectors (
    id bigint NOT NULL,
    key bytea NOT NULL,
    model text NOT NULL,
    digest bytea NOT NULL,
    data bytea NOT NULL
);
ALTER TABLE discovery.vectors ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.vectors_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.webhook_deliveries (
    id bigint NOT NULL,
    webhook bigint NOT NULL,
    event_id text NOT NULL,
    event_type text NOT NULL,
    body text NOT NULL,
    stored_at double precision NOT NULL,
    tried_since double precision NOT NULL,
    due_at double precision,
    attempts integer DEFAULT 0 NOT NULL,
    fence bigint DEFAULT 0 NOT NULL
);
ALTER TABLE discovery.webhook_deliveries ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.webhook_deliveries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE discovery.webhooks (
    id bigint NOT NULL,
    key bytea NOT NULL,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    name text NOT NULL,
    definition text NOT NULL,
    address text NOT NULL,
    left_at double precision,
    disabled_at double precision,
    delivered bigint DEFAULT 0 NOT NULL,
    dropped bigint DEFAULT 0 NOT NULL,
    delivered_at double precision,
    failed_at double precision,
    failure text DEFAULT ''::text NOT NULL
);
ALTER TABLE discovery.webhooks ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME discovery.webhooks_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO discovery.acceptances VALUES ('\xfe0b7c225333b609df03785886365b98', 3, 'name:fleet', 'a', 'one', '2', 'f', '{}', 2, '\x870ce70743df6c74f502dc8e2a6b8b59', '\x09261a582c62a7f074b8b3dea445e600');
INSERT INTO discovery.acceptances VALUES ('\xab1499c7310a965ba04ee70f2ac262f8', 4, 'name:fleet', 'a', 'one', '1', 'f', '{}', 2, '\x870ce70743df6c74f502dc8e2a6b8b59', '\x09261a582c62a7f074b8b3dea445e600');
INSERT INTO discovery.access_tokens OVERRIDING SYSTEM VALUE VALUES (1, '\x870ce70743df6c74f502dc8e2a6b8b59', 'name:fleet', '{"version":1,"tokens":[{"id":"1","digest":"d","created_at":1}]}');
INSERT INTO discovery.approvals VALUES ('\x7ddcc625a661f2b759f4a18b06568fa7', 1, 'name:fleet', 'a', '1', 1, '\x870ce70743df6c74f502dc8e2a6b8b59', '\x09261a582c62a7f074b8b3dea445e600');
INSERT INTO discovery.decision_log VALUES (1, 6);
INSERT INTO discovery.kept_results VALUES ('\x61', 1, '\x62');
INSERT INTO discovery.listings VALUES (1, '["one", "two"]', '["one", "two"]', '{}', '[[0, 2]]', '\x7b226465736372697074696f6e223a22446f6573206f6e65207468696e67222c22696e707574536368656d61223a7b2270726f70657274696573223a7b7d2c2274797065223a226f626a656374227d2c226e616d65223a226f6e65227d0a7b226465736372697074696f6e223a22222c22696e707574536368656d61223a7b2270726f70657274696573223a7b7d2c2274797065223a226f626a656374227d2c226e616d65223a2274776f227d', '\x796f8c68ca3316613cce7cade0591b2f3d616b7bb310112c5444ad7a3aefb78d', NULL);
INSERT INTO discovery.presets VALUES ('\xfad565ef5dfe6b843a47eece317059b6', '\x870ce70743df6c74f502dc8e2a6b8b59', 'name:fleet', 'a', 'one', 'usual', '{"a": 1}', 6);
INSERT INTO discovery.refresh_jobs VALUES ('\x3af11ce5d70452cd52b4f40c84e190e2', '\x870ce70743df6c74f502dc8e2a6b8b59', 'name:fleet', 'b', 1795858488.706369, 1795858488.706369, 'pending', 0, 0, '', 0, NULL, NULL, NULL, NULL, '', '', '', 1795858488.706369, NULL, 0, 1795867488.706369);
INSERT INTO discovery.refresh_jobs VALUES ('\x09261a582c62a7f074b8b3dea445e600', '\x870ce70743df6c74f502dc8e2a6b8b59', 'name:fleet', 'a', 1795858488.706369, 1795858488.706369, 'processing', 0, 1, 'w', 1, 1795858488.723451, 1795858488.723451, NULL, NULL, '', '', '', 1795858488.723451, NULL, 0, NULL);
INSERT INTO discovery.registered_servers VALUES ('\x1574fe193725966a0ce1bb29de96edaf', 5, 'name:fleet', 'r', '{"name":"r","entry":{"url":"https://a.example"}}', '\x870ce70743df6c74f502dc8e2a6b8b59');
INSERT INTO discovery.relayed_requests VALUES ('\x61', 'here', 'there', 1, 1, 1, '\x62', '\x63');
INSERT INTO discovery.schema_version VALUES (12, 11);
INSERT INTO discovery.scopes OVERRIDING SYSTEM VALUE VALUES (1, '\x870ce70743df6c74f502dc8e2a6b8b59', 'name:fleet', '{"servers":[{"name":"a"},{"name":"b"}]}', 3, 2, NULL);
INSERT INTO discovery.sealing_salt VALUES ('\xab858521acaf1754d2f4353127490680c0463bb0598037b2042f6edadb911381');
INSERT INTO discovery.server_marks VALUES ('\x870ce70743df6c74f502dc8e2a6b8b59', 'name:fleet', 'e451689b42e1dfb7');
INSERT INTO discovery.servers OVERRIDING SYSTEM VALUE VALUES (2, 1, '\xabbbdc37b9e60bd4a4185a8af77deb12', 'b', NULL, 0, NULL, NULL);
INSERT INTO discovery.servers OVERRIDING SYSTEM VALUE VALUES (1, 1, '\xe4e97ca07ff48bfd2f4a4fef6d3b0f0f', 'a', '{"server":"a","listed_at":1000.0}', 2, NULL, NULL);
INSERT INTO discovery.switches VALUES ('\x3af11ce5d70452cd52b4f40c84e190e2', 'name:fleet', 'b', false, 4, '\x870ce70743df6c74f502dc8e2a6b8b59');
INSERT INTO discovery.typical_requests OVERRIDING SYSTEM VALUE VALUES (1, '\xb2a6361f71924db5b81d969e39c827df', '\x75f21581e4fad0b0b0886b3422e78cb6', 'a', 'one', 'f', '["do it"]', 'm', 1, 5);
INSERT INTO discovery.uses VALUES (1, '\x9f53f347331267e2f8dca6d9354522d9', 'one', 1, 9);
INSERT INTO discovery.vector_uses VALUES (1, 1, 681);
INSERT INTO discovery.vectors OVERRIDING SYSTEM VALUE VALUES (1, '\x0005918363941e513f6d7cf8362ad030', 'hash:64', '\x3131313131313131313131313131313131313131313131313131313131313131', '\x61626364');
SELECT pg_catalog.setval('discovery.access_tokens_id_seq', 1, true);
SELECT pg_catalog.setval('discovery.agent_requests_number_seq', 1, false);
SELECT pg_catalog.setval('discovery.eras_id_seq', 1, false);
SELECT pg_catalog.setval('discovery.refresh_fences', 1, true);
SELECT pg_catalog.setval('discovery.saves', 2, true);
SELECT pg_catalog.setval('discovery.scopes_id_seq', 1, true);
SELECT pg_catalog.setval('discovery.search_indexes_id_seq', 1, false);
SELECT pg_catalog.setval('discovery.search_servers_id_seq', 1, false);
SELECT pg_catalog.setval('discovery.search_spaces_id_seq', 1, false);
SELECT pg_catalog.setval('discovery.servers_id_seq', 2, true);
SELECT pg_catalog.setval('discovery.typical_requests_id_seq', 1, true);
SELECT pg_catalog.setval('discovery.vectors_id_seq', 1, true);
SELECT pg_catalog.setval('discovery.webhook_deliveries_id_seq', 1, false);
SELECT pg_catalog.setval('discovery.webhooks_id_seq', 1, false);
ALTER TABLE ONLY discovery.acceptances
    ADD CONSTRAINT acceptances_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.access_tokens
    ADD CONSTRAINT access_tokens_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.agent_requests
    ADD CONSTRAINT agent_requests_id_key UNIQUE (id);
ALTER TABLE ONLY discovery.agent_requests
    ADD CONSTRAINT agent_requests_pkey PRIMARY KEY (number);
ALTER TABLE ONLY discovery.approvals
    ADD CONSTRAINT approvals_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.decision_log
    ADD CONSTRAINT decision_log_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.eras
    ADD CONSTRAINT eras_connection_key UNIQUE (connection);
ALTER TABLE ONLY discovery.eras
    ADD CONSTRAINT eras_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.kept_results
    ADD CONSTRAINT kept_results_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.listings
    ADD CONSTRAINT listings_pkey PRIMARY KEY (server);
ALTER TABLE ONLY discovery.losses
    ADD CONSTRAINT losses_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.presets
    ADD CONSTRAINT presets_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.publications
    ADD CONSTRAINT publications_pkey PRIMARY KEY (server);
ALTER TABLE ONLY discovery.refresh_jobs
    ADD CONSTRAINT refresh_jobs_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.registered_servers
    ADD CONSTRAINT registered_servers_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.relayed_requests
    ADD CONSTRAINT relayed_requests_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.role_principals
    ADD CONSTRAINT role_principals_pkey PRIMARY KEY (role, scope_key, principal);
ALTER TABLE ONLY discovery.scopes
    ADD CONSTRAINT scopes_key_key UNIQUE (key);
ALTER TABLE ONLY discovery.scopes
    ADD CONSTRAINT scopes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.search_indexes
    ADD CONSTRAINT search_indexes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.search_indexes
    ADD CONSTRAINT search_indexes_scope_recipe_key UNIQUE (scope, recipe);
ALTER TABLE ONLY discovery.search_servers
    ADD CONSTRAINT search_servers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.search_spaces
    ADD CONSTRAINT search_spaces_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.search_spaces
    ADD CONSTRAINT search_spaces_search_index_key_dimensions_key UNIQUE (search_index, key, dimensions);
ALTER TABLE ONLY discovery.search_terms
    ADD CONSTRAINT search_terms_pkey PRIMARY KEY (search_index, key);
ALTER TABLE ONLY discovery.search_tools
    ADD CONSTRAINT search_tools_pkey PRIMARY KEY (server, "position");
ALTER TABLE ONLY discovery.search_vector_servers
    ADD CONSTRAINT search_vector_servers_pkey PRIMARY KEY (space, server);
ALTER TABLE ONLY discovery.server_marks
    ADD CONSTRAINT server_marks_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.servers
    ADD CONSTRAINT servers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.servers
    ADD CONSTRAINT servers_scope_key_key UNIQUE (scope, key);
ALTER TABLE ONLY discovery.switches
    ADD CONSTRAINT switches_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.typical_requests
    ADD CONSTRAINT typical_requests_key_key UNIQUE (key);
ALTER TABLE ONLY discovery.typical_requests
    ADD CONSTRAINT typical_requests_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.uses
    ADD CONSTRAINT uses_pkey PRIMARY KEY (server, key);
ALTER TABLE ONLY discovery.vector_uses
    ADD CONSTRAINT vector_uses_pkey PRIMARY KEY (scope, vector);
ALTER TABLE ONLY discovery.vectors
    ADD CONSTRAINT vectors_key_key UNIQUE (key);
ALTER TABLE ONLY discovery.vectors
    ADD CONSTRAINT vectors_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (id);
ALTER TABLE ONLY discovery.webhooks
    ADD CONSTRAINT webhooks_key_key UNIQUE (key);
ALTER TABLE ONLY discovery.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (id);
CREATE INDEX acceptances_by_scope ON discovery.acceptances USING btree (scope_key);
CREATE INDEX acceptances_by_server ON discovery.acceptances USING btree (server_key);
CREATE INDEX access_tokens_by_scope ON discovery.access_tokens USING btree (scope_key);
CREATE INDEX agent_requests_by_scope ON discovery.agent_requests USING btree (scope_key);
CREATE INDEX approvals_by_scope ON discovery.approvals USING btree (scope_key);
CREATE INDEX kept_results_by_end ON discovery.kept_results USING btree (kept_until);
CREATE INDEX presets_by_scope ON discovery.presets USING btree (scope_key);
CREATE INDEX published_parts_by_scope ON discovery.published_parts USING btree (scope_key);
CREATE INDEX published_parts_by_server ON discovery.published_parts USING btree (server);
CREATE INDEX refresh_jobs_by_turn ON discovery.refresh_jobs USING btree (scope_key, priority DESC, claimable_at, created_at, server) WHERE (claimable_at IS NOT NULL);
CREATE INDEX registered_servers_by_scope ON discovery.registered_servers USING btree (scope_key);
CREATE INDEX relayed_requests_by_receiver ON discovery.relayed_requests USING btree (receiver) WHERE (served_until IS NULL);
CREATE INDEX role_principals_by_scope ON discovery.role_principals USING btree (scope_key);
CREATE INDEX search_servers_by_revision ON discovery.search_servers USING btree (search_index, revision);
CREATE UNIQUE INDEX search_servers_now ON discovery.search_servers USING btree (search_index, key) WHERE (ended_at IS NULL);
CREATE INDEX search_terms_by_revision ON discovery.search_terms USING btree (search_index, revision);
CREATE INDEX search_tools_by_term ON discovery.search_tools USING gin (terms) WITH (fastupdate=off);
CREATE INDEX search_vector_servers_by_server ON discovery.search_vector_servers USING btree (server);
CREATE INDEX servers_by_save ON discovery.servers USING btree (scope, saved);
CREATE INDEX switches_by_scope ON discovery.switches USING btree (scope_key);
CREATE INDEX typical_requests_by_tool ON discovery.typical_requests USING btree (tool_key);
CREATE INDEX vector_uses_by_vector ON discovery.vector_uses USING btree (vector);
CREATE INDEX webhook_deliveries_by_turn ON discovery.webhook_deliveries USING btree (webhook, due_at);
CREATE INDEX webhooks_by_scope ON discovery.webhooks USING btree (scope_key);
CREATE TRIGGER withdraw_server AFTER INSERT OR DELETE OR UPDATE ON discovery.listings FOR EACH ROW EXECUTE FUNCTION discovery.withdraw_server();
ALTER TABLE discovery.listings DISABLE TRIGGER withdraw_server;
CREATE TRIGGER withdraw_servers AFTER UPDATE OF settings ON discovery.scopes FOR EACH ROW EXECUTE FUNCTION discovery.withdraw_servers();
ALTER TABLE discovery.scopes DISABLE TRIGGER withdraw_servers;
ALTER TABLE ONLY discovery.listings
    ADD CONSTRAINT listings_server_fkey FOREIGN KEY (server) REFERENCES discovery.servers(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.publications
    ADD CONSTRAINT publications_server_fkey FOREIGN KEY (server) REFERENCES discovery.servers(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.published_parts
    ADD CONSTRAINT published_parts_server_fkey FOREIGN KEY (server) REFERENCES discovery.publications(server) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.search_indexes
    ADD CONSTRAINT search_indexes_scope_fkey FOREIGN KEY (scope) REFERENCES discovery.scopes(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.search_servers
    ADD CONSTRAINT search_servers_search_index_fkey FOREIGN KEY (search_index) REFERENCES discovery.search_indexes(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.search_spaces
    ADD CONSTRAINT search_spaces_search_index_fkey FOREIGN KEY (search_index) REFERENCES discovery.search_indexes(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.search_terms
    ADD CONSTRAINT search_terms_search_index_fkey FOREIGN KEY (search_index) REFERENCES discovery.search_indexes(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.search_tools
    ADD CONSTRAINT search_tools_server_fkey FOREIGN KEY (server) REFERENCES discovery.search_servers(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.search_vector_servers
    ADD CONSTRAINT search_vector_servers_server_fkey FOREIGN KEY (server) REFERENCES discovery.search_servers(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.search_vector_servers
    ADD CONSTRAINT search_vector_servers_space_fkey FOREIGN KEY (space) REFERENCES discovery.search_spaces(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.servers
    ADD CONSTRAINT servers_scope_fkey FOREIGN KEY (scope) REFERENCES discovery.scopes(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.uses
    ADD CONSTRAINT uses_server_fkey FOREIGN KEY (server) REFERENCES discovery.servers(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.vector_uses
    ADD CONSTRAINT vector_uses_scope_fkey FOREIGN KEY (scope) REFERENCES discovery.scopes(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.vector_uses
    ADD CONSTRAINT vector_uses_vector_fkey FOREIGN KEY (vector) REFERENCES discovery.vectors(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_webhook_fkey FOREIGN KEY (webhook) REFERENCES discovery.webhooks(id) ON DELETE CASCADE;
ALTER TABLE discovery.acceptances ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.access_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.agent_requests ENABLE ROW LEVEL SECURITY;
CREATE POLICY all_roles ON discovery.schema_version FOR SELECT USING (true);
ALTER TABLE discovery.approvals ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.decision_log ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.eras ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.kept_results ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.leases ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.listings ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.losses ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_principals ON discovery.published_parts FOR SELECT USING (((EXISTS ( SELECT
   FROM discovery.role_principals own
  WHERE (own.scope_key = published_parts.scope_key))) AND (NOT (EXISTS ( SELECT
   FROM jsonb_array_elements(published_parts.visible_to) admitted(value)
  WHERE (NOT (admitted.value ?| ARRAY( SELECT own.principal
           FROM discovery.role_principals own
          WHERE (own.scope_key = published_parts.scope_key)))))))));
CREATE POLICY own_roles ON discovery.role_principals FOR SELECT USING ((role IN ( SELECT (pg_roles.rolname)::text AS rolname
   FROM pg_roles
  WHERE pg_has_role(CURRENT_USER, pg_roles.oid, 'USAGE'::text))));
ALTER TABLE discovery.presets ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.publications ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.published_parts ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.refresh_jobs ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.registered_servers ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.relayed_requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.role_principals ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.schema_version ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.scopes ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.sealing_salt ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.search_indexes ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.search_servers ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.search_spaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.search_terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.search_tools ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.search_vector_servers ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.server_marks ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.servers ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.switches ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.typical_requests ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.uses ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.vector_uses ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.webhook_deliveries ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.webhooks ENABLE ROW LEVEL SECURITY;
