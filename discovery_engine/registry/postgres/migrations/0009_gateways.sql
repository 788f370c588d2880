-- usable from: 8
-- What gateways share so that a client may use any of them. Nothing here is of use without a secret
-- that the database does not have.

-- With it, and the password of the database, gateways derive the key of unfinished calls.
CREATE TABLE discovery.sealing_salt (salt bytea NOT NULL);
INSERT INTO discovery.sealing_salt
SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- Tokens of clients, by their digests: a token has 256 random bits, so none can be inverted.
CREATE TABLE discovery.access_tokens (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope_key bytea NOT NULL,
    scope text NOT NULL,
    token text NOT NULL -- JSON of what is known of it
);
CREATE INDEX access_tokens_by_scope ON discovery.access_tokens (scope_key);

-- Long results, each encrypted with a key that its handle alone gives, and found by its digest.
CREATE TABLE discovery.kept_results (
    key bytea PRIMARY KEY,
    kept_until double precision NOT NULL, -- Unix time in seconds by `clock_timestamp()`
    result bytea NOT NULL
);
CREATE INDEX kept_results_by_end ON discovery.kept_results (kept_until);
-- What is encrypted cannot be compressed, and is not tried.
ALTER TABLE discovery.kept_results ALTER COLUMN result SET STORAGE EXTERNAL;

-- Roles that own no table see no row, as of all others.
ALTER TABLE discovery.access_tokens ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.kept_results ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.sealing_salt ENABLE ROW LEVEL SECURITY;
