"""Limits on the length of a caller's input, checked before any work is done on it.

The engine checks them, so they hold for clients, programs and the command line alike. The work
behind them may take quadratic time.
"""

from __future__ import annotations

from collections.abc import Collection

from discovery_engine.errors import InputTooLongError

QUERY_BYTES = 8_192
"""Bytes of a query in UTF-8: some 1,300 English words, or 2,700 Chinese characters."""
NAME_LENGTH = 256
"""Characters of the name of a server, a tool, a tag or an argument of a meta-tool."""
URI_LENGTH = 4 * NAME_LENGTH
"""Characters of a resource's URI; percent-encoding takes three for a byte."""
ADDRESS_LENGTH = 4 * URI_LENGTH
"""Characters of such a URI after it was percent-encoded behind its server's name."""
PROMPT_NAME_LENGTH = NAME_LENGTH
"""Characters of the name of a prompt."""
TAGS = 64
"""Tags of one search."""
ARGUMENTS = 1_000
"""Arguments of one call; what they contain is not counted."""

_MAX_REFUSED_NAME_LENGTH = 40  # characters of a name that is refused


def require_query(query: str) -> None:
    """Raise `InputTooLongError` if a query is longer than `QUERY_BYTES`."""
    if len(query) > QUERY_BYTES // 4:  # a character takes four bytes at the most
        # More characters than allowed bytes: too long without encoding it.
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
    """Return a text as a query; over `QUERY_BYTES`, only its beginning and its end."""
    text = text.strip()
    data = text.encode(errors="replace")
    if len(data) <= QUERY_BYTES:
        return text
    half = QUERY_BYTES // 2 - 1
    return f"{data[:half].decode(errors='ignore')}\n{data[-half:].decode(errors='ignore')}"


def require_name(what: str, name: str | None) -> None:
    """Raise `InputTooLongError` if a name is longer than `NAME_LENGTH`."""
    if name is not None and len(name) > NAME_LENGTH:
        raise InputTooLongError(
            f"the {what} {shortened(name, _MAX_REFUSED_NAME_LENGTH)!r}",
            f"{len(name):,} characters",
            f"{NAME_LENGTH}",
            hint="give it as it is listed; text belongs into `query` or `arguments`",
        )


def require_uri(uri: str) -> None:
    """Raise `InputTooLongError` if a URI is longer than `ADDRESS_LENGTH`."""
    _require("URI", uri, ADDRESS_LENGTH)


def require_prompt_name(name: str) -> None:
    """Raise `InputTooLongError` if a prompt's name, with its server's, is too long."""
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
    """Raise `InputTooLongError` if there are more than `most` names, or one is too long."""
    if len(names) > most:
        require_count(f"{what}s", len(names), most)
    for name in names:
        if len(name) > NAME_LENGTH:
            require_name(what, name)


def require_count(what: str, count: int, most: int) -> None:
    """Raise `InputTooLongError` if `count` is more than `most`."""
    if count > most:
        raise InputTooLongError(f"the list of {what}", f"{count:,}", f"{most:,}", hint="give fewer")


def shortened(text: str, length: int) -> str:
    """Return at most `length` characters of `text`, and `…` where more are missing."""
    return text if len(text) <= length else f"{text[:length]}…"
