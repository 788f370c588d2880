"""Logins of remote servers: `engine.logins`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine.config.settings import RemoteTransport, ServerSettings, StdioTransport
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.errors import (
    DiscoveryError,
    LoginError,
    SecretStoreError,
    UnavailableError,
)
from discovery_engine.upstream.connection import (
    admitted_transport,
    resolved_transport,
    run_commands,
)
from discovery_engine.upstream.http.oauth.stored_login import (
    StoredLogin,
    exclusively,
    load_login,
    login_name,
    names_of,
    save_login,
)
from discovery_engine.upstream.http.oauth.token_endpoint import (
    AuthorizationServerUnavailable,
    PortUnavailable,
    TokenRefused,
    open_client,
    revoke,
)

if TYPE_CHECKING:
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.engine.engine import Engine

USUAL_TIMEOUT = 300.0  # seconds for a person with a browser
_REVOCATION = 15.0  # seconds

_REASONS = {
    "access_denied": ("the login was refused in the browser", ""),
    "no_metadata": (
        "it publishes no authorization server",
        "if it needs no login, use it as it is; else set `oauth.authServerMetadataUrl`",
    ),
    "no_pkce": ("its authorization server does not support PKCE, which is required", ""),
    "unregistered": (
        "its authorization server registers no client by itself",
        "register a client there, and set `oauth.clientId` (and `clientSecret`) of the server",
    ),
    "wrong_issuer": ("the answer in the browser came from another authorization server", ""),
    "invalid_scope": (
        "its authorization server does not know a requested scope",
        "correct `oauth.scopes` of the server, or `--scope`",
    ),
    "invalid_client": (
        "its authorization server refuses the client",
        "correct `oauth.clientId` and `oauth.clientSecret` of the server",
    ),
}


class LoginReport(Struct, frozen=True):
    """A login, without its tokens."""

    server: str
    issuer: str
    scopes: tuple[str, ...]
    expires_at: float | None
    """Unix time in seconds of the present token; None if the server gave none."""
    is_refreshable: bool
    """True if a token can be refreshed without a person."""


class LogoutReport(Struct, frozen=True):
    server: str
    deleted: int
    """Logins that were stored; a server may have some of earlier addresses."""
    revoked: int
    """Logins whose tokens the authorization server has revoked."""
    failures: tuple[str, ...] = ()
    """The reasons why others were not revoked: their tokens are accepted until they expire."""


class ServerLogins:
    """Logs in to remote servers, and out; available as `engine.logins`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._store = core.environment.token_logins.store
        self._secrets = core.environment.secrets
        self._admit = core.state.trust_store.admit
        self._clock = core.environment.clock

    async def log_in(
        self,
        server: str,
        show: Callable[[str], object],
        *,
        scopes: tuple[str, ...] = (),
        timeout: float = USUAL_TIMEOUT,  # noqa: ASYNC109 - for the person
    ) -> LoginReport:
        """Log in to a server with a browser, or with the client of its entry; store the tokens.

        Args:
            server: Its name.
            show: Called, and awaited if it is async, with the address for the person to open; not
                with client credentials.
            scopes: Requested besides those of the entry and the server.
            timeout: Seconds for the person.

        Raises:
            ServerNotFoundError, ServerDisabledError, UntrustedServerError, ConfigurationError:
                If the server must not be reached.
            LoginError: If the login fails, with the reason.
            UnavailableError: If a reference has no value, or a server cannot be reached.
            SecretStoreError: If the login cannot be stored.
        """
        settings, remote = await self._remote(server)
        name = login_name(settings.name, remote)
        await anyio.to_thread.run_sync(self._store.require_usable)  # before the browser is
        earlier = None
        with suppress(SecretStoreError):  # one that is damaged is replaced by this login
            earlier = await anyio.to_thread.run_sync(self._load, name)
        with _failures(settings.name):
            login = await self._obtained(remote, earlier, show, scopes, timeout)
        async with exclusively(self._store, name):
            await anyio.to_thread.run_sync(save_login, self._store, name, login)
        can_refresh = bool(login.refresh_token) or remote.oauth.grant == "client_credentials"
        return LoginReport(
            settings.name, login.issuer, tuple(login.scope.split()), login.expires_at, can_refresh
        )

    async def log_out(self, server: str) -> LogoutReport:
        """Revoke and delete every login of a server, also of one that is not configured any more.

        Raises:
            ServerNotFoundError: If there is neither a server nor a login of that name.
            SecretStoreError: If a login cannot be deleted.
        """
        names = await anyio.to_thread.run_sync(names_of, self._store, server)
        if not names:
            server = self._engine.view.server_settings(server).name
            names = await anyio.to_thread.run_sync(names_of, self._store, server)
        secret = await self._client_secret(server)
        outcomes = [await self._end(name, secret) for name in names]
        failures = tuple(failure for failure in outcomes if failure)
        return LogoutReport(str(server), len(names), outcomes.count(""), failures)

    async def _remote(self, server: str) -> tuple[ServerSettings, RemoteTransport]:
        """A server that may be reached, with its references resolved."""
        await self._engine.complete_settings()
        settings = self._engine.view.require_connectable(server)
        remote = await anyio.to_thread.run_sync(
            admitted_transport, settings, self._secrets, self._admit
        )
        if isinstance(remote, StdioTransport):
            reason = "it is a program on this machine, which logs in by itself"
            raise LoginError(settings.name, reason, hint="see its documentation")
        if remote.has_own_authorization:
            reason = "its entry gives an Authorization header, so no token would be used"
            raise LoginError(settings.name, reason, hint="remove the header from its entry")
        if not is_secure_address(remote.url):
            reason = "its address is not https, so a token could be read on the way"
            raise LoginError(settings.name, reason, hint="correct `url` of the server")
        return settings, remote

    async def _obtained(
        self,
        remote: RemoteTransport,
        earlier: StoredLogin | None,
        show: Callable[[str], object],
        scopes: tuple[str, ...],
        seconds: float,
    ) -> StoredLogin:
        # Only a login needs them here.
        from discovery_engine.upstream.http.oauth import browser_login  # noqa: PLC0415

        async with open_client() as client:
            if remote.oauth.grant == "client_credentials":
                return await browser_login.obtain(client, remote, None, now=self._clock())
            scope = earlier.wanted_scope if earlier else ""
            options = browser_login.LoginOptions(scopes, scope, seconds)
            return await browser_login.log_in(client, remote, options, show, clock=self._clock)

    async def _client_secret(self, server: str) -> str:
        """The secret of the entry's client, with which tokens are revoked; empty if unknown."""
        with suppress(DiscoveryError):
            await self._engine.complete_settings()
            settings = self._engine.view.server_settings(server)
            await anyio.to_thread.run_sync(run_commands, settings, self._secrets, self._admit)
            remote = resolved_transport(settings, self._secrets)
            if isinstance(remote, RemoteTransport):
                return remote.oauth.client_secret
        return ""

    async def _end(self, name: str, secret: str) -> str | None:
        """Revoke a login and delete it.

        Returns why it was not revoked: empty if it was, None if it had no tokens.
        """
        failure = None
        async with exclusively(self._store, name):
            try:
                login = await anyio.to_thread.run_sync(self._load, name)
            except SecretStoreError as error:
                login, failure = None, error.message
            if login is not None and (login.access_token or login.refresh_token):
                failure = await _revoked(login, login.client_secret or secret)
            await anyio.to_thread.run_sync(self._store.delete, name)
        return failure

    def _load(self, name: str) -> StoredLogin | None:
        return load_login(self._store, name)


