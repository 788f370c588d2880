-- What the owner approved to be started. It outlives the scope's world: what was forgotten with a
-- removed server would be washed by adding it again.
CREATE TABLE approvals (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    identity TEXT NOT NULL,
    at REAL NOT NULL,
    UNIQUE (scope, server, identity)
);

-- Every tool as it was ever accepted, by its owner or at first sight; `id` rises with time. The
-- instructions of a server stand under the tool ''.
CREATE TABLE acceptances (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    meaning TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL,
    at REAL NOT NULL,
    UNIQUE (scope, server, tool, meaning)
);
