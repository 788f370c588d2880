-- usable from: 4
-- A fence is never used twice for a server, also if it leaves the configuration and comes back.
CREATE SEQUENCE discovery.refresh_fences;
SELECT setval('discovery.refresh_fences', max(fence)) FROM discovery.refresh_jobs
HAVING max(fence) > 0;

-- A server is given up after it has failed for a time, and apart from that after so many workers in
-- a row were lost with it.
ALTER TABLE discovery.refresh_jobs ADD COLUMN failing_since double precision;
ALTER TABLE discovery.refresh_jobs ADD COLUMN losses int NOT NULL DEFAULT 0;

-- The whole order of the queue: servers that were configured together are due at the same moment, and
-- would be sorted by each claim.
DROP INDEX discovery.refresh_jobs_by_turn;
CREATE INDEX refresh_jobs_by_turn
    ON discovery.refresh_jobs (scope_key, priority DESC, claimable_at, created_at, server)
    WHERE claimable_at IS NOT NULL;
