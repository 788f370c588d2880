-- A fence is never used twice for a server, also if it leaves the configuration and comes back.
CREATE TABLE refresh_fences (last INTEGER NOT NULL);
INSERT INTO refresh_fences SELECT coalesce(max(fence), 0) FROM refresh_jobs;

-- A server is given up after it has failed for a time, and apart from that after so many workers in
-- a row were lost with it.
ALTER TABLE refresh_jobs ADD COLUMN failing_since REAL;
ALTER TABLE refresh_jobs ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;

-- The whole order of the queue: servers that were configured together are due at the same moment, and
-- would be sorted by each claim.
DROP INDEX refresh_jobs_by_turn;
CREATE INDEX refresh_jobs_by_turn
    ON refresh_jobs (scope, priority DESC, claimable_at, created_at, server)
    WHERE claimable_at IS NOT NULL;
