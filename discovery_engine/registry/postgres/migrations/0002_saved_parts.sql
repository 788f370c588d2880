-- usable from: 1
-- Gateways fetch only what others saved since they last looked: `saved` is the `saved` of the scope
-- at the time when what a server listed was last written; 0 if a version before did it.
ALTER TABLE discovery.servers ADD COLUMN saved bigint NOT NULL DEFAULT 0;
CREATE INDEX servers_by_save ON discovery.servers (scope, saved);
