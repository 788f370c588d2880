-- usable from: 6
-- The vectors that a model gave to the tools of a search index. They themselves are in the table
-- `search_vectors`, which the program makes where it finds pgvector: its type is needed for that.
CREATE TABLE discovery.search_spaces (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    search_index bigint NOT NULL REFERENCES discovery.search_indexes ON DELETE CASCADE,
    key bytea NOT NULL,
    model text NOT NULL,
    dimensions int NOT NULL,
    used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (search_index, key, dimensions)
);

-- The servers whose documents have their vectors.
CREATE TABLE discovery.search_vector_servers (
    space int NOT NULL REFERENCES discovery.search_spaces ON DELETE CASCADE,
    server bigint NOT NULL REFERENCES discovery.search_servers ON DELETE CASCADE,
    PRIMARY KEY (space, server)
);
CREATE INDEX search_vector_servers_by_server ON discovery.search_vector_servers (server);

ALTER TABLE discovery.search_spaces ENABLE ROW LEVEL SECURITY;
ALTER TABLE discovery.search_vector_servers ENABLE ROW LEVEL SECURITY;
