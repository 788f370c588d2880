"""Limits on the length of a caller's input, checked before any work is done on it.

The engine checks them, so they hold for clients, programs and the command line alike. Behind them,
work may take time that grows with the square of the input.
"""

from __future__ import annotations

from collections.abc import Collection

from discovery_engine.errors import InputTooLongError

QUERY_BYTES = 8_192
"""Bytes of a query in UTF-8: some 1,300 English words, or 2,700 Chinese characters."""
NAME_LENGTH = 256
"""Characters of the name of a server, a tool, a tag or an argument of a meta-tool."""
URI_LENGTH = 4 * NAME_LENGTH
"""Characters of the address of a resource, of which a percent-encoded one takes several."""
ADDRESS_LENGTH = 4 * URI_LENGTH
"""Characters of such an address that is percent-encoded behind the name of its server."""
PROMPT_NAME_LENGTH = NAME_LENGTH
"""Characters of the name of a prompt."""
TAGS = 64
"""Tags of one search."""
ARGUMENTS = 1_000
"""Arguments of one call; what they contain is not counted."""

_MAX_REFUSED_NAME_LENGTH = 40  # characters of a name that is refused


def require_query(query: str) -> None:
    """Raises `InputTooLongError` for a query that is longer than `QUERY_BYTES`."""
    if len(query) > QUERY_BYTES // 4:  # a character takes four bytes at the most
        # What has more characters than it may have bytes need not be encoded.
        is_long = len(query) > QUERY_BYTES
        size = len(query) if is_long else len(query.encode(errors="surrogatepass"))
        unit = "characters" if is_long else "bytes of UTF-8"
        if size > QUERY_BYTES:
            limit = f"{QUERY_BYTES:,} bytes of UTF-8"
            raise InputTooLongError(
                "the query",
                f"{size:,} {unit}",
                limit,
                hint="describe the task in a sentence or two",
            )


def shortened_query(text: str) -> str:
    """A text as a query: of one that is longer than `QUERY_BYTES`, the beginning and the end."""
    text = text.strip()
    data = text.encode(errors="replace")
    if len(data) <= QUERY_BYTES:
        return text
    half = QUERY_BYTES // 2 - 1
    return f"{data[:half].decode(errors='ignore')}\n{data[-half:].decode(errors='ignore')}"


def require_name(what: str, name: str | None) -> None:
    """Raises `InputTooLongError` for a name that is longer than `NAME_LENGTH`."""
    if name is not None and len(name) > NAME_LENGTH:
        raise InputTooLongError(
            f"the {what} {shortened(name, _MAX_REFUSED_NAME_LENGTH)!r}",
            f"{len(name):,} characters",
            f"{NAME_LENGTH}",
            hint="give it as it is listed; text belongs into `query` or `arguments`",
        )


def require_uri(uri: str) -> None:
    """Raises `InputTooLongError` for a URI that is longer than `ADDRESS_LENGTH`."""
    _require("URI", uri, ADDRESS_LENGTH)


def require_prompt_name(name: str) -> None:
    """Raises `InputTooLongError` for the name of a prompt longer than that and its server."""
    _require("name of a prompt", name, NAME_LENGTH + 1 + PROMPT_NAME_LENGTH)


def _require(what: str, text: str, most: int) -> None:
    if len(text) > most:
        raise InputTooLongError(
            f"the {what} {shortened(text, _MAX_REFUSED_NAME_LENGTH)!r}",
            f"{len(text):,} characters",
            f"{most:,}",
            hint="give it as it is listed",
        )


def require_names(what: str, names: Collection[str], *, most: int) -> None:
    """Raises `InputTooLongError` if there are more than `most`, or one is too long."""
    if len(names) > most:
        require_count(f"{what}s", len(names), most)
    for name in names:
        if len(name) > NAME_LENGTH:
            require_name(what, name)


def require_count(what: str, count: int, most: int) -> None:
    """Raises `InputTooLongError` if there are more than `most`."""
    if count > most:
        raise InputTooLongError(f"the list of {what}", f"{count:,}", f"{most:,}", hint="give fewer")


def shortened(text: str, length: int) -> str:
    """At most `length` characters of `text`, with a mark where more are missing."""
    return text if len(text) <= length else f"{text[:length]}…"
