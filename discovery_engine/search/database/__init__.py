"""Search in a database: documents of tools there, and a searcher that fetches the few it needs."""
