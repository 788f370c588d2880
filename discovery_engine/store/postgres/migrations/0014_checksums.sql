-- usable from: 12
-- Decisions have the columns that they have in a file, where checksums are verified.
ALTER TABLE discovery.approvals ADD COLUMN checksum text;
ALTER TABLE discovery.acceptances ADD COLUMN checksum text;
ALTER TABLE discovery.losses ADD COLUMN number bigint NOT NULL DEFAULT 0, ADD COLUMN checksum text;
ALTER TABLE discovery.registered_servers ADD COLUMN checksum text;
ALTER TABLE discovery.switches ADD COLUMN number bigint NOT NULL DEFAULT 0, ADD COLUMN checksum text;
