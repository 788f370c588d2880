"""The owner's queries against the catalog, and lint that shows why a tool is hard to find."""
