"""Pydantic models of what an owner may write, and the JSON Schema made from them."""
