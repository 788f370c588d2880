"""Messages on the wire, for every transport: parsed completely, at a bounded cost.

messages          JSON-RPC between plain JSON and the SDK's types
json_codec        bytes to JSON and back; incremental_json parses large answers in steps
scheduling        the event-loop time that floods and large answers of all servers get
"""
