-- usable from: 12
-- Rules of all who share a registry: programs before do not obey them, and report no decision.
CREATE TABLE discovery.shared_rules (
    key bytea PRIMARY KEY,
    number bigint NOT NULL,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    section text NOT NULL,
    text text NOT NULL,
    at double precision NOT NULL,
    checksum text
);
-- Gateways, each with the newest decision that is in force there, and when it last said so.
CREATE TABLE discovery.gateways (
    instance text PRIMARY KEY,
    scope_key bytea NOT NULL,
    machine text NOT NULL,
    version text NOT NULL,
    decided bigint NOT NULL,
    seen_at double precision NOT NULL
);
