"""The owner's queries against the owner's catalog, and what makes its tools hard to find."""
