-- Decisions have a second copy in a journal beside the database. `number` and `checksum` are those
-- of its newest line; `rows` is how many approvals, acceptances and losses there are. An empty
-- checksum means that the journal has yet to be written.
CREATE TABLE decision_log (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    number INTEGER NOT NULL,
    checksum TEXT NOT NULL,
    rows INTEGER NOT NULL
);
INSERT INTO decision_log (id, number, checksum, rows)
SELECT 1, count(*), '', count(*) FROM (SELECT id FROM approvals UNION ALL SELECT id FROM acceptances);

-- Of a row's other columns; NULL where an older version wrote the row.
ALTER TABLE approvals ADD COLUMN checksum TEXT;
ALTER TABLE acceptances ADD COLUMN checksum TEXT;

-- When decisions of a scope were lost, and when its owner acknowledged that; '*' is every scope
-- that has no row of its own.
CREATE TABLE losses (
    scope TEXT PRIMARY KEY,
    at REAL NOT NULL,
    acknowledged REAL,
    checksum TEXT NOT NULL
);
