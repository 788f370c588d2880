-- The search index of a scope's world, in a form of the search room's own. Whether it fits the
-- world is for that room to see.
CREATE TABLE indexes (
    scope INTEGER PRIMARY KEY REFERENCES scopes ON DELETE CASCADE,
    data BLOB NOT NULL
);
