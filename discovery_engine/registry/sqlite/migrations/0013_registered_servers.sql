-- Servers that stand in no file, and the owner's switches for any server. Both are decisions: each
-- row has a checksum, and the journal beside the database has a second copy.
CREATE TABLE registered_servers (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    content TEXT NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (scope, name)
);
CREATE TABLE switches (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    is_wanted INTEGER NOT NULL,
    at REAL NOT NULL,
    checksum TEXT NOT NULL,
    UNIQUE (scope, server)
);

-- Another mark after every change of a scope's servers or switches, so that a start finds out by one
-- row whether the settings that it remembers still hold.
CREATE TABLE server_marks (
    scope TEXT PRIMARY KEY,
    mark TEXT NOT NULL
);
