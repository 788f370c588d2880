-- usable from: 3
-- What `search.where: database` looks through. Versions of the program analyze texts differently:
-- each has an index of its own, by the digest of all that it makes documents with.
CREATE TABLE discovery.search_indexes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope bigint NOT NULL REFERENCES discovery.scopes ON DELETE CASCADE,
    recipe bytea NOT NULL,
    revision bigint NOT NULL DEFAULT 0,
    used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (scope, recipe)
);

-- The documents of one server, as they are or were: a change adds a row and ends the one before.
CREATE TABLE discovery.search_servers (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    search_index bigint NOT NULL REFERENCES discovery.search_indexes ON DELETE CASCADE,
    key bytea NOT NULL,
    name text NOT NULL,
    made_of bytea NOT NULL,
    content bytea NOT NULL,
    revision bigint NOT NULL, -- of the index, when the row was last changed
    ended_at timestamptz
);
CREATE UNIQUE INDEX search_servers_now ON discovery.search_servers (search_index, key)
    WHERE ended_at IS NULL;
CREATE INDEX search_servers_by_revision ON discovery.search_servers (search_index, revision);

-- A tool: a number for each of its terms and the level of its impact, and the impacts themselves.
CREATE TABLE discovery.search_tools (
    server bigint NOT NULL REFERENCES discovery.search_servers ON DELETE CASCADE,
    position int NOT NULL,
    profile int NOT NULL,
    terms bigint[] NOT NULL,
    impacts bytea NOT NULL,
    PRIMARY KEY (server, position)
);
-- Without `fastupdate`: a search would read all that waits to be sorted in, once for each term.
CREATE INDEX search_tools_by_term ON discovery.search_tools USING gin (terms)
    WITH (fastupdate = off);

-- How many tools hold a term.
CREATE TABLE discovery.search_terms (
    search_index bigint NOT NULL REFERENCES discovery.search_indexes ON DELETE CASCADE,
    key bigint NOT NULL,
    term text NOT NULL,
    count bigint NOT NULL,
    revision bigint NOT NULL,
    PRIMARY KEY (search_index, key)
);
CREATE INDEX search_terms_by_revision ON discovery.search_terms (search_index, revision);
