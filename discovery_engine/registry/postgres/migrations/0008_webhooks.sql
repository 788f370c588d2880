-- usable from: 7
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
-- What webhooks were last told of a server: since when it is failing, and when it was well again.
ALTER TABLE discovery.servers ADD COLUMN told_failing_at double precision;
ALTER TABLE discovery.servers ADD COLUMN told_well_at double precision;

-- Roles that own no table see no row, as of all others.
ALTER TABLE discovery.webhooks ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.webhook_deliveries ENABLE ROW LEVEL SECURITY;
