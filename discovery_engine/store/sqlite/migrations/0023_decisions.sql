-- Decisions have the tables and numbers that they have in PostgreSQL. A row that is damaged has no
-- checksum afterwards.

ALTER TABLE approvals RENAME TO earlier;
CREATE TABLE approvals (
    number INTEGER NOT NULL,
    key BLOB PRIMARY KEY,
    scope_key BLOB NOT NULL,
    server_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    identity TEXT NOT NULL,
    at REAL NOT NULL,
    checksum TEXT
);
INSERT OR IGNORE INTO approvals
SELECT id, key_of(scope, server, identity), key_of(scope), key_of(scope, server),
    to_column(scope), to_column(server), to_column(identity), at,
    iif(checksum = checksum_of(scope, server, identity, at), 'intact', NULL)
FROM earlier;
UPDATE approvals SET checksum = checksum_of(key, scope_key, server_key, scope, server, identity, at)
WHERE checksum IS NOT NULL;
DROP TABLE earlier;

ALTER TABLE acceptances RENAME TO earlier;
CREATE TABLE acceptances (
    number INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    scope_key BLOB NOT NULL,
    server_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    meaning TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL,
    at REAL NOT NULL,
    checksum TEXT
);
INSERT OR IGNORE INTO acceptances
SELECT id + min(0, (SELECT number FROM decision_log) - (SELECT max(id) FROM earlier)),
    key_of(scope, server, tool, meaning), key_of(scope), key_of(scope, server), to_column(scope),
    to_column(server), to_column(tool), to_column(meaning), to_column(fingerprint),
    to_column(definition), at,
    iif(checksum = checksum_of(scope, server, tool, meaning, fingerprint, definition, at),
    'intact', NULL)
FROM earlier;
UPDATE acceptances SET checksum = checksum_of(key, scope_key, server_key, scope, server, tool,
    meaning, fingerprint, definition, at)
WHERE checksum IS NOT NULL;
DROP TABLE earlier;
CREATE INDEX acceptances_by_server ON acceptances (server_key);

ALTER TABLE losses RENAME TO earlier;
CREATE TABLE losses (
    number INTEGER NOT NULL,
    key BLOB PRIMARY KEY,
    scope TEXT NOT NULL,
    at REAL NOT NULL,
    acknowledged REAL,
    checksum TEXT
);
INSERT OR IGNORE INTO losses
SELECT 0, key_of(scope), to_column(scope), at, acknowledged,
    iif(checksum = checksum_of(scope, at, acknowledged), 'intact', NULL)
FROM earlier;
UPDATE losses SET checksum = checksum_of(key, scope, at, acknowledged)
WHERE checksum IS NOT NULL;
DROP TABLE earlier;

ALTER TABLE registered_servers RENAME TO earlier;
CREATE TABLE registered_servers (
    number INTEGER NOT NULL,
    key BLOB PRIMARY KEY,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    content TEXT NOT NULL,
    checksum TEXT
);
INSERT OR IGNORE INTO registered_servers
SELECT id, key_of(scope, name), key_of(scope), to_column(scope), to_column(name),
    to_column(content),
    iif(checksum = checksum_of(scope, name, content), 'intact', NULL)
FROM earlier;
UPDATE registered_servers SET checksum = checksum_of(key, scope_key, scope, name, content)
WHERE checksum IS NOT NULL;
DROP TABLE earlier;

ALTER TABLE switches RENAME TO earlier;
CREATE TABLE switches (
    number INTEGER NOT NULL,
    key BLOB PRIMARY KEY,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    is_wanted INTEGER NOT NULL,
    at REAL NOT NULL,
    checksum TEXT
);
INSERT OR IGNORE INTO switches
SELECT id, key_of(scope, server), key_of(scope), to_column(scope), to_column(server), is_wanted, at,
    iif(checksum = checksum_of(scope, server, is_wanted, at), 'intact', NULL)
FROM earlier;
UPDATE switches SET checksum = checksum_of(key, scope_key, scope, server, is_wanted, at)
WHERE checksum IS NOT NULL;
DROP TABLE earlier;

ALTER TABLE server_marks RENAME TO earlier;
CREATE TABLE server_marks (
    key BLOB PRIMARY KEY,
    scope TEXT NOT NULL,
    mark TEXT NOT NULL
);
INSERT INTO server_marks SELECT key_of(scope), to_column(scope), mark FROM earlier;
DROP TABLE earlier;

ALTER TABLE decision_log RENAME TO earlier;
CREATE TABLE decision_log (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL,
    rows INTEGER NOT NULL DEFAULT 0
);
INSERT INTO decision_log SELECT id, number, rows FROM earlier;
DROP TABLE earlier;
