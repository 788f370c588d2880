"""An HTTP client that sends an access token with each request to its server, and to no other.

A refused token is replaced once, and the request is sent again: a server that answers 401 has not
processed it.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

import httpx2
from msgspec.structs import replace

from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.upstream.http.guarded_client import GuardedClient, HttpFailure, failure_of
from discovery_engine.upstream.http.oauth.token_endpoint import AuthorizationServerUnavailable
from discovery_engine.upstream.http.oauth.token_source import LoginRequired, TokenSource

_LACKS_SCOPE = re.compile(r'\berror="?insufficient_scope\b')
_SCOPE = re.compile(r'\bscope="([^"\\]{1,1000})"|\bscope=([^\s",]{1,1000})')
_BEARER = re.compile(r"\bbearer\b", re.IGNORECASE)


class AuthorizedClient(GuardedClient):
    def __init__(
        self,
        scheduler: FairScheduler,
        limit: int,
        *,
        tokens: TokenSource,
        expects_answers: bool,
        **options: Any,
    ) -> None:
        super().__init__(scheduler, limit, expects_answers=expects_answers, **options)
        self._tokens = tokens

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if not self._tokens.covers(request.url):
            return await super().send(request, **options)
        try:
            return await self._send_authorized(request, **options)
        except LoginRequired as problem:
            failure = HttpFailure(
                problem.reason,
                detail=problem.detail,
                status=HTTPStatus.UNAUTHORIZED,
                hint=problem.hint or self._login_hint,
                is_explained=True,
            )
            return self.failure_response(request, failure, status=HTTPStatus.UNAUTHORIZED)
        except AuthorizationServerUnavailable as error:
            reason = f"its token cannot be refreshed: {error.outage.reason}"
            failure = HttpFailure(
                reason, outage=error.outage, detail=error.outage.detail, was_sent=False
            )
            status = HTTPStatus.SERVICE_UNAVAILABLE
            return self.failure_response(request, failure, status=status)

    async def _send_authorized(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        token = await self._tokens.token()
        response = await self._send_with(token, request, **options)
        if token is not None and response.status_code == HTTPStatus.UNAUTHORIZED:
            token = await self._tokens.renewed(token)
            response = await self._send_with(token, request, **options)
            if response.status_code == HTTPStatus.UNAUTHORIZED:
                self._tokens.refuse(token)
        return await self._explained(request, response, has_token=token is not None)

    async def _send_with(
        self, token: str | None, request: httpx2.Request, **options: Any
    ) -> httpx2.Response:
        if token is not None:
            request.headers["authorization"] = f"Bearer {token}"
        return await super().send(request, **options)

    async def _explained(
        self, request: httpx2.Request, response: httpx2.Response, *, has_token: bool
    ) -> httpx2.Response:
        """The response; a refusal says what is wrong with the login."""
        failure = failure_of(response)
        if failure is None or failure.status not in (401, 403):
            return response
        explained = failure
        if failure.status == HTTPStatus.FORBIDDEN:
            if has_token and _LACKS_SCOPE.search(failure.challenge):
                explained = await self._without_scope(failure)
        elif has_token:
            reason = f"it refuses the token of its login: {failure.reason}"
            explained = self._with_reason(failure, reason)
        elif self._tokens.can_log_in and _BEARER.search(failure.challenge):
            explained = self._with_reason(failure, f"it requires a login: {failure.reason}")
        elif self._tokens.can_log_in:
            hint = (
                f"{self._login_hint} if it has a login, else check the credentials in its headers"
            )
            explained = replace(failure, hint=hint)
        return self.failure_response(request, explained, status=response.status_code)

    async def _without_scope(self, failure: HttpFailure) -> HttpFailure:
        scope = _scope(failure.challenge)
        if scope:
            await self._tokens.want_scope(scope)
        reason = "the token of its login lacks a scope that this request needs"
        detail = f"it wants the scope {scope!r}" if scope else ""
        return replace(self._with_reason(failure, reason), detail=detail, lacks_scope=True)

    def _with_reason(self, failure: HttpFailure, reason: str) -> HttpFailure:
        return replace(failure, reason=reason, hint=self._login_hint, is_explained=True)

    @property
    def _login_hint(self) -> str:
        if self._tokens.can_log_in:
            return f"`discovery login {self._tokens.server}`"
        return f"check `oauth` of server {self._tokens.server!r}"


def _scope(challenge: str) -> str:
    found = _SCOPE.search(challenge)
    return (found[1] or found[2] or "") if found else ""
