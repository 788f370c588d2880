-- usable from: 11
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

-- Roles that own no table see no row, as of all others.
ALTER TABLE discovery.relayed_requests ENABLE ROW LEVEL SECURITY;
