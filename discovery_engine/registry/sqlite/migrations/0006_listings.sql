-- What a server listed is one row, with a column for each field of its tools, in their order: ten
-- thousand small rows cost a start more than all else that it does.
CREATE TABLE listings (
    server INTEGER PRIMARY KEY REFERENCES servers ON DELETE CASCADE,
    names TEXT NOT NULL, -- JSON
    upstream_names TEXT NOT NULL, -- JSON
    verdicts TEXT NOT NULL, -- JSON of those that differ, a line each
    judged TEXT NOT NULL, -- JSON: numbers of verdicts, and how many tools in a row have each
    sources BLOB NOT NULL, -- the definitions in UTF-8, a line each
    digest BLOB -- of what the tools say; NULL where an older version wrote the row
);

-- Names that are not UTF-8 were kept as bytes, which JSON cannot hold: such a server is listed anew.
UPDATE servers SET part = NULL WHERE id IN (
    SELECT server FROM tools WHERE 'blob' IN (typeof(name), typeof(upstream_name))
);
INSERT INTO listings (server, names, upstream_names, verdicts, judged, sources)
SELECT
    id,
    (SELECT json_group_array(name)
        FROM (SELECT name FROM tools WHERE server = servers.id ORDER BY id)),
    (SELECT json_group_array(upstream_name)
        FROM (SELECT upstream_name FROM tools WHERE server = servers.id ORDER BY id)),
    (SELECT coalesce(group_concat(verdict, char(10)), '')
        FROM (SELECT DISTINCT verdict FROM tools WHERE server = servers.id ORDER BY verdict)),
    (SELECT json_group_array(json_array(number, 1))
        FROM (SELECT dense_rank() OVER (ORDER BY verdict) - 1 AS number
            FROM tools WHERE server = servers.id ORDER BY id)),
    (SELECT CAST(coalesce(group_concat(source, char(10)), '') AS BLOB)
        FROM (SELECT source FROM tools WHERE server = servers.id ORDER BY id))
FROM servers WHERE part IS NOT NULL;
DROP TABLE tools;

-- An index is told by these digests now.
DELETE FROM indexes;
