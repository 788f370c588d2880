-- usable from: 12
-- Vectors are compared in each gateway. `search_vectors` was made only where there is pgvector.
DROP TABLE IF EXISTS discovery.search_vectors;
DROP TABLE discovery.search_vector_servers, discovery.search_spaces;
