-- The refresh queue: one server of a scope each, which workers list again and again.
-- `claimable_at` is `due_at`, or the end of the lease while a worker holds it; NULL where no worker
-- may claim it. Times are Unix times in seconds.
CREATE TABLE refresh_jobs (
    id INTEGER PRIMARY KEY,
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
    UNIQUE (scope, server)
);
CREATE INDEX refresh_jobs_by_turn ON refresh_jobs (scope, priority DESC, claimable_at)
    WHERE claimable_at IS NOT NULL;

-- Gateways fetch only what workers saved since they last looked: `saved` is the `saved` of the scope
-- at the time when a worker last wrote what a server listed; 0 if none did.
ALTER TABLE servers ADD COLUMN saved INTEGER NOT NULL DEFAULT 0;
CREATE INDEX servers_by_save ON servers (saved);
