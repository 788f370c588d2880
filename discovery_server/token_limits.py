"""The limits of a token besides its view: some servers, some tools.

The limits are a scope like that of a view, so what they hide is unknown to the token wherever it is
used: in lists, searches, counts, suggestions and errors, over MCP and the API alike.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from discovery_engine.errors import ConfigurationError
from discovery_engine.rules.principals import PrincipalError, parse_principal
from discovery_engine.rules.rule import Rule
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
