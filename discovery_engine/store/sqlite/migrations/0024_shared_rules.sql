CREATE TABLE shared_rules (
    number INTEGER NOT NULL,
    key BLOB PRIMARY KEY,
    scope_key BLOB NOT NULL,
    scope TEXT NOT NULL,
    section TEXT NOT NULL,
    text TEXT NOT NULL,
    at REAL NOT NULL,
    checksum TEXT
);
