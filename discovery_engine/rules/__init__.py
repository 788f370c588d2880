"""Allow, deny and tag rules over tools and servers."""
