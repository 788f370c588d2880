"""The most of anything that is taken from a source of the marketplace.

What is only shown is cut to its bound. What would decide what runs is never cut: an offer that is
beyond a bound is refused as a whole.
"""

from __future__ import annotations

NAME = 200
"""Characters of a name; the official schema has the same."""
TEXT = 2_000
"""Characters of a description or a message."""
ADDRESS = 2_048
"""Characters of an address, as browsers take them."""
VALUE = 8_192
"""Characters of an argument, a default or a template."""
INPUTS = 100
"""Arguments of one kind, variables of an environment, headers, variables of a template."""
CHOICES = 200
OFFERS = 20
"""Packages, and as many remote addresses, of one entry."""
TOOLS = 500
TOOL_TEXT = 600
"""Characters of the description of a tool: what a search reads of it."""
TAGS = 20
VERSIONS = 50

PAGE_BYTES = 5 * 1024 * 1024
"""Bytes of one answer, decompressed; a hundred entries of the official registry take 0.2 MB."""
CATALOG_BYTES = 16 * 1024 * 1024
"""Bytes of a whole catalog or list; Docker's catalog takes 1.5 MB."""
ENTRY_BYTES = 256 * 1024
"""Bytes of one entry of a page."""
PAGES = 2_000
"""Pages of one synchronisation, with a hundred entries each."""
SYNC_BYTES = 1024 * 1024 * 1024
"""Bytes of one synchronisation, decompressed."""
ENTRIES = 100_000
"""Entries of one source."""
CURSOR = 2_048
"""Characters of a cursor."""
