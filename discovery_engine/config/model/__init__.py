"""What an owner may write, as pydantic models, and the JSON Schema made from them."""
