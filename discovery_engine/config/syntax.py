"""What an address of a server and the name of a header look like."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"(https?://|\$\{)[^/?#\s]\S*", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def is_address(text: str) -> bool:
    """Whether a text is an HTTP address, or begins with a reference to one."""
    return _ADDRESS.fullmatch(text) is not None


def is_header_name(text: str) -> bool:
    return _HEADER_NAME.fullmatch(text) is not None
