"""How well tools are found: the owner's queries, lint, and requests written by a language model."""
