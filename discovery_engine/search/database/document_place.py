"""Where the document of a tool is in a database."""

from __future__ import annotations

from typing import NamedTuple


class DocumentPlace(NamedTuple):
    number: int
    """That of its server's documents."""
    position: int
    """In the order of the names of the server's tools."""
