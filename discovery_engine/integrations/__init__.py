"""Adapters for agent frameworks: one module each, which stands on `engine.toolset()`.

Each needs its framework, which an extra of the same name installs:

    pip install 'mcp-discovery-engine[pydantic-ai]'

Nothing else of the engine imports them, and none imports the MCP adapter of a framework.
"""
