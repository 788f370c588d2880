"""What the owner says of tools in place of their servers."""
