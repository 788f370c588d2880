"""Analysis of a query: weighted terms, clauses, passages, and the tools that it names."""
