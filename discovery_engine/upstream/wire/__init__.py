"""What strangers send, whichever way it comes: read in full, and at nobody else's cost.

messages        JSON-RPC between plain JSON and the SDK's envelopes
codec           bytes to JSON and back; slices reads what is large a little at a time
scheduler            how much of our time all servers together get for what nobody waits for, and
                for what is very large
"""
