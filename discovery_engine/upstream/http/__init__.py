"""Remote servers: a failure of one HTTP exchange is the answer to that one request.

http_transport    messages over streamable HTTP, or over sse, the transport of old servers
  guarded_client  the HTTP client of both; its failures are answers, not exceptions
    outage        why an exchange failed, as text
    redirect      which redirects are followed
    event_stream and large_results: long answers, before the SDK's client reads them
    logins        the logins of servers: `oauth` obtains and sends their tokens
"""
