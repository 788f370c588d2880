-- usable from: 1
-- Text of others has no longest length, and an index of PostgreSQL takes 2.7 KB: a column `key` is
-- the digest of all that makes a row the only one of its kind.

-- A scope is one configuration; its settings are JSON without secrets.
CREATE SEQUENCE discovery.saves;
CREATE TABLE discovery.scopes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key bytea NOT NULL UNIQUE,
    name text NOT NULL,
    settings text NOT NULL,
    revision bigint NOT NULL DEFAULT 0,
    saved bigint NOT NULL, -- a number that rises with every save in any scope
    decided text -- the version of the program, and the newest decision that all verdicts know
);

-- Every server that the settings name; `part` is NULL until it has been listed.
CREATE TABLE discovery.servers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope bigint NOT NULL REFERENCES discovery.scopes ON DELETE CASCADE,
    key bytea NOT NULL,
    name text NOT NULL,
    part text,
    UNIQUE (scope, key)
);

-- What a server listed: one row, with a column for each field of its tools, in their order.
CREATE TABLE discovery.listings (
    server bigint PRIMARY KEY REFERENCES discovery.servers ON DELETE CASCADE,
    names text NOT NULL,
    upstream_names text NOT NULL,
    verdicts text NOT NULL,
    judged text NOT NULL,
    sources bytea NOT NULL,
    digest bytea,
    offerings text
);

-- How often tools were used that had been found: what the count was worth at `at`.
CREATE TABLE discovery.uses (
    server bigint NOT NULL REFERENCES discovery.servers ON DELETE CASCADE,
    key bytea NOT NULL,
    tool text NOT NULL,
    count double precision NOT NULL,
    at double precision NOT NULL,
    PRIMARY KEY (server, key)
);

-- How servers introduced themselves, by the fingerprint of how they are reached.
CREATE TABLE discovery.eras (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    connection text NOT NULL UNIQUE,
    era text NOT NULL
);

-- The vectors of texts. A text has one under each model, however many scopes use it.
CREATE TABLE discovery.vectors (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key bytea NOT NULL UNIQUE,
    model text NOT NULL,
    digest bytea NOT NULL,
    data bytea NOT NULL
);
CREATE TABLE discovery.vector_uses (
    scope bigint NOT NULL REFERENCES discovery.scopes ON DELETE CASCADE,
    vector bigint NOT NULL REFERENCES discovery.vectors ON DELETE CASCADE,
    PRIMARY KEY (scope, vector)
);
CREATE INDEX vector_uses_by_vector ON discovery.vector_uses (vector);

-- The number of the newest decision. Whoever decides locks its one row first: decisions have one
-- order, and each row below has the number of the decision that wrote it.
CREATE TABLE discovery.decision_log (
    id int PRIMARY KEY CHECK (id = 1),
    number bigint NOT NULL
);
INSERT INTO discovery.decision_log VALUES (1, 0);

-- What the owner approved to be started. It outlives the scope's catalog.
CREATE TABLE discovery.approvals (
    key bytea PRIMARY KEY,
    number bigint NOT NULL,
    scope text NOT NULL,
    server text NOT NULL,
    identity text NOT NULL,
    at double precision NOT NULL,
    scope_key bytea NOT NULL,
    server_key bytea NOT NULL
);
CREATE INDEX approvals_by_scope ON discovery.approvals (scope_key);

-- Every tool as it was ever accepted, by its owner or at first sight.
CREATE TABLE discovery.acceptances (
    key bytea PRIMARY KEY,
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
CREATE INDEX acceptances_by_scope ON discovery.acceptances (scope_key);
CREATE INDEX acceptances_by_server ON discovery.acceptances (server_key);

-- When decisions of a scope were lost, and when its owner acknowledged that; '*' is every scope
-- that has no row of its own.
CREATE TABLE discovery.losses (
    key bytea PRIMARY KEY,
    scope text NOT NULL,
    at double precision NOT NULL,
    acknowledged double precision
);

-- Servers that stand in no file, and the owner's switches for any server.
CREATE TABLE discovery.registered_servers (
    key bytea PRIMARY KEY,
    number bigint NOT NULL,
    scope text NOT NULL,
    name text NOT NULL,
    content text NOT NULL,
    scope_key bytea NOT NULL
);
CREATE INDEX registered_servers_by_scope ON discovery.registered_servers (scope_key);
CREATE TABLE discovery.switches (
    key bytea PRIMARY KEY,
    scope text NOT NULL,
    server text NOT NULL,
    is_wanted boolean NOT NULL,
    at double precision NOT NULL,
    scope_key bytea NOT NULL
);
CREATE INDEX switches_by_scope ON discovery.switches (scope_key);

-- Another mark after every change of a scope's servers or switches.
CREATE TABLE discovery.server_marks (
    key bytea PRIMARY KEY,
    scope text NOT NULL,
    mark text NOT NULL
);

-- Requests that a language model wrote for tools, once for each definition. An id is never used
-- again, so that every change shows in the highest id or in the count.
CREATE TABLE discovery.typical_requests (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key bytea NOT NULL UNIQUE,
    tool_key bytea NOT NULL,
    server text NOT NULL,
    tool text NOT NULL,
    fingerprint text NOT NULL,
    requests text NOT NULL,
    model text NOT NULL,
    instructions bigint NOT NULL,
    at double precision NOT NULL
);
CREATE INDEX typical_requests_by_tool ON discovery.typical_requests (tool_key);

-- What one process at a time may hold. A row stays when its lease is released: its fence must not
-- begin anew.
CREATE TABLE discovery.leases (
    key bytea PRIMARY KEY,
    name text NOT NULL,
    holder text NOT NULL,
    fence bigint NOT NULL,
    renewals bigint NOT NULL
);

-- Arguments of tools that their owner keeps under names.
CREATE TABLE discovery.presets (
    key bytea PRIMARY KEY,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    server text NOT NULL,
    tool text NOT NULL,
    name text NOT NULL,
    arguments text NOT NULL,
    updated_at double precision NOT NULL
);
CREATE INDEX presets_by_scope ON discovery.presets (scope_key);

-- What agents asked their owner for, as JSON.
CREATE TABLE discovery.agent_requests (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    id text NOT NULL UNIQUE,
    request text NOT NULL
);
CREATE INDEX agent_requests_by_scope ON discovery.agent_requests (scope_key);
