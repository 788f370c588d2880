"""The one text of a tool that its vector is made from.

The order and the parts were measured: without the server's name or those of the parameters fewer
queries find their tool, and with descriptions of parameters no more do.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from discovery_engine.search.text.tokens import words

if TYPE_CHECKING:
    from discovery_engine.tools.model import Tool

_LONGEST = 2_000  # characters; models read less, and addresses bill by length


def text_of(tool: Tool) -> str:
    """For instance `github create issue: Opens an issue. (owner, repo, title)`."""
    parameters = ", ".join(_spoken(one.name) for one in tool.parameters)
    head = f"{_spoken(tool.server)} {_spoken(tool.name)}: {tool.description}"
    text = f"{head} ({parameters})" if parameters else head
    return text[:_LONGEST]


def digest_of(text: str) -> bytes:
    """What a text's vector is kept under."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _spoken(name: str) -> str:
    """A name as words; one in a script without spaces as it is."""
    return " ".join(words(name)) if name.isascii() else name
