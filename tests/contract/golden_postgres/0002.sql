CREATE SCHEMA discovery;
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
CREATE TABLE discovery.registered_servers (
    key bytea NOT NULL,
    number bigint NOT NULL,
    scope text NOT NULL,
    name text NOT NULL,
    content text NOT NULL,
    scope_key bytea NOT NULL
);
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
    saved bigint DEFAULT 0 NOT NULL
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
    vector bigint NOT NULL
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
INSERT INTO discovery.acceptances VALUES ('\xfe0b7c225333b609df03785886365b98', 3, 'name:fleet', 'a', 'one', '2', 'f', '{}', 2, '\x870ce70743df6c74f502dc8e2a6b8b59', '\x09261a582c62a7f074b8b3dea445e600');
INSERT INTO discovery.acceptances VALUES ('\xab1499c7310a965ba04ee70f2ac262f8', 4, 'name:fleet', 'a', 'one', '1', 'f', '{}', 2, '\x870ce70743df6c74f502dc8e2a6b8b59', '\x09261a582c62a7f074b8b3dea445e600');
INSERT INTO discovery.approvals VALUES ('\x7ddcc625a661f2b759f4a18b06568fa7', 1, 'name:fleet', 'a', '1', 1, '\x870ce70743df6c74f502dc8e2a6b8b59', '\x09261a582c62a7f074b8b3dea445e600');
INSERT INTO discovery.decision_log VALUES (1, 6);
INSERT INTO discovery.listings VALUES (1, '["one", "two"]', '["one", "two"]', '{}', '[[0, 2]]', '\x7b226465736372697074696f6e223a22446f6573206f6e65207468696e67222c22696e707574536368656d61223a7b2270726f70657274696573223a7b7d2c2274797065223a226f626a656374227d2c226e616d65223a226f6e65227d0a7b226465736372697074696f6e223a22222c22696e707574536368656d61223a7b2270726f70657274696573223a7b7d2c2274797065223a226f626a656374227d2c226e616d65223a2274776f227d', '\x796f8c68ca3316613cce7cade0591b2f3d616b7bb310112c5444ad7a3aefb78d', NULL);
INSERT INTO discovery.presets VALUES ('\xfad565ef5dfe6b843a47eece317059b6', '\x870ce70743df6c74f502dc8e2a6b8b59', 'name:fleet', 'a', 'one', 'usual', '{"a": 1}', 6);
INSERT INTO discovery.registered_servers VALUES ('\x1574fe193725966a0ce1bb29de96edaf', 5, 'name:fleet', 'r', '{"name":"r","entry":{"url":"https://a.example"}}', '\x870ce70743df6c74f502dc8e2a6b8b59');
INSERT INTO discovery.schema_version VALUES (2, 1);
INSERT INTO discovery.scopes OVERRIDING SYSTEM VALUE VALUES (1, '\x870ce70743df6c74f502dc8e2a6b8b59', 'name:fleet', '{"servers":[{"name":"a"},{"name":"b"}]}', 3, 2, NULL);
INSERT INTO discovery.server_marks VALUES ('\x870ce70743df6c74f502dc8e2a6b8b59', 'name:fleet', 'f1c0bd258c577b2d');
INSERT INTO discovery.servers OVERRIDING SYSTEM VALUE VALUES (2, 1, '\xabbbdc37b9e60bd4a4185a8af77deb12', 'b', NULL, 0);
INSERT INTO discovery.servers OVERRIDING SYSTEM VALUE VALUES (1, 1, '\xe4e97ca07ff48bfd2f4a4fef6d3b0f0f', 'a', '{"server":"a","listed_at":1000.0}', 2);
INSERT INTO discovery.switches VALUES ('\x3af11ce5d70452cd52b4f40c84e190e2', 'name:fleet', 'b', false, 4, '\x870ce70743df6c74f502dc8e2a6b8b59');
INSERT INTO discovery.typical_requests OVERRIDING SYSTEM VALUE VALUES (1, '\xb2a6361f71924db5b81d969e39c827df', '\x75f21581e4fad0b0b0886b3422e78cb6', 'a', 'one', 'f', '["do it"]', 'm', 1, 5);
INSERT INTO discovery.uses VALUES (1, '\x9f53f347331267e2f8dca6d9354522d9', 'one', 1, 9);
INSERT INTO discovery.vector_uses VALUES (1, 1);
INSERT INTO discovery.vectors OVERRIDING SYSTEM VALUE VALUES (1, '\x0005918363941e513f6d7cf8362ad030', 'hash:64', '\x3131313131313131313131313131313131313131313131313131313131313131', '\x61626364');
SELECT pg_catalog.setval('discovery.agent_requests_number_seq', 1, false);
SELECT pg_catalog.setval('discovery.eras_id_seq', 1, false);
SELECT pg_catalog.setval('discovery.saves', 2, true);
SELECT pg_catalog.setval('discovery.scopes_id_seq', 1, true);
SELECT pg_catalog.setval('discovery.servers_id_seq', 2, true);
SELECT pg_catalog.setval('discovery.typical_requests_id_seq', 1, true);
SELECT pg_catalog.setval('discovery.vectors_id_seq', 1, true);
ALTER TABLE ONLY discovery.acceptances
    ADD CONSTRAINT acceptances_pkey PRIMARY KEY (key);
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
ALTER TABLE ONLY discovery.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.listings
    ADD CONSTRAINT listings_pkey PRIMARY KEY (server);
ALTER TABLE ONLY discovery.losses
    ADD CONSTRAINT losses_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.presets
    ADD CONSTRAINT presets_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.registered_servers
    ADD CONSTRAINT registered_servers_pkey PRIMARY KEY (key);
ALTER TABLE ONLY discovery.scopes
    ADD CONSTRAINT scopes_key_key UNIQUE (key);
ALTER TABLE ONLY discovery.scopes
    ADD CONSTRAINT scopes_pkey PRIMARY KEY (id);
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
CREATE INDEX acceptances_by_scope ON discovery.acceptances USING btree (scope_key);
CREATE INDEX acceptances_by_server ON discovery.acceptances USING btree (server_key);
CREATE INDEX agent_requests_by_scope ON discovery.agent_requests USING btree (scope_key);
CREATE INDEX approvals_by_scope ON discovery.approvals USING btree (scope_key);
CREATE INDEX presets_by_scope ON discovery.presets USING btree (scope_key);
CREATE INDEX registered_servers_by_scope ON discovery.registered_servers USING btree (scope_key);
CREATE INDEX servers_by_save ON discovery.servers USING btree (scope, saved);
CREATE INDEX switches_by_scope ON discovery.switches USING btree (scope_key);
CREATE INDEX typical_requests_by_tool ON discovery.typical_requests USING btree (tool_key);
CREATE INDEX vector_uses_by_vector ON discovery.vector_uses USING btree (vector);
ALTER TABLE ONLY discovery.listings
    ADD CONSTRAINT listings_server_fkey FOREIGN KEY (server) REFERENCES discovery.servers(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.servers
    ADD CONSTRAINT servers_scope_fkey FOREIGN KEY (scope) REFERENCES discovery.scopes(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.uses
    ADD CONSTRAINT uses_server_fkey FOREIGN KEY (server) REFERENCES discovery.servers(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.vector_uses
    ADD CONSTRAINT vector_uses_scope_fkey FOREIGN KEY (scope) REFERENCES discovery.scopes(id) ON DELETE CASCADE;
ALTER TABLE ONLY discovery.vector_uses
    ADD CONSTRAINT vector_uses_vector_fkey FOREIGN KEY (vector) REFERENCES discovery.vectors(id) ON DELETE CASCADE;
