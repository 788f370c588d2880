-- version: 16
-- usable from: 12
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

-- Every server that the settings name; `part` is NULL until it has been listed. Gateways fetch only
-- what others saved since they last looked: `saved` is the `saved` of the scope at the time when what
-- a server listed was last written. Webhooks were last told that a server is failing, and that it was
-- well again, at the two last times.
CREATE TABLE discovery.servers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope bigint NOT NULL REFERENCES discovery.scopes ON DELETE CASCADE,
    key bytea NOT NULL,
    name text NOT NULL,
    part text,
    saved bigint NOT NULL DEFAULT 0,
    told_failing_at double precision,
    told_well_at double precision,
    UNIQUE (scope, key)
);
CREATE INDEX servers_by_save ON discovery.servers (scope, saved);

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
-- `period` is that of 30 days in which the scope last noted its use: unused vectors are dropped a few
-- at a time, by whoever comes.
CREATE TABLE discovery.vector_uses (
    scope bigint NOT NULL REFERENCES discovery.scopes ON DELETE CASCADE,
    vector bigint NOT NULL REFERENCES discovery.vectors ON DELETE CASCADE,
    period bigint NOT NULL DEFAULT floor(extract(epoch FROM now()) / 2592000),
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

-- What the owner approved to be started. It outlives the scope's catalog. A checksum is verified in a
-- file alone.
CREATE TABLE discovery.approvals (
    key bytea PRIMARY KEY,
    number bigint NOT NULL,
    scope text NOT NULL,
    server text NOT NULL,
    identity text NOT NULL,
    at double precision NOT NULL,
    scope_key bytea NOT NULL,
    server_key bytea NOT NULL,
    checksum text
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
    server_key bytea NOT NULL,
    checksum text
);
CREATE INDEX acceptances_by_scope ON discovery.acceptances (scope_key);
CREATE INDEX acceptances_by_server ON discovery.acceptances (server_key);
CREATE INDEX acceptances_by_number ON discovery.acceptances (number);

-- When decisions of a scope were lost, and when its owner acknowledged that; '*' is every scope
-- that has no row of its own.
CREATE TABLE discovery.losses (
    key bytea PRIMARY KEY,
    number bigint NOT NULL DEFAULT 0,
    scope text NOT NULL,
    at double precision NOT NULL,
    acknowledged double precision,
    checksum text
);

-- Servers that stand in no file, and the owner's switches for any server.
CREATE TABLE discovery.registered_servers (
    key bytea PRIMARY KEY,
    number bigint NOT NULL,
    scope text NOT NULL,
    name text NOT NULL,
    content text NOT NULL,
    scope_key bytea NOT NULL,
    checksum text
);
CREATE INDEX registered_servers_by_scope ON discovery.registered_servers (scope_key);
CREATE TABLE discovery.switches (
    key bytea PRIMARY KEY,
    number bigint NOT NULL DEFAULT 0,
    scope text NOT NULL,
    server text NOT NULL,
    is_wanted boolean NOT NULL,
    at double precision NOT NULL,
    scope_key bytea NOT NULL,
    checksum text
);
CREATE INDEX switches_by_scope ON discovery.switches (scope_key);
CREATE TABLE discovery.shared_rules (
    key bytea PRIMARY KEY,
    number bigint NOT NULL,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    section text NOT NULL,
    text text NOT NULL,
    at double precision NOT NULL,
    checksum text
);

-- Another mark after every change of a scope's servers, switches or rules.
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

-- The refresh queue: one server of a scope each, which workers list again and again.
-- `claimable_at` is `due_at`, or the end of the lease while a worker holds it; NULL where no worker
-- may claim it. A server is given up after it has failed for a time, and apart from that after
-- so many workers in a row were lost with it. A job counts as named by a process that has its server
-- in its configuration until `named_until`; NULL where none has that knows this column. Times are Unix times in seconds by `clock_timestamp()`.
CREATE TABLE discovery.refresh_jobs (
    key bytea PRIMARY KEY,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    server text NOT NULL,
    created_at double precision NOT NULL,
    due_at double precision NOT NULL,
    state text NOT NULL,
    priority int NOT NULL,
    attempts int NOT NULL,
    holder text NOT NULL,
    fence bigint NOT NULL,
    claimed_at double precision,
    lease_until double precision,
    listed_at double precision,
    tool_count int,
    error_code text NOT NULL,
    error_message text NOT NULL,
    connection text NOT NULL,
    claimable_at double precision,
    failing_since double precision,
    losses int NOT NULL DEFAULT 0,
    named_until double precision
);
-- The whole order of the queue: servers that were configured together are due at the same moment, and
-- would be sorted by each claim.
CREATE INDEX refresh_jobs_by_turn
    ON discovery.refresh_jobs (scope_key, priority DESC, claimable_at, created_at, server)
    WHERE claimable_at IS NOT NULL;

-- A fence is never used twice for a server, also if it leaves the configuration and comes back.
CREATE SEQUENCE discovery.refresh_fences;

-- What `search.where: database` looks through. Versions of the program analyze texts differently:
-- each has an index of its own, by the digest of all that it makes documents with.
CREATE TABLE discovery.search_indexes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope bigint NOT NULL REFERENCES discovery.scopes ON DELETE CASCADE,
    recipe bytea NOT NULL,
    revision bigint NOT NULL DEFAULT 0,
    used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (scope, recipe)
);

