"""The text of a tool that is embedded as its vector.

The parts and their order were measured: without the names of server and parameters fewer queries
find their tool, and with descriptions of parameters or of the server no more do
(`specs/embeddings.md` has the figures).
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from discovery_engine.search.text.tokenizer import words

if TYPE_CHECKING:
    from discovery_engine.tools.model import Tool

_BETWEEN = "\x00"
_MAX_EMBEDDING_TEXT_LENGTH = 2_000  # characters; models read less, and hosted ones bill by length


def embedding_text(tool: Tool) -> str:
    """For instance `github create issue: Opens an issue. (owner, repo, title)`."""
    parameters = ", ".join(_as_words(parameter.name) for parameter in tool.parameters)
    head = f"{_as_words(tool.server)} {_as_words(tool.name)}: {tool.description}"
    text = f"{head} ({parameters})" if parameters else head
    return text[:_MAX_EMBEDDING_TEXT_LENGTH]


def text_digest(*texts: str) -> bytes:
    """The key that the vector of a text is stored under, or the mean vector of several."""
    joined = _BETWEEN.join(texts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).digest()


def _as_words(name: str) -> str:
    """A name as words; one in a script without spaces as it is."""
    return " ".join(words(name)) if name.isascii() else name
