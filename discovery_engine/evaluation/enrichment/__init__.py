"""Typical requests for tools, written by a language model of the owner's choice.

enrichment      `engine.enrichment`: the verbs of the owner
tool_messages   the text of a tool that is sent, and the instructions for the model
enrichment_run  one run: each tool is asked about, and the answer, which is untrusted, is checked
endpoint        the HTTP client, for endpoints that speak OpenAI's protocol
"""