-- The documents of one server, as they are or were: a change adds a row and ends the one before.
CREATE TABLE discovery.search_servers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    search_index bigint NOT NULL REFERENCES discovery.search_indexes ON DELETE CASCADE,
    key bytea NOT NULL,
    name text NOT NULL,
    made_of bytea NOT NULL,
    content bytea NOT NULL,
    revision bigint NOT NULL, -- of the index, when the row was last changed
    ended_at timestamptz
);
CREATE UNIQUE INDEX search_servers_now ON discovery.search_servers (search_index, key)
    WHERE ended_at IS NULL;
CREATE INDEX search_servers_by_revision ON discovery.search_servers (search_index, revision);

-- A tool: a number for each of its terms and the level of its impact, and the impacts themselves.
CREATE TABLE discovery.search_tools (
    server bigint NOT NULL REFERENCES discovery.search_servers ON DELETE CASCADE,
    position int NOT NULL,
    profile int NOT NULL,
    terms bigint[] NOT NULL,
    impacts bytea NOT NULL,
    PRIMARY KEY (server, position)
);
-- Without `fastupdate`: a search would read all that waits to be sorted in, once for each term.
CREATE INDEX search_tools_by_term ON discovery.search_tools USING gin (terms)
    WITH (fastupdate = off);

-- How many tools hold a term.
CREATE TABLE discovery.search_terms (
    search_index bigint NOT NULL REFERENCES discovery.search_indexes ON DELETE CASCADE,
    key bigint NOT NULL,
    term text NOT NULL,
    count bigint NOT NULL,
    revision bigint NOT NULL,
    PRIMARY KEY (search_index, key)
);
CREATE INDEX search_terms_by_revision ON discovery.search_terms (search_index, revision);

-- The vectors that a model gave to the tools of a search index. They themselves are in the table
-- `search_vectors`, which the program makes where it finds pgvector: its type is needed for that.
CREATE TABLE discovery.search_spaces (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    search_index bigint NOT NULL REFERENCES discovery.search_indexes ON DELETE CASCADE,
    key bytea NOT NULL,
    model text NOT NULL,
    dimensions int NOT NULL,
    used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (search_index, key, dimensions)
);

-- The servers whose documents have their vectors.
CREATE TABLE discovery.search_vector_servers (
    space int NOT NULL REFERENCES discovery.search_spaces ON DELETE CASCADE,
    server bigint NOT NULL REFERENCES discovery.search_servers ON DELETE CASCADE,
    PRIMARY KEY (space, server)
);
CREATE INDEX search_vector_servers_by_server ON discovery.search_vector_servers (server);

