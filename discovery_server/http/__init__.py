"""Streamable HTTP for both protocol eras, behind checks of host, token and size.

http_server          the HTTP server, and the application that it runs
guard, authorization    middleware in front of every path
connections          limits on connections, and deadlines for their requests
streamable_http      the ASGI application for MCP, and requests up to 2025-11-25, in `sessions`
stateless_requests   requests since 2026-07-28, each complete in itself
"""
