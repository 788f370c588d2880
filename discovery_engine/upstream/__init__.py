"""Sessions with MCP servers; a faulty server affects no other.

    sessions          the entry point: lists the tools of servers and calls them
      listing         reads all pages of tools/list, drops unusable tools
      request_errors  maps a failed request to the error that its caller gets
      history         what a server did so far (breaker, counters), across sessions
      concurrency     limits: calls, starts and sessions at the same time
    session           one connection, from connecting to closing
      connect_strategy  which ways to connect are tried, in which order
      handshake       server/discover or initialize; rpc_client: the requests after it
    transport         the base class of
      stdio/          the pipes of a program
      http/           streamable HTTP and SSE
    wire/             JSON-RPC messages, and the CPU time spent on parsing them
    identity          the digest that the approval of a server is bound to

`sessions` imports the MCP SDK, which takes over a second of CPU. `state` and `connection` do not
import it, and this module imports nothing, so that commands which only read start quickly.
"""