-- Webhooks, and events on their way to them. A delivery is claimed by moving `due_at` to the end of
-- the lease; NULL where it is dead. Times are Unix times in seconds by `clock_timestamp()`.
CREATE TABLE discovery.webhooks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key bytea NOT NULL UNIQUE,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    name text NOT NULL,
    definition text NOT NULL, -- JSON of its settings, without its address and its secrets
    address text NOT NULL, -- digest of its address as written
    left_at double precision, -- since when the settings do not name it
    disabled_at double precision,
    delivered bigint NOT NULL DEFAULT 0,
    dropped bigint NOT NULL DEFAULT 0,
    delivered_at double precision,
    failed_at double precision,
    failure text NOT NULL DEFAULT ''
);
CREATE INDEX webhooks_by_scope ON discovery.webhooks (scope_key);
CREATE TABLE discovery.webhook_deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook bigint NOT NULL REFERENCES discovery.webhooks ON DELETE CASCADE,
    event_id text NOT NULL,
    event_type text NOT NULL,
    body text NOT NULL,
    stored_at double precision NOT NULL,
    tried_since double precision NOT NULL,
    due_at double precision,
    attempts int NOT NULL DEFAULT 0,
    fence bigint NOT NULL DEFAULT 0
);
CREATE INDEX webhook_deliveries_by_turn ON discovery.webhook_deliveries (webhook, due_at);

-- What gateways share so that a client may use any of them. Nothing here is of use without a secret
-- that the database does not have.

-- With it, and the password of the database, gateways derive the key of unfinished calls.
CREATE TABLE discovery.sealing_salt (salt bytea NOT NULL);
INSERT INTO discovery.sealing_salt
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- Tokens of clients, by their digests: a token has 256 random bits, so none can be inverted.
CREATE TABLE discovery.access_tokens (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    token text NOT NULL -- JSON of what is known of it
);
CREATE INDEX access_tokens_by_scope ON discovery.access_tokens (scope_key);

-- Long results, each encrypted with a key that its handle alone gives, and found by its digest.
CREATE TABLE discovery.kept_results (
    key bytea PRIMARY KEY,
    kept_until double precision NOT NULL, -- Unix time in seconds by `clock_timestamp()`
    result bytea NOT NULL
);
CREATE INDEX kept_results_by_end ON discovery.kept_results (kept_until);
-- What is encrypted cannot be compressed, and is not tried.
ALTER TABLE discovery.kept_results ALTER COLUMN result SET STORAGE EXTERNAL;

-- Gateways, each with the newest decision that is in force there, and when it last said so.
CREATE TABLE discovery.gateways (
    instance text PRIMARY KEY,
    scope_key bytea NOT NULL,
    machine text NOT NULL,
    version text NOT NULL,
    decided bigint NOT NULL,
    seen_at double precision NOT NULL
);

-- Requests about work that is within another gateway, left for that one. Times are Unix times in
-- seconds by `clock_timestamp()`. Both texts are encrypted with a key that the database does not have.
CREATE TABLE discovery.relayed_requests (
    id bytea PRIMARY KEY,
    sender text NOT NULL,
    receiver text NOT NULL,
    take_until double precision NOT NULL,
    wanted_until double precision NOT NULL, -- the sender renews it
    served_until double precision, -- the receiver renews it; NULL until it has taken the request
    request bytea NOT NULL,
    answer bytea
);
CREATE INDEX relayed_requests_by_receiver ON discovery.relayed_requests (receiver)
    WHERE served_until IS NULL;
-- What is encrypted cannot be compressed, and is not tried.
ALTER TABLE discovery.relayed_requests ALTER COLUMN request SET STORAGE EXTERNAL;
ALTER TABLE discovery.relayed_requests ALTER COLUMN answer SET STORAGE EXTERNAL;

-- Empty: programs of version 12 look into it.
CREATE TABLE discovery.role_principals (
    role text NOT NULL,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    principal text NOT NULL,
    PRIMARY KEY (role, scope_key, principal)
);
CREATE INDEX role_principals_by_scope ON discovery.role_principals (scope_key);
