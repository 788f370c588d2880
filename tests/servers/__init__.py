"""Real MCP servers to start as programs, and what tests need to reach them."""
