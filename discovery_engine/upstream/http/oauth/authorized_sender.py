"""Sends requests with an access token to one server, and to no other.

The token is stored, and refreshed before it expires or if it is refused. A refused request is sent
again once, with another token: a server that answers 401 has not processed it.

Refresh tokens may rotate: a server may accept each one only once. So one task of one process
refreshes, under a lock between processes, and stores the result before it releases the lock; the
others read it. Nothing here prompts a person.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeAlias, TypeVar

import anyio
import anyio.to_thread
import httpx2
from msgspec.structs import replace

from discovery_engine._util.text import quoted
from discovery_engine.config.settings import RemoteTransport
from discovery_engine.errors import FailureKind, SecretStoreError
from discovery_engine.secrets.encrypted_store import EncryptedStore, Stamp
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.http.http_failure import HttpError, HttpFailure, Outage
from discovery_engine.upstream.http.oauth.stored_login import (
    StoredLogin,
    exclusively,
    load_login,
    login_name,
    save_login,
)
from discovery_engine.upstream.http.oauth.token_endpoint import (
    AuthorizationServerUnavailable,
    TokenRefused,
    challenge_field,
    open_client,
    refresh,
)

REFUSED = "it refuses the token of its login, although it is new: it may be for another audience"
_MARGIN = 60.0  # seconds before its expiry in which a token is refreshed
_SHARE = 0.1  # of a token's lifetime: the margin of tokens that are valid for less than ten minutes
_CLIENT_REFUSED = ("invalid_client", "unauthorized_client")
# Seconds after a failed refresh for which a token that is still good is used.
_REFRESH_RETRY_DELAY = 10.0
_LONGEST_REFRESH = 20.0  # seconds

T = TypeVar("T")

logger = logging.getLogger(__name__)


class LoginRequired(Exception):  # noqa: N818 - a signal within this package
    """No token is left that the server would accept, and only a new login gives one."""

    def __init__(self, reason: str, detail: str = "", hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        """The reason, which agents see, too: it never quotes a server."""
        self.detail = detail
        self.hint = hint
        """The remedy; empty if it is `discovery login`."""


class TokenSource:
    """The access tokens of one server, shared by all its sessions.

    `remote` must have resolved references and a secure address.
    """

    def __init__(
        self,
        server: ServerName,
        remote: RemoteTransport,
        store: EncryptedStore,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.server = server
        self._remote = remote
        self._store = store
        self._clock = clock
        self._name = login_name(server, remote)
        self._origin = _origin(httpx2.URL(remote.url))
        self._login: StoredLogin | None = None
        self._stamp: Stamp | None = None
        self._is_unsaved = False
        """True if the newest tokens could not be stored."""
        self._retry_at = 0.0
        self._refreshing = anyio.Lock()
        self._refused = ""
        """A token that the server refused although it had just been obtained."""

    @property
    def is_personal(self) -> bool:
        """True if a person can log in, with `discovery login`."""
        return not self._is_machine

    def covers(self, url: httpx2.URL) -> bool:
        """Return whether a request to `url` may carry the token: only to the server's origin."""
        return _origin(url) == self._origin

    async def token(self) -> str | None:
        """Return a token to send, renewed if it is due; None if there is no login.

        Raises:
            LoginRequired: If the login has ended, or cannot be read.
            AuthorizationServerUnavailable: If the token has expired and no other can be obtained.
        """
        login = await self._stored()
        if login is None:
            return await self._without_login()
        is_good = bool(login.access_token) and not self._has_expired(login)
        if is_good and (not self._is_due(login) or self._clock() < self._retry_at):
            return login.access_token
        try:
            return await self._renewed(login.access_token)
        except AuthorizationServerUnavailable:
            self._retry_at = self._clock() + _REFRESH_RETRY_DELAY
            if is_good:
                return login.access_token
            raise

    async def renewed(self, refused: str) -> str:
        """Return a new token in place of one that the server has refused.

        Raises:
            LoginRequired: If only a login gives one.
            AuthorizationServerUnavailable: If none can be obtained now.
        """
        if refused == self._refused:
            raise LoginRequired(REFUSED)
        return await self._renewed(refused)

    def refuse(self, token: str) -> None:
        """Note that a token was refused although it is new: obtaining another will not help."""
        self._refused = token

    async def want_scope(self, scope: str) -> None:
        """Store which scopes a request lacked, for the next login."""
        login = await self._stored()
        missing = set(scope.split()) - set(login.wanted_scope.split()) if login else ()
        if login and missing:
            scopes = " ".join(sorted({*login.wanted_scope.split(), *missing}))
            async with self._exclusively():
                current = await self._stored(reload=True)
                if current:
                    await self._save(replace(current, wanted_scope=scopes))

    async def _without_login(self) -> str | None:
        if not self._is_machine:
            return None
        return await self._renewed("")

    async def _renewed(self, stale: str) -> str:
        async with self._refreshing, self._exclusively():
            login = await self._stored(reload=True)
            if login and login.access_token not in ("", stale) and not self._is_due(login):
                return login.access_token  # another process was faster
            # Not cancelled once it is sent: the old refresh token may be spent already.
            with anyio.CancelScope(shield=True):
                obtained = await self._obtained_in_time(login)
                await self._keep(obtained)
        return obtained.access_token

    async def _obtained_in_time(self, login: StoredLogin | None) -> StoredLogin:
        try:
            with anyio.fail_after(_LONGEST_REFRESH):
                return await self._obtained(login)
        except TimeoutError as error:
            reason = f"its authorization server did not answer within {_LONGEST_REFRESH:g} s"
            raise AuthorizationServerUnavailable(Outage(FailureKind.TIMEOUT, reason)) from error

    async def _obtained(self, login: StoredLogin | None) -> StoredLogin:
        async with open_client() as client:
            if self._is_machine:
                return await self._by_client_credentials(client, login)
            if login is None:
                raise LoginRequired("its login was deleted")
            if not login.refresh_token:
                raise LoginRequired(self._end_of(login))
            secret = login.client_secret or self._remote.oauth.client_secret
            try:
                return await refresh(client, login, secret=secret, now=self._clock())
            except TokenRefused as error:
                raise await self._ended(login, error) from error

    async def _by_client_credentials(
        self, client: httpx2.AsyncClient, login: StoredLogin | None
    ) -> StoredLogin:
        # Imported here: its models of metadata are for such servers only.
        from discovery_engine.upstream.http.oauth import browser_login  # noqa: PLC0415

        try:
            return await browser_login.obtain(client, self._remote, login, now=self._clock())
        except TokenRefused as error:
            raise self._client_refused(error) from error

    def _end_of(self, login: StoredLogin) -> str:
        """Return the reason why a login without a refresh token has to be renewed."""
        if not login.access_token:
            return "its login has ended"
        return "its login has expired" if self._has_expired(login) else "it refuses its login"

    async def _ended(self, login: StoredLogin, error: TokenRefused) -> LoginRequired:
        """Return the error for a refused refresh; delete the tokens of a login that has ended."""
        refuses_client = error.code in _CLIENT_REFUSED
        if refuses_client and self._remote.oauth.client_id:  # perhaps only its secret is wrong
            return self._client_refused(error)
        if not refuses_client and error.code != "invalid_grant":
            reason = "its authorization server does not refresh its login"
            return LoginRequired(reason, error.detail)
        await self._save(replace(login, access_token="", refresh_token="", expires_at=None))
        reason = "its login has ended: its authorization server accepts it no longer"
        return LoginRequired(reason, error.detail)

    def _client_refused(self, error: TokenRefused) -> LoginRequired:
        what = "refuses the client of its entry"
        if error.code not in _CLIENT_REFUSED:
            what = "gives no token to the client of its entry"
        hint = f"check `oauth` of server {self.server!r}"
        return LoginRequired(f"its authorization server {what}", error.detail, hint)

    async def _stored(self, *, reload: bool = False) -> StoredLogin | None:
        """Return the login; it is read again after a change of the store, or with `reload`."""
        stamp = self._store.stamp()
        if stamp != self._stamp or (reload and not self._is_unsaved):
            self._login = await self._in_thread(lambda: load_login(self._store, self._name))
            self._stamp, self._is_unsaved = stamp, False
        return self._login

    async def _keep(self, login: StoredLogin) -> None:
        """Store new tokens; if that fails they are used until the store changes."""
        try:
            await self._save(login)
        except LoginRequired as error:
            logger.warning("The new token of %r cannot be stored: %s", self.server, error.detail)
            self._login, self._stamp, self._is_unsaved = login, self._store.stamp(), True

    async def _save(self, login: StoredLogin) -> None:
        await self._in_thread(lambda: save_login(self._store, self._name, login))
        self._login, self._stamp, self._is_unsaved = login, None, False

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await anyio.to_thread.run_sync(work)
        except SecretStoreError as error:
            raise _unreadable(error) from error

    @asynccontextmanager
    async def _exclusively(self) -> AsyncIterator[None]:
        """Hold the lock of this login, which one process at a time can hold."""
        try:
            async with exclusively(self._store, self._name):
                yield
        except SecretStoreError as error:
            raise _unreadable(error) from error

    def _is_due(self, login: StoredLogin) -> bool:
        if login.expires_at is None or not (login.refresh_token or self._is_machine):
            return self._has_expired(login)
        margin = min(_MARGIN, _SHARE * (login.expires_at - login.obtained_at))
        return self._seconds_left(login) <= margin

    @property
    def _is_machine(self) -> bool:
        return self._remote.oauth.grant == "client_credentials"

    def _has_expired(self, login: StoredLogin) -> bool:
        return self._seconds_left(login) <= 0

    def _seconds_left(self, login: StoredLogin) -> float:
        return float("inf") if login.expires_at is None else login.expires_at - self._clock()


