"""Sends requests with an access token to one server, and to no other.

A refused token is replaced once, and the request is sent again: a server that answers 401 has not
processed it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeAlias

import httpx2
from msgspec.structs import replace

from discovery_engine._util.text import quoted
from discovery_engine.upstream.http.http_client import HttpError, HttpFailure
from discovery_engine.upstream.http.oauth.token_endpoint import AuthorizationServerUnavailable
from discovery_engine.upstream.http.oauth.token_source import REFUSED, LoginRequired, TokenSource

Send: TypeAlias = Callable[[httpx2.Request], Awaitable[httpx2.Response]]
"""Raises HttpError for a refusal."""

_DESCRIPTION = re.compile(r'\berror_description="([^"\\]{1,200})')
_LACKS_SCOPE = re.compile(r'\berror="?insufficient_scope\b')
_SCOPE = re.compile(r'\bscope="([^"\\]{1,1000})"|\bscope=([^\s",]{1,1000})')


class AuthorizedSender:
    def __init__(self, tokens: TokenSource) -> None:
        self._tokens = tokens

    async def send(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        """Send a request, with a token if it is to the server itself.

        Raises:
            HttpError: If it fails; a refusal says what is wrong with the login.
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
        """The error for a failure; a refusal says what is wrong with the login."""
        if failure.status == HTTPStatus.UNAUTHORIZED:
            explained = self._with_reason(failure, f"{REFUSED} ({failure.reason})")
            if described := _DESCRIPTION.search(failure.challenge):
                explained = replace(explained, detail=f"it answers {quoted(described[1])}")
        elif _LACKS_SCOPE.search(failure.challenge):
            explained = await self._without_scope(failure)
        else:
            explained = failure
        return HttpError(explained)

    async def _without_scope(self, failure: HttpFailure) -> HttpFailure:
        parameter = _SCOPE.search(failure.challenge)
        scope = (parameter[1] or parameter[2]) if parameter else ""
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
