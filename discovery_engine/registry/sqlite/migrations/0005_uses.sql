-- How often tools were used that had been found, where the owner wants that counted: what the
-- count was worth at `at`, which is Unix time in seconds.
CREATE TABLE uses (
    server INTEGER NOT NULL REFERENCES servers ON DELETE CASCADE,
    tool TEXT NOT NULL,
    count REAL NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (server, tool)
) WITHOUT ROWID;
