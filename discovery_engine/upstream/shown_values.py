"""Values of variables and headers as they are shown when a server is to be approved."""

from __future__ import annotations

from discovery_engine.secrets.references import (
    REDACTED,
    MalformedReferenceError,
    redact_literals,
    split,
)
from discovery_engine.upstream.identity import selects_code


def shown_value(name: str, text: str, *, is_secret: bool) -> str:
    """A value as it stands in an entry, which is shown whole if it decides what runs.

    Args:
        name: Of the variable or header.
        text: Its value, with references.
        is_secret: Whether its literal text may be a secret; only its references are shown then.
    """
    if selects_code(name):
        return text
    if is_secret:
        return redact_literals(text)
    try:
        parts = split(text)
    except MalformedReferenceError:
        return REDACTED
    return "".join(
        part.replace("${", "$${") if isinstance(part, str) else part.redacted() for part in parts
    )
