"""The meta-tool `registry`: servers and tools to look for, and servers to ask the owner for."""
