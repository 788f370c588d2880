"""Typical requests for tools, written by a language model of the owner's choice.

instructions   what is sent of a tool, and what is asked
answer         what comes back, which is untrusted: checked, and mostly dropped if it is odd
endpoint       the HTTP client, for endpoints that speak OpenAI's protocol
"""
