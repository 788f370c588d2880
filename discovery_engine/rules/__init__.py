"""Rules that allow, deny and tag tools and servers."""
