"""Validation against untrusted JSON Schemas, in bounded time and memory."""
