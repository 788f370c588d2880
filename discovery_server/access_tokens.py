"""Tokens that the owner of a gateway gives to clients, each for all that is served or a part.

    tokens = AccessTokens(folder / "tokens.json")
    value, token = tokens.create(name="ci", view="readers", lifetime=86_400)

What is stored is the SHA-256 of each token, not the token: in a file of this machine, and for
gateways that share a database in that.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from discovery_engine._util.suggestions import nearest
from discovery_engine.engine.restore import registry_path
from discovery_engine.errors import NotFoundError
from discovery_engine.rules.rule import parse_principals
from discovery_server.access_token import (
    MCP_SCOPES,
    NO_LIMITS,
    AccessToken,
    TokenLimits,
    TokenScope,
    token_digest,
)
from discovery_server.stored_tokens import SharedTokens, StoredTokens
from discovery_server.token_files import token_problem

FILE = "tokens.json"

_BYTES = 32  # 256 bits of randomness
_PREFIX = "discovery_"  # by which scanners of repositories find a token that was published
_ID = 4  # random bytes
_MAX_ACCESS_TOKENS = 1000  # tokens; every one is compared at each request
_NAME = re.compile(r"[\w][\w .@:/-]{0,63}")


class AccessTokenNotFoundError(NotFoundError):
    code = "TOKEN_NOT_FOUND"

    def __init__(self, id_or_name: str, names: Sequence[str] = ()) -> None:
        super().__init__(
            f"there is no access token {id_or_name!r}",
            nearest(id_or_name, names),
            hint="`discovery token list` shows them",
        )


class AccessTokens:
    """The tokens of a file, and the tokens that gateways share; opening reads nothing."""

    def __init__(
        self,
        path: Path,
        *,
        shared: SharedTokens | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`shared` is where new ones are stored, if there is such; `clock` is Unix time."""
        self.path = path
        self.shared = shared
        self._stored = StoredTokens(path)
        self._clock = clock

    @classmethod
    def of_data_folder(
        cls,
        data_dir: str | Path | None,
        environ: Mapping[str, str],
        *,
        shared: SharedTokens | None = None,
    ) -> AccessTokens:
        """Return the tokens of all gateways with a data folder, given as to `open_engine`."""
        return cls(registry_path(data_dir, environ).with_name(FILE), shared=shared)

    def create(
        self,
        *,
        name: str = "",
        view: str | None = None,
        lifetime: float | None = None,
        scopes: frozenset[TokenScope] = MCP_SCOPES,
        limits: TokenLimits = NO_LIMITS,
        principals: Iterable[str] = (),
    ) -> tuple[str, AccessToken]:
        """A new token, and what is kept of it.

        Args:
            name: For its owner.
            view: The only view that it opens; None for all.
            lifetime: Seconds for which it is valid; None for ever.
            scopes: What it allows; clients over MCP need `read` and `call`.
            limits: The only servers and tools that it shows, of those of its view.
            principals: The teams and the user that it stands for, as `visibleTo` names them.

        Raises:
            ConfigurationError: If the name or the scopes cannot be used, or the file cannot be read
                or written.
            PrincipalError: If one of `principals` names neither a team nor a user.
            RegistryError: If it is to be shared, and the database does not answer.
        """
        stands_for = tuple(sorted(parse_principals(principals)))
        if "admin" in scopes and (view is not None or limits != NO_LIMITS or stands_for):
            hint = "leave out the view, the servers, tools, teams and user, or the scope"
            message = "a token that shows a part cannot do what only the owner may"
            raise token_problem("--scope", message, hint)
        if name and not _NAME.fullmatch(name):
            allowed = "use up to 64 letters, digits, blanks and . _ - @ : /"
            raise token_problem("--name", f"is no name for a token: {name!r}", allowed)
        value, now = _PREFIX + secrets.token_urlsafe(_BYTES), self._clock()
        token = AccessToken(
            secrets.token_hex(_ID),
            token_digest(value.encode()),
            created_at=now,
            name=name,
            view=view,
            expires_at=None if lifetime is None else now + lifetime,
            scopes=frozenset(scopes),
            limits=limits,
            principals=stands_for,
        )

        def add(tokens: tuple[AccessToken, ...]) -> tuple[AccessToken, ...]:
            entries = [entry for entry in tokens if not entry.is_expired(now)]
            if name and any(entry.name == name for entry in entries):
                hint = "choose another one, or revoke it first"
                raise token_problem("--name", f"another token has the name {name!r}", hint)
            if len(entries) >= _MAX_ACCESS_TOKENS:
                message = f"holds {_MAX_ACCESS_TOKENS} tokens, which are the most"
                origin = "the registry" if self.shared else self.path
                raise token_problem(origin, message, "`discovery token revoke` ends one")
            return (*entries, token)

        (self.shared or self._stored).change(add)
        return value, token

    def revoke(self, *ids_or_names: str) -> tuple[AccessToken, ...]:
        """End tokens: they are valid for no further request. All of them, or none.

        Raises:
            AccessTokenNotFoundError: If there is none of an id or name.
            ConfigurationError: If the file cannot be read or written.
            RegistryError: If the database of shared ones does not answer.
        """
        stores = [(store, store.all()) for store in (self._stored, self.shared) if store]
        all_tokens = [token for _, tokens in stores for token in tokens]
        ended = tuple(dict.fromkeys(_named(all_tokens, id_or_name) for id_or_name in ids_or_names))
        for store, tokens in stores:
            if not set(ended).isdisjoint(tokens):
                store.change(lambda now: tuple(token for token in now if token not in ended))
        return ended

    def all(self) -> tuple[AccessToken, ...]:
        """Every token of the file, expired ones too, in the order in which they were created.

        Raises:
            ConfigurationError: If the file cannot be read, or others may have written it.
        """
        return self._stored.all()

    def find(self, value: bytes) -> AccessToken | None:
        """The token of a request, expired or not; None if there is none.

        Every token is compared, each in constant time.
        """
        digest, match = token_digest(value), None
        for token in self._current():
            if hmac.compare_digest(token.digest, digest):
                match = token
        return match

    def is_of_owner(self, token_id: str) -> bool:
        """Return whether a token may do what only the owner may."""
        return any(token.id == token_id and "admin" in token.scopes for token in self._current())

    def is_valid(self, token_id: str) -> bool:
        """Return whether a token is valid now: neither revoked, damaged nor expired."""
        return self.valid(token_id) is not None

    def valid(self, token_id: str) -> AccessToken | None:
        """A token, unless it is revoked, damaged or expired by now."""
        now = self._clock()
        candidates = (token for token in self._current() if token.id == token_id)
        valid = (token for token in candidates if not (token.is_damaged or token.is_expired(now)))
        return next(valid, None)

    def is_expired(self, token: AccessToken) -> bool:
        return token.is_expired(self._clock())

    def _current(self) -> tuple[AccessToken, ...]:
        stored = self._stored.current()
        return stored + self.shared.known if self.shared else stored


def _named(tokens: Sequence[AccessToken], id_or_name: str) -> AccessToken:
    for names in (
        {token.id: token for token in tokens},
        {token.name: token for token in tokens if token.name},
    ):
        if id_or_name in names:
            return names[id_or_name]
    ids_and_names = [name for token in tokens for name in (token.id, token.name) if name]
    raise AccessTokenNotFoundError(id_or_name, ids_and_names)
