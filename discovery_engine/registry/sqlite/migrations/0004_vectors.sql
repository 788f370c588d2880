-- The vectors of texts. A text has one under each model, however many scopes use it.
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    digest BLOB NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (model, digest)
);

-- Which scopes use a vector; one that none uses is dropped.
CREATE TABLE vector_uses (
    scope INTEGER NOT NULL REFERENCES scopes ON DELETE CASCADE,
    vector INTEGER NOT NULL REFERENCES vectors ON DELETE CASCADE,
    PRIMARY KEY (scope, vector)
) WITHOUT ROWID;
CREATE INDEX uses_by_vector ON vector_uses (vector);
