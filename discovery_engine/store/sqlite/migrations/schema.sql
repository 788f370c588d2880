-- version: 24

-- Where a table has a column `key`, rows are found by digests of names, as in PostgreSQL, and their
-- text is escaped as there: `registry.stored_text`.

-- A scope is one configuration; its settings are JSON without secrets.
CREATE TABLE scopes (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    settings TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,
    saved INTEGER NOT NULL, -- a number that rises with every save in any scope
    decided TEXT -- the version of the program, and the newest decision that all verdicts know
);

-- Every server that the settings name; `part` is NULL until it has been listed. Gateways fetch only
-- what workers saved since they last looked: `saved` is the `saved` of the scope at the time when a
-- worker last wrote what a server listed; 0 if none did. Webhooks were last told that a server is
-- failing, and that it was well again, at the two last times.
CREATE TABLE servers (
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
CREATE INDEX servers_by_save ON servers (saved);

-- What a server listed is one row, with a column for each field of its tools, in their order: ten
-- thousand small rows cost a start more than all else that it does.
CREATE TABLE listings (
    server INTEGER PRIMARY KEY REFERENCES servers ON DELETE CASCADE,
    names TEXT NOT NULL, -- JSON
    upstream_names TEXT NOT NULL, -- JSON
    verdicts TEXT NOT NULL, -- JSON of those that differ, a line each
    judged TEXT NOT NULL, -- JSON: numbers of verdicts, and how many tools in a row have each
    sources BLOB NOT NULL, -- the definitions in UTF-8, a line each
    digest BLOB, -- of what the tools say; NULL where an older version wrote the row
    offerings TEXT -- JSON of resources, templates and prompts with their verdicts; NULL for none
);

-- How servers introduced themselves, by the fingerprint of how they are reached.
CREATE TABLE eras (
    id INTEGER PRIMARY KEY,
    connection TEXT NOT NULL UNIQUE,
    era TEXT NOT NULL
);

-- The search index of a scope's catalog, in a form of its own; whether it fits the catalog is checked
-- on reading.
CREATE TABLE indexes (
    scope INTEGER PRIMARY KEY REFERENCES scopes ON DELETE CASCADE,
    data BLOB NOT NULL
);

-- The vectors of texts. A text has one under each model, however many scopes use it.
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    model TEXT NOT NULL,
    digest BLOB NOT NULL,
    data BLOB NOT NULL
);

-- Which scopes use a vector; one that none uses is dropped, a few at a time. `period` is that of 30
-- days in which the scope last noted its use.
CREATE TABLE vector_uses (
    scope INTEGER NOT NULL REFERENCES scopes ON DELETE CASCADE,
    vector INTEGER NOT NULL REFERENCES vectors ON DELETE CASCADE,
    period INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, vector)
) WITHOUT ROWID;
CREATE INDEX uses_by_vector ON vector_uses (vector);

-- How often tools were used that had been found, where the owner wants that counted: what the
-- count was worth at `at`, which is Unix time in seconds.
CREATE TABLE uses (
    server INTEGER NOT NULL REFERENCES servers ON DELETE CASCADE,
    key BLOB NOT NULL,
    tool TEXT NOT NULL,
    count REAL NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (server, key)
) WITHOUT ROWID;

-- `number` is that of the newest decision; `rows` is how many rows the tables of decisions have, so
-- that one that is missing shows.
CREATE TABLE decision_log (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL,
    rows INTEGER NOT NULL DEFAULT 0
);
INSERT INTO decision_log VALUES (1, 0, 0);

-- What the owner approved to be started. It outlives the scope's catalog: what was forgotten
-- with a removed server would be approved by adding it again. Here and below `number` is that of the
-- decision, and a checksum is of all columns that follow the number; it is NULL where a row is damaged.
CREATE TABLE approvals (
    number INTEGER NOT NULL,
    key BLOB PRIMARY KEY,
    scope_key BLOB NOT NULL,
    server_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    identity TEXT NOT NULL,
    at REAL NOT NULL,
    checksum TEXT
);

