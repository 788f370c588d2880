"""Files of a configuration: where they are, what was read, and who else may write them."""
