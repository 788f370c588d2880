-- Requests that a language model wrote for tools, once for each definition. They belong to no scope:
-- two configurations with the same server share them, and none of them goes with a listing.
-- An id is never used again, so that every change shows in the highest id or in the count.
CREATE TABLE typical_requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    requests TEXT NOT NULL,
    model TEXT NOT NULL,
    instructions INTEGER NOT NULL,
    at REAL NOT NULL,
    UNIQUE (server, tool, fingerprint)
);
