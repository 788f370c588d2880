"""Values against JSON Schemas of strangers, in bounded time and memory."""
