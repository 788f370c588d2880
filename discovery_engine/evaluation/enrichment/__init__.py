"""Typical requests for tools, written by a language model of the owner's choice.

enrichment      `engine.enrichment`: the verbs of the owner
tool_messages   the text of a tool that is sent, and the instructions for the model
answer          the answer, which is untrusted: checked, and mostly dropped if it is odd
endpoint        the HTTP client, for endpoints that speak OpenAI's protocol
"""
