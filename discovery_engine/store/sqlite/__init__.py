"""The registry in one SQLite file."""
