-- usable from: 2
-- The refresh queue: one server of a scope each, which workers list again and again.
-- `claimable_at` is `due_at`, or the end of the lease while a worker holds it; NULL where no worker
-- may claim it. Times are Unix times in seconds by `clock_timestamp()`.
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
    claimable_at double precision
);
CREATE INDEX refresh_jobs_by_turn
    ON discovery.refresh_jobs (scope_key, priority DESC, claimable_at)
    WHERE claimable_at IS NOT NULL;