-- Every tool as it was ever accepted, by its owner or at first sight. The instructions of a server
-- stand under the tool ''. There is no index by scope: what reads all of a scope scans the table, so
-- that no damaged index hides a row.
CREATE TABLE acceptances (
    number INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    scope_key BLOB NOT NULL,
    server_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    meaning TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL,
    at REAL NOT NULL,
    checksum TEXT
);
CREATE INDEX acceptances_by_server ON acceptances (server_key);

-- When decisions of a scope were lost, and when its owner acknowledged that; '*' is every scope
-- that has no row of its own.
CREATE TABLE losses (
    number INTEGER NOT NULL,
    key BLOB PRIMARY KEY,
    scope TEXT NOT NULL,
    at REAL NOT NULL,
    acknowledged REAL,
    checksum TEXT
);

-- Servers that stand in no file, and the owner's switches for any server. Both are decisions.
CREATE TABLE registered_servers (
    number INTEGER NOT NULL,
    key BLOB PRIMARY KEY,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    content TEXT NOT NULL,
    checksum TEXT
);
CREATE TABLE switches (
    number INTEGER NOT NULL,
    key BLOB PRIMARY KEY,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    is_wanted INTEGER NOT NULL,
    at REAL NOT NULL,
    checksum TEXT
);
CREATE TABLE shared_rules (
    number INTEGER NOT NULL,
    key BLOB PRIMARY KEY,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    section TEXT NOT NULL,
    text TEXT NOT NULL,
    at REAL NOT NULL,
    checksum TEXT
);

-- Another mark after every change of a scope's servers, switches or rules, so that a start finds out
-- by one row whether the settings that it remembers still hold.
CREATE TABLE server_marks (
    key BLOB PRIMARY KEY,
    scope TEXT NOT NULL,
    mark TEXT NOT NULL
);

-- Requests that a language model wrote for tools, once for each definition. They belong to no scope:
-- two configurations with the same server share them, and none of them goes with a listing.
-- An id is never used again, so that every change shows in the highest id or in the count.
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

-- What one process at a time may hold. A row stays when its lease is released: its fence must not
-- begin anew.
CREATE TABLE leases (
    key BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    holder TEXT NOT NULL,
    fence INTEGER NOT NULL,
    renewals INTEGER NOT NULL
);

-- What agents asked their owner for, as JSON.
CREATE TABLE agent_requests (
    number INTEGER PRIMARY KEY,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    request TEXT NOT NULL
);
CREATE INDEX agent_requests_by_scope ON agent_requests (scope_key);

-- Arguments of tools that their owner keeps under names.
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

-- The refresh queue: one server of a scope each, which workers list again and again.
-- `claimable_at` is `due_at`, or the end of the lease while a worker holds it; NULL where no worker
-- may claim it. A server is given up after it has failed for a time, and apart from that after
-- so many workers in a row were lost with it. A job counts as named by a process that has its server
-- in its configuration until `named_until`; NULL where none has that knows this column. Times are Unix times in seconds.
CREATE TABLE refresh_jobs (
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
-- The whole order of the queue: servers that were configured together are due at the same moment, and
-- would be sorted by each claim.
CREATE INDEX refresh_jobs_by_turn
    ON refresh_jobs (scope_key, priority DESC, claimable_at, created_at, server)
    WHERE claimable_at IS NOT NULL;

-- A fence is never used twice for a server, also if it leaves the configuration and comes back.
CREATE TABLE refresh_fences (last INTEGER NOT NULL);
INSERT INTO refresh_fences VALUES (0);

-- Webhooks, and events on their way to them. A delivery is claimed by moving `due_at` to the end of
-- the lease; NULL where it is dead. Times are Unix times in seconds.
CREATE TABLE webhooks (
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
CREATE INDEX webhooks_by_scope ON webhooks (scope_key);
CREATE TABLE webhook_deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- a result of a dropped one must never meet another
    webhook INTEGER NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    body TEXT NOT NULL,
    stored_at REAL NOT NULL,
    tried_since REAL NOT NULL,
    due_at REAL,
    attempts INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX webhook_deliveries_by_turn ON webhook_deliveries (webhook, due_at);
