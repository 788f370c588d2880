-- Rows are found by digests of names, and their text is escaped, as in PostgreSQL. `key_of` and
-- `to_column` are those of `registry.stored_text`. Foreign keys are off.

ALTER TABLE typical_requests RENAME TO earlier_requests;
CREATE TABLE typical_requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL UNIQUE,
    tool_key BLOB NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    requests TEXT NOT NULL,
    model TEXT NOT NULL,
    instructions INTEGER NOT NULL,
    at REAL NOT NULL
);
CREATE INDEX typical_requests_by_tool ON typical_requests (tool_key);
INSERT INTO typical_requests
SELECT id, key_of(server, tool, fingerprint), key_of(server, tool), to_column(server),
    to_column(tool), to_column(fingerprint), requests, to_column(model), instructions, at
FROM earlier_requests;
DROP TABLE earlier_requests;

ALTER TABLE leases RENAME TO earlier_leases;
CREATE TABLE leases (
    key BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    fence INTEGER NOT NULL,
    renewals INTEGER NOT NULL
);
INSERT INTO leases
SELECT key_of(name), to_column(name), to_column(holder), fence, renewals FROM earlier_leases;
DROP TABLE earlier_leases;

ALTER TABLE agent_requests RENAME TO earlier_agent_requests;
CREATE TABLE agent_requests (
    number INTEGER PRIMARY KEY,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL
);
CREATE INDEX agent_requests_by_scope ON agent_requests (scope_key);
INSERT INTO agent_requests
SELECT number, key_of(scope), to_column(scope), id, to_column(request) FROM earlier_agent_requests;
DROP TABLE earlier_agent_requests;

ALTER TABLE presets RENAME TO earlier_presets;
CREATE TABLE presets (
    key BLOB PRIMARY KEY,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    name TEXT NOT NULL,
    arguments TEXT NOT NULL, -- JSON
    updated_at REAL NOT NULL
);
CREATE INDEX presets_by_scope ON presets (scope_key);
INSERT INTO presets
SELECT key_of(scope, server, tool, name), key_of(scope), to_column(scope), to_column(server),
    to_column(tool), to_column(name), arguments, updated_at
FROM earlier_presets;
DROP TABLE earlier_presets;

CREATE TABLE new_scopes (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    settings TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,
    saved INTEGER NOT NULL, -- a number that rises with every save in any scope
    decided TEXT -- the version of the program, and the newest decision that all verdicts know
);
INSERT INTO new_scopes
SELECT id, key_of(name), to_column(name), settings, revision, saved, decided FROM scopes;
DROP TABLE scopes;
ALTER TABLE new_scopes RENAME TO scopes;

CREATE TABLE new_servers (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL REFERENCES scopes ON DELETE CASCADE,
    key BLOB NOT NULL,
    name TEXT NOT NULL,
    part TEXT,
    saved INTEGER NOT NULL DEFAULT 0,
    told_failing_at REAL,
    told_well_at REAL,
    UNIQUE (scope, key)
);
INSERT INTO new_servers
SELECT id, scope, key_of(name), to_column(name), part, saved, told_failing_at, told_well_at
FROM servers;
DROP TABLE servers;
ALTER TABLE new_servers RENAME TO servers;
CREATE INDEX servers_by_save ON servers (saved);

CREATE TABLE new_uses (
    server INTEGER NOT NULL REFERENCES servers ON DELETE CASCADE,
    key BLOB NOT NULL,
    tool TEXT NOT NULL,
    count REAL NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (server, key)
) WITHOUT ROWID;
INSERT INTO new_uses
SELECT server, key_of(tool), to_column(tool), count, at FROM uses;
DROP TABLE uses;
ALTER TABLE new_uses RENAME TO uses;

CREATE TABLE new_vectors (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    model TEXT NOT NULL,
    digest BLOB NOT NULL,
    data BLOB NOT NULL
);
INSERT INTO new_vectors
SELECT id, key_of(model, digest), to_column(model), digest, data FROM vectors;
DROP TABLE vectors;
ALTER TABLE new_vectors RENAME TO vectors;

CREATE TABLE new_webhooks (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL, -- JSON of its settings, without its address and its secrets
    address TEXT NOT NULL, -- digest of its address as written
    left_at REAL, -- since when the settings do not name it
    disabled_at REAL,
    delivered INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0,
    delivered_at REAL,
    failed_at REAL,
    failure TEXT NOT NULL DEFAULT ''
);
INSERT INTO new_webhooks
SELECT id, key_of(scope, name), key_of(scope), to_column(scope), name, definition, address,
    left_at, disabled_at, delivered, dropped, delivered_at, failed_at, to_column(failure)
FROM webhooks;
DROP TABLE webhooks;
ALTER TABLE new_webhooks RENAME TO webhooks;
CREATE INDEX webhooks_by_scope ON webhooks (scope_key);

CREATE TABLE new_refresh_jobs (
    key BLOB PRIMARY KEY,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    created_at REAL NOT NULL,
    due_at REAL NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    holder TEXT NOT NULL,
    fence INTEGER NOT NULL,
    claimed_at REAL,
    lease_until REAL,
    listed_at REAL,
    tool_count INTEGER,
    error_code TEXT NOT NULL,
    error_message TEXT NOT NULL,
    connection TEXT NOT NULL,
    claimable_at REAL,
    failing_since REAL,
    losses INTEGER NOT NULL DEFAULT 0,
    named_until REAL
);
INSERT INTO new_refresh_jobs
SELECT key_of(scope, server), key_of(scope), to_column(scope), to_column(server), created_at, due_at,
    state, priority, attempts, to_column(holder), fence, claimed_at, lease_until, listed_at,
    tool_count, error_code, to_column(error_message), connection, claimable_at, failing_since,
    losses, named_until
FROM refresh_jobs;
DROP TABLE refresh_jobs;
ALTER TABLE new_refresh_jobs RENAME TO refresh_jobs;
CREATE INDEX refresh_jobs_by_turn
    ON refresh_jobs (scope_key, priority DESC, claimable_at, created_at, server)
    WHERE claimable_at IS NOT NULL;
