"""One token that the owner gives to clients, and the form in which tokens are stored."""

from __future__ import annotations

import hashlib
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from discovery_server.token_files import token_problem
from discovery_server.token_limits import NO_LIMITS, TokenLimits

TokenScope: TypeAlias = Literal["read", "call", "admin"]
"""What a token allows: to look, to call tools, or what only the owner does."""
MCP_SCOPES: frozenset[TokenScope] = frozenset({"read", "call"})
"""What a client over MCP may do: it searches and reads, and it calls."""
ALL_SCOPES: frozenset[TokenScope] = frozenset(get_args(TokenScope))

START_OVER = "`discovery token create` makes new ones when it is moved away"

# The version of a document tells what its tokens have, so that older programs read what they know.
_PLAIN, _WITH_LIMITS, _WITH_PRINCIPALS = 1, 2, 3
_VERSIONS = (_PLAIN, _WITH_LIMITS, _WITH_PRINCIPALS)


class AccessToken(Struct, frozen=True):
    """What is known of a token; the token itself is not."""

    id: str
    digest: str
    """SHA-256, in hexadecimal."""
    created_at: float
    """Unix time in seconds."""
    name: str = ""
    view: str | None = None
    """The only view that it opens; None for all."""
    expires_at: float | None = None
    """Unix time in seconds; None for never."""
    scopes: frozenset[str] = frozenset()
    limits: TokenLimits = NO_LIMITS
    principals: tuple[str, ...] = ()
    """The teams and the user that it stands for."""

    def __repr__(self) -> str:
        return f"AccessToken({self.id!r}, {self.name!r}, view={self.view!r})"

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now


class _Document(Struct, frozen=True):
    version: int
    tokens: tuple[AccessToken, ...] = ()


def token_digest(value: bytes) -> str:
    """What is stored of a token.

    With 256 bits of randomness no digest can be inverted, and a slow one would only slow down every
    request.
    """
    return hashlib.sha256(value).hexdigest()


def encode_tokens(*tokens: AccessToken) -> bytes:
    """A document of these tokens, as JSON."""
    return msgspec.json.encode(_Document(_version_of(tokens), tokens), order="sorted")


def decode_tokens(data: bytes | str, origin: object) -> tuple[AccessToken, ...]:
    """The tokens of a document that is stored in `origin`.

    Raises:
        ConfigurationError: If it is damaged, or of a newer version.
    """
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.MsgspecError, ValueError) as error:
        message = "is damaged; it was left as it is"
        raise token_problem(origin, message, START_OVER) from error
    if document.version not in _VERSIONS:
        message = f"is of version {document.version}, which this program does not know"
        raise token_problem(origin, message, "use the newer version of discovery that wrote it")
    return document.tokens


def _version_of(tokens: tuple[AccessToken, ...]) -> int:
    # A program that does not know limits must not take a token that has some for one of all; one
    # that does not know principals must not take two tokens for the same.
    if any(token.principals for token in tokens):
        return _WITH_PRINCIPALS
    return _WITH_LIMITS if any(token.limits != NO_LIMITS for token in tokens) else _PLAIN
