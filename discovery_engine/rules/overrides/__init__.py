"""The owner's names, descriptions, tags and fixed arguments in place of a server's own."""