async def _revoked(login: StoredLogin, secret: str) -> str:
    """Revoke the tokens of a login, and return why that failed; empty if it did not."""
    if not login.revocation_endpoint:
        return f"{login.issuer} cannot revoke tokens"
    try:
        with anyio.fail_after(_REVOCATION):
            async with open_client() as client:
                await revoke(client, login, secret=secret)
    except TokenRefused as error:
        return f"{login.issuer} did not revoke the tokens: {error.detail or error.code}"
    except AuthorizationServerUnavailable as error:
        return f"{login.issuer} did not revoke the tokens: {error.outage.reason}"
    except TimeoutError:
        return f"{login.issuer} did not answer within {_REVOCATION:g} s"
    return ""


@contextmanager
def _failures(server: str) -> Iterator[None]:
    """The errors of a login as those of the engine."""
    try:
        yield
    except TokenRefused as error:
        usual = "its authorization server refuses it", ""
        reason, hint = _REASONS.get(error.code, usual)
        raise LoginError(server, reason, hint=hint, detail=error.detail) from error
    except AuthorizationServerUnavailable as error:
        outage = error.outage
        raise UnavailableError(
            server, outage.kind, outage.reason, hint=outage.hint, detail=outage.detail
        ) from error
    except TimeoutError as error:
        reason = "it was not completed in the browser in time"
        hint = "run the command again; `--timeout` waits longer"
        raise LoginError(server, reason, hint=hint) from error
    except PortUnavailable as error:
        reason = f"the address of `oauth.redirectUri` cannot be listened at: {error}"
        hint = "end the program that uses the port, or write another `oauth.redirectUri`"
        raise LoginError(server, reason, hint=hint) from error
