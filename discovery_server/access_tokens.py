"""Tokens that the owner of a gateway gives to clients, each for all that is served or a part.

    tokens = AccessTokens(folder / "tokens.json")
    value, token = tokens.create(name="ci", view="readers", lifetime=86_400)

The file has the SHA-256 of each token, not the token: with 256 bits of randomness no digest can be
inverted, and a slow one would only slow down every request. It is read again when it has changed,
so that what another process creates or revokes takes effect at the next request.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from discovery_engine._util.file_lock import lock_file
from discovery_engine._util.files import replace_file
from discovery_engine._util.suggestions import nearest
from discovery_engine.errors import NotFoundError
from discovery_engine.rules.principals import parse_principals
from discovery_engine.runtime.restore import registry_path
from discovery_server.token_files import (
    NO_LINKS,
    PRIVATE,
    is_foreign,
    is_readable_by_others,
    is_writable_by_others,
    read_file,
    reason_of,
    token_problem,
)
from discovery_server.token_limits import NO_LIMITS, TokenLimits

logger = logging.getLogger(__name__)

FILE = "tokens.json"
TokenScope: TypeAlias = Literal["read", "call", "admin"]
"""What a token allows: to look, to call tools, or what only the owner does."""
MCP_SCOPES: frozenset[TokenScope] = frozenset({"read", "call"})
"""What a client over MCP may do: it searches and reads, and it calls."""
ALL_SCOPES: frozenset[TokenScope] = frozenset(get_args(TokenScope))

# The version of a file tells what its tokens have, so that older programs read what they know.
_PLAIN, _WITH_LIMITS, _WITH_PRINCIPALS = 1, 2, 3
_VERSIONS = (_PLAIN, _WITH_LIMITS, _WITH_PRINCIPALS)
_BYTES = 32  # 256 bits of randomness
_PREFIX = "discovery_"  # by which scanners of repositories find a token that was published
_ID = 4  # random bytes
_MOST = 1000  # tokens; every one is compared at each request
_LARGEST = 1 << 20  # bytes
_WAIT = 10.0  # seconds for another process that is writing
_PAUSE = 0.01  # seconds between two tries of a lock
_NAME = re.compile(r"[\w][\w .@:/-]{0,63}")
_START_OVER = "`discovery token create` makes new ones when it is moved away"


class AccessTokenNotFoundError(NotFoundError):
    code = "TOKEN_NOT_FOUND"

    def __init__(self, id_or_name: str, known: Sequence[str] = ()) -> None:
        super().__init__(
            f"there is no access token {id_or_name!r}",
            nearest(id_or_name, known),
            hint="`discovery token list` shows them",
        )


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


class AccessTokens:
    """The tokens in one file; opening reads nothing."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` is Unix time in seconds."""
        self.path = path
        self._clock = clock
        self._stamp: object = None
        self._read: tuple[AccessToken, ...] = ()

    @classmethod
    def of_data_folder(
        cls, data_dir: str | Path | None, environ: Mapping[str, str]
    ) -> AccessTokens:
        """Those of all gateways with that data folder, as `open_engine` takes it."""
        return cls(registry_path(data_dir, environ).with_name(FILE))

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
        with self._writing():
            kept = [token for token in self.all() if not token.is_expired(now)]
            if name and any(token.name == name for token in kept):
                hint = "choose another one, or revoke it first"
                raise token_problem("--name", f"another token has the name {name!r}", hint)
            if len(kept) >= _MOST:
                message = f"holds {_MOST} tokens, which are the most"
                raise token_problem(self.path, message, "`discovery token revoke` ends one")
            token = AccessToken(
                secrets.token_hex(_ID),
                _digest(value.encode()),
                created_at=now,
                name=name,
                view=view,
                expires_at=None if lifetime is None else now + lifetime,
                scopes=frozenset(scopes),
                limits=limits,
                principals=stands_for,
            )
            self._write((*kept, token))
        return value, token

    def revoke(self, *ids_or_names: str) -> tuple[AccessToken, ...]:
        """End tokens: they are valid for no further request. All of them, or none.

        Raises:
            AccessTokenNotFoundError: If there is none of an id or name.
            ConfigurationError: If the file cannot be read or written.
        """
        with self._writing():
            known = self.all()
            ended = tuple(dict.fromkeys(_named(known, one) for one in ids_or_names))
            self._write(tuple(one for one in known if one not in ended))
        return ended

    def all(self) -> tuple[AccessToken, ...]:
        """Every token, expired ones too, in the order in which they were created.

        Raises:
            ConfigurationError: If the file cannot be read, or others may have written it.
        """
        try:
            data, status = read_file(self.path, NO_LINKS, most=_LARGEST)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            reason = "is a symbolic link" if is_link else f"cannot be read: {reason_of(error)}"
            raise token_problem(self.path, reason, _START_OVER) from error
        if is_foreign(status, self.path) or is_writable_by_others(status):
            message = "may have been written by another user"
            raise token_problem(self.path, message, _START_OVER)
        if is_readable_by_others(status):
            self.path.chmod(PRIVATE)
        try:
            document = msgspec.json.decode(data, type=_Document)
        except (msgspec.MsgspecError, ValueError) as error:
            message = "is damaged; it was left as it is"
            raise token_problem(self.path, message, _START_OVER) from error
        if document.version not in _VERSIONS:
            message = f"is of version {document.version}, which this program does not know"
            hint = "use the newer version of discovery that wrote it"
            raise token_problem(self.path, message, hint)
        return document.tokens

    def find(self, value: bytes) -> AccessToken | None:
        """The token of a request, expired or not; None if there is none.

        Every token is compared, each in constant time.
        """
        digest, found = _digest(value), None
        for token in self._current():
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def is_of_owner(self, token_id: str) -> bool:
        """Whether a token does what only the owner may."""
        return any(one.id == token_id and "admin" in one.scopes for one in self._current())

    def is_valid(self, token_id: str) -> bool:
        """Whether a token is neither revoked nor expired by now."""
        now = self._clock()
        return any(token.id == token_id and not token.is_expired(now) for token in self._current())

    def is_expired(self, token: AccessToken) -> bool:
        return token.is_expired(self._clock())

    def _current(self) -> tuple[AccessToken, ...]:
        """What the file has now; nothing if it cannot be used, which is logged once."""
        stamp = self._stamp_of_file()
        if stamp != self._stamp:
            try:
                self._read = self.all()
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, no token is valid
                self._read = ()
                logger.warning("No access token is valid: %s", error)
            self._stamp = stamp
        return self._read

    def _stamp_of_file(self) -> object:
        try:
            found = os.stat(self.path)  # noqa: PTH116 - 2 us instead of 5, at every request
        except OSError:
            return None
        # A file of the same time is another one if it was replaced.
        return found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_size, found.st_mode

    def _write(self, tokens: tuple[AccessToken, ...]) -> None:
        document = _Document(_version_of(tokens), tokens)
        content = msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=1)
        try:
            replace_file(self.path, content, follows_link=False)
            self.path.chmod(PRIVATE)
        except OSError as error:
            raise token_problem(self.path, f"cannot be written: {reason_of(error)}") from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """While no other process writes."""
        lock = self.path.with_suffix(".lock")
        try:
            lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, PRIVATE)
        except OSError as error:
            raise token_problem(lock, f"cannot be opened: {reason_of(error)}") from error
        try:
            deadline = time.monotonic() + _WAIT
            while not _is_locked_now(descriptor):
                if time.monotonic() > deadline:
                    raise token_problem(self.path, "is being written for too long")
                time.sleep(_PAUSE)
            yield
        finally:
            os.close(descriptor)


def _named(tokens: Sequence[AccessToken], id_or_name: str) -> AccessToken:
    for names in ({one.id: one for one in tokens}, {one.name: one for one in tokens if one.name}):
        if id_or_name in names:
            return names[id_or_name]
    known = [name for one in tokens for name in (one.id, one.name) if name]
    raise AccessTokenNotFoundError(id_or_name, known)


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


def _version_of(tokens: tuple[AccessToken, ...]) -> int:
    # A program that does not know limits must not take a token that has some for one of all; one
    # that does not know principals must not take two tokens for the same.
    if any(token.principals for token in tokens):
        return _WITH_PRINCIPALS
    return _WITH_LIMITS if any(token.limits != NO_LIMITS for token in tokens) else _PLAIN


def _is_locked_now(descriptor: int) -> bool:
    try:
        lock_file(descriptor)
    except BlockingIOError:
        return False
    return True
