"""Servers at an address: what goes wrong with one request is the answer to that request alone.

link            messages over streamable HTTP, or over sse, the transport of old servers
  guard         the HTTP client of both, whose failures are answers
    outage      why an exchange broke, in words
    redirect    which redirects are followed, and where the others lead
    event_stream and large_results: what the SDK's own client gets to see of long answers
"""
