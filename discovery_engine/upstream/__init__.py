"""Sessions with MCP servers; a faulty server affects no other.

    session_pool      the open sessions of all servers; `engine.upstreams` sends calls through them
    session           one session, as its callers use it: calls, listings, pings
      session_task    its life in one task: connect, serve, close
      call            a call in progress, and what its server asks meanwhile
      calls_in_flight to which calls of a session the requests of its server belong
      rpc_client      requests over an open connection, and the errors of those that fail
      task            a result that comes later
      listing         reads all pages of a list, drops unusable definitions
      history         what a server did so far (breaker, counters), across sessions
      concurrency     limits: calls and starts at the same time
      transport_opening  opens the transport of a session
      handshake       which ways to connect are tried
    transport         the base class of
      stdio/          the pipes of a program, over the JSON-RPC of `discovery_engine.rpc`
      http/           streamable HTTP and SSE
    openapi_server    a program of its own: operations of an OpenAPI document as tools
    skills_server     a program of its own: the skills of a folder
    identity          the digest that the approval of a server is bound to

The HTTP client takes a while to import, so `http` is imported with the first remote server. This
module imports nothing, so that commands which only read start quickly.
"""
