"""Principals: the teams and users whom a server or tool may be reserved for.

    visibleTo: [team:payments, user:anna@example.com]

Names are compared as they are written, case included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PRINCIPAL = re.compile(r"(?:team|user):[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_NAMES = "begin with a letter or a digit, go on with letters, digits and . _ @ + -"


class PrincipalError(ValueError):
    """A text that names neither a team nor a user."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} names no team and no user")
        self.hint = f"write team:NAME or user:NAME; names {_NAMES}"


def parse_principals(texts: Iterable[str]) -> frozenset[str]:
    """The teams and users of these texts.

    Raises:
        PrincipalError: For the first that names none.
    """
    return frozenset(map(parse_principal, texts))


def parse_principal(text: str) -> str:
    """The text itself, if it names a team or a user.

    Raises:
        PrincipalError: If it does not.
    """
    if not _PRINCIPAL.fullmatch(text):
        raise PrincipalError(text)
    return text
