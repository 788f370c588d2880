"""The registry in one SQLite file, with a second copy of the decisions beside it."""
