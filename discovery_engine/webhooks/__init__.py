"""Webhooks: what happens to servers and tools, as signed messages for other programs."""
