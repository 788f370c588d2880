"""Tables of a registry whose statements are the same in a file and in a database."""
