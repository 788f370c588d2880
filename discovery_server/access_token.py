"""One token that the owner gives to clients, its limits, and the form in which it is stored.

Limits are a scope like that of a view, so what they hide is unknown to the token wherever it is
used: in lists, searches, counts, suggestions and errors, over MCP and the API alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import ConfigurationError
from discovery_engine.rules.rule import PrincipalError, Rule, parse_principal, parse_principals
from discovery_engine.view.scope import Scope
from discovery_server.token_files import token_problem

_MAX_LIMIT_PATTERNS = 64  # patterns of a kind; the file of all tokens has a limit of its own
_NOTHING = (Rule(enabled=False),)


class TokenLimits(Struct, frozen=True, omit_defaults=True):
    """Patterns as rules have them; of a kind without any, there is no limit."""

    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def scope(self) -> Scope:
        """Return the scope that the limits show.

        With `tools` it has tools alone, and no server that has none of them: patterns of tools say
        nothing about resources and prompts, and what is not named is not given.
        """
        if not self.tools:
            return Scope(servers=self.servers)
        return Scope(
            servers=self.servers,
            rules=(Rule(patterns=self.tools, enabled=True),),
            resource_rules=_NOTHING,
            prompt_rules=_NOTHING,
            hides_empty_servers=True,
        )


NO_LIMITS = TokenLimits()
NO_PRINCIPALS: frozenset[str] = frozenset()
"""Who stands for no team and no user, as a client without a token."""


def checked_limits(servers: Sequence[str], tools: Sequence[str]) -> TokenLimits:
    """The limits of these patterns.

    Raises:
        ConfigurationError: If one cannot be used, or there are too many.
    """
    for option, patterns in (("--server", servers), ("--tool", tools)):
        if len(patterns) > _MAX_LIMIT_PATTERNS:
            message = f"{len(patterns)} patterns are too many"
            raise token_problem(
                option, message, f"{_MAX_LIMIT_PATTERNS} are the most; `*` stands for many names"
            )
        _require_usable(option, patterns)
    return TokenLimits(tuple(servers), tuple(tools))


def checked_principals(teams: Sequence[str], user: str | None) -> tuple[str, ...]:
    """The teams and the user that a token stands for.

    Raises:
        ConfigurationError: If one has no name that can be used, or there are too many.
    """
    if len(teams) > _MAX_LIMIT_PATTERNS:
        raise token_problem(
            "--team", f"{len(teams)} teams are too many", f"{_MAX_LIMIT_PATTERNS} are the most"
        )
    pairs = [("--team", f"team:{team}") for team in teams]
    pairs += [("--user", f"user:{user}")] if user is not None else []
    for option, principal in pairs:
        try:
            parse_principal(principal)
        except PrincipalError as error:
            raise token_problem(option, str(error), error.hint) from error
    return tuple(sorted({principal for _, principal in pairs}))


def _require_usable(option: str, patterns: Sequence[str]) -> None:
    # Compiling patterns loads a library that only the making of a token needs here.
    from discovery_engine.rules.patterns import Pattern, PatternError  # noqa: PLC0415

    for text in patterns:
        try:
            Pattern.parse(text)
        except PatternError as error:
            raise _unusable(option, error.text, error.reason) from error


def _unusable(option: str, text: str, reason: str) -> ConfigurationError:
    hint = "a pattern is written as in the rules, for instance `github`, `jira-*` or `!*delete*`"
    return token_problem(option, f"the pattern {text!r} cannot be used: {reason}", hint)


TokenScope: TypeAlias = Literal["read", "call", "admin"]
"""One permission of a token: to look, to call tools, or to do what only the owner may."""
MCP_SCOPES: frozenset[TokenScope] = frozenset({"read", "call"})
"""The scopes of a client over MCP, which searches, reads and calls."""
ALL_SCOPES: frozenset[TokenScope] = frozenset(get_args(TokenScope))

START_OVER = "`discovery token create` makes new ones when it is moved away"

# The version of a document tells what its tokens have, so that older programs read what they know.
_PLAIN, _WITH_LIMITS, _WITH_PRINCIPALS = 1, 2, 3
_VERSIONS = (_PLAIN, _WITH_LIMITS, _WITH_PRINCIPALS)

_UnixTime: TypeAlias = Annotated[float, Meta(ge=0, lt=253_402_300_800)]  # until the year 10,000


class AccessToken(Struct, frozen=True):
    """The data that is stored about a token, without the token itself."""

    id: str
    digest: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    """SHA-256, in hexadecimal; empty if what is stored of the token is damaged."""
    created_at: _UnixTime
    """In seconds."""
    name: str = ""
    view: str | None = None
    """The only view that it opens; None for all."""
    expires_at: _UnixTime | None = None
    """In seconds; None for never."""
    scopes: frozenset[str] = frozenset()
    limits: TokenLimits = NO_LIMITS
    principals: tuple[str, ...] = ()
    """The teams and the user that it stands for."""

    def __repr__(self) -> str:
        return f"AccessToken({self.id!r}, {self.name!r}, view={self.view!r})"

    @property
    def is_damaged(self) -> bool:
        """True if nothing but its id and name could be read; it opens nothing then."""
        return not self.digest

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now


def token_form(token: AccessToken, now: float) -> JSONObject:
    """Describe a token without its value or digest; `now` is Unix time."""
    return {
        "id": token.id,
        "name": token.name,
        "view": token.view,
        "servers": list(token.limits.servers),
        "tools": list(token.limits.tools),
        "scopes": sorted(token.scopes),
        "principals": list(token.principals),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "is_damaged": token.is_damaged,
        "is_expired": token.is_expired(now),
    }


class _Document(Struct, frozen=True):
    version: int
    tokens: tuple[msgspec.Raw, ...] = ()


class _Label(Struct, frozen=True):
    id: str = ""
    name: str = ""


def token_digest(value: bytes) -> str:
    """Return the digest of a token, which is stored in its place.

    With 256 bits of randomness no digest can be inverted, and a slow one would only slow down every
    request.
    """
    return hashlib.sha256(value).hexdigest()


def encode_tokens(*tokens: AccessToken) -> bytes:
    """A document of these tokens, as JSON."""
    return msgspec.json.encode({"version": _version_of(tokens), "tokens": tokens}, order="sorted")


def decode_tokens(data: bytes | str, origin: object) -> tuple[AccessToken, ...]:
    """The tokens of a document that is stored in `origin`; a damaged one spoils no other.

    Raises:
        ConfigurationError: If it is no such document, or of a newer version.
    """
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.MsgspecError, ValueError) as error:
        message = "is damaged; it was left as it is"
        raise token_problem(origin, message, START_OVER) from error
    if document.version not in _VERSIONS:
        message = f"is of version {document.version}, which this program does not know"
        raise token_problem(origin, message, "use the newer version of discovery that wrote it")
    return tuple(_token(number, row) for number, row in enumerate(document.tokens, 1))


def _token(number: int, row: msgspec.Raw) -> AccessToken:
    try:
        token = msgspec.json.decode(row, type=AccessToken)
        checked_limits(token.limits.servers, token.limits.tools)
        parse_principals(token.principals)
    except (msgspec.MsgspecError, ValueError, ConfigurationError):
        label = _label(row)
        return AccessToken(
            label.id or f"damaged-{number}", digest="", created_at=0, name=label.name
        )
    return token


def _label(row: msgspec.Raw) -> _Label:
    try:
        return msgspec.json.decode(row, type=_Label)
    except (msgspec.MsgspecError, ValueError):
        return _Label()


def _version_of(tokens: tuple[AccessToken, ...]) -> int:
    # A program that does not know limits must not take a token that has some for one of all; one
    # that does not know principals must not take two tokens for the same.
    if any(token.principals for token in tokens):
        return _WITH_PRINCIPALS
    return _WITH_LIMITS if any(token.limits != NO_LIMITS for token in tokens) else _PLAIN