def _unreadable(error: SecretStoreError) -> LoginRequired:
    return LoginRequired(
        "its stored login cannot be read",
        "; ".join(filter(None, (error.message, error.hint))),
        "`discovery doctor` shows what is wrong with the secret store",
    )


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


Send: TypeAlias = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
"""Sends a request; raises `HttpError` for a refusal."""

_MAX_DESCRIPTION_LENGTH = 200  # characters of a server's words
_MAX_SCOPE_LENGTH = 1000  # characters


class AuthorizedSender:
    """Sends requests to one server, with its access token if there is one."""

    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens

    async def send(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        """Send a request, with a token if it is to the server itself.

        Raises:
            HttpError: If it fails; the reason of a refusal explains what is wrong with the login.
        """
        if not self._tokens.covers(request.url):
            return await send(request)
        try:
            return await self._send_authorized(request, send)
        except LoginRequired as problem:
            failure = HttpFailure(
                problem.reason,
                detail=problem.detail,
                status=HTTPStatus.UNAUTHORIZED,
                hint=problem.hint or self._hint,
                is_explained=True,
            )
            raise HttpError(failure) from problem
        except AuthorizationServerUnavailable as error:
            failure = HttpFailure(
                f"its token cannot be refreshed: {error.outage.reason}",
                outage=error.outage,
                detail=error.outage.detail,
                was_sent=False,
            )
            raise HttpError(failure) from error

    async def _send_authorized(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        token = await self._tokens.token()
        if token is None:
            return await send(request)
        try:
            return await _send_with(token, request, send)
        except HttpError as refusal:
            if refusal.failure.status != HTTPStatus.UNAUTHORIZED:
                raise await self._explained(refusal.failure) from refusal
        token = await self._tokens.renewed(token)
        try:
            return await _send_with(token, request, send)
        except HttpError as refusal:
            if refusal.failure.status == HTTPStatus.UNAUTHORIZED:
                self._tokens.refuse(token)
            raise await self._explained(refusal.failure) from refusal

    async def _explained(self, failure: HttpFailure) -> HttpError:
        """Return the error for a failure, with the cause if the login is refused."""
        if failure.status == HTTPStatus.UNAUTHORIZED:
            explained = self._with_reason(failure, f"{REFUSED} ({failure.reason})")
            if words := challenge_field(failure.challenge, "error_description"):
                detail = f"it answers {quoted(words[:_MAX_DESCRIPTION_LENGTH])}"
                explained = replace(explained, detail=detail)
        elif challenge_field(failure.challenge, "error") == "insufficient_scope":
            explained = await self._without_scope(failure)
        else:
            explained = failure
        return HttpError(explained)

    async def _without_scope(self, failure: HttpFailure) -> HttpFailure:
        scope = challenge_field(failure.challenge, "scope")[:_MAX_SCOPE_LENGTH]
        if scope:
            await self._tokens.want_scope(scope)
        reason = "the token of its login lacks a scope that this request needs"
        detail = f"it wants the scope {scope!r}" if scope else ""
        return replace(self._with_reason(failure, reason), detail=detail, lacks_scope=True)

    def _with_reason(self, failure: HttpFailure, reason: str) -> HttpFailure:
        return replace(failure, reason=reason, hint=self._hint, is_explained=True)

    @property
    def _hint(self) -> str:
        server = self._tokens.server
        is_personal = self._tokens.is_personal
        return f"`discovery login {server}`" if is_personal else f"check `oauth` of {server!r}"


async def _send_with(token: str, request: httpx2.Request, send: Send) -> httpx2.Response:
    request.headers["authorization"] = f"Bearer {token}"
    return await send(request)
