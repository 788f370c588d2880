"""JSON-RPC on the wire, for both sides: towards clients and towards servers.

peer              the interface `Peer`: requests and notifications, their errors and time limits
client            the interface `Client`: who made a call, is asked and is notified
stream_peer       a peer over lines of text
pending           our requests to the other side, while they are in flight
incoming          the requests of the other side, each worked on in a task
request_timer     how long a request waits; many deadlines share one timer of the loop
messages          messages between plain JSON and structs
protocol          versions, reserved keys and error codes of MCP
json_codec        bytes to JSON and back; incremental_json parses large messages in steps
framing           a byte stream to lines, in bounded memory
scheduling        the event-loop time that floods and large answers of all servers get
"""
