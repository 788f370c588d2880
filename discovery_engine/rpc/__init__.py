"""JSON-RPC on the wire, for both sides: towards clients and towards servers.

messages          messages, errors, and the interface `Peer` of the other side
client            the interface `Client`: who made a call, is asked and is notified
stream_peer       a peer over lines of text
in_flight         our requests while they wait, and those of the other side while they are worked on
request_timer     how long a request waits; many deadlines share one timer of the loop
request_headers   the HTTP headers that repeat a request
validity          results and definitions in the shapes of the protocol (`shapes`)
protocol          versions, reserved keys and error codes of MCP
json_codec        a byte stream to lines, lines to JSON and back
incremental_json  parses large messages in steps
scheduling        the event-loop time that floods and large answers of all servers get
"""
