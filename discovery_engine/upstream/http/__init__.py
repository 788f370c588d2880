"""Remote servers: a failure of one HTTP exchange is the answer to that one request.

http_transport    messages over streamable HTTP, or over SSE, the transport of old servers
  http_peer       the JSON-RPC of both; event_stream reads events
  http_client     the HTTP client of both: redirects, refusals, JSON and events of a response
    http_failure  why an exchange failed, as a value and as text
    logins        the logins of servers: `oauth` obtains and sends their tokens
"""
