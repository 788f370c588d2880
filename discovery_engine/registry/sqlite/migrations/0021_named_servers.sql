-- Until when a job counts as named by a process that has its server in its configuration: a Unix
-- time in seconds. NULL where none has that knows this column.
ALTER TABLE refresh_jobs ADD COLUMN named_until REAL;
