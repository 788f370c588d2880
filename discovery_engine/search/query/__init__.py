"""A query: its weighted terms, clauses and passages, the tools it names, and its candidates."""
