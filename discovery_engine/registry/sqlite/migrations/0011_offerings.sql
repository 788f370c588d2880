-- Resources, resource templates and prompts of a server, with their verdicts: JSON, in their order.
-- NULL if it has none, or an older version wrote the row.
ALTER TABLE listings ADD COLUMN offerings TEXT;
