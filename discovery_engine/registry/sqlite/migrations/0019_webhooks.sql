-- Webhooks, and events on their way to them. A delivery is claimed by moving `due_at` to the end of
-- the lease; NULL where it is dead. Times are Unix times in seconds.
CREATE TABLE webhooks (
    id INTEGER PRIMARY KEY,
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
    failure TEXT NOT NULL DEFAULT '',
    UNIQUE (scope, name)
);
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

-- What webhooks were last told of a server: since when it is failing, and when it was well again.
ALTER TABLE servers ADD COLUMN told_failing_at REAL;
ALTER TABLE servers ADD COLUMN told_well_at REAL;
