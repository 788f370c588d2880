"""Sessions with MCP servers; a faulty server affects no other.

    upstreams         the entry point: lists the tools of servers and calls them
      listing         reads all pages of tools/list, drops unusable tools
      request_errors  maps a failed request to the error that its caller gets
      history         what a server did so far (breaker, counters), across sessions
      concurrency     limits: calls, starts and sessions at the same time
    session           one connection, from connecting to closing
      connect_strategy   which ways to connect are tried, in which order
      transport_opening  opens the transport of a session
      handshake       server/discover or initialize; rpc_client: the requests after it
    transport         the base class of
      stdio/          the pipes of a program, over the JSON-RPC of `discovery_engine.rpc`
      http/           streamable HTTP and SSE; `http.sdk` alone imports the MCP SDK
    identity          the digest that the approval of a server is bound to

The SDK takes most of a second to import, so `http` is imported with the first remote server. This
module imports nothing, so that commands which only read start quickly.
"""
