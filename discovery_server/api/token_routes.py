"""Routes of the tokens that the owner gives to clients over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from msgspec import Meta, Struct

from discovery_engine._util.json import JSONObject
from discovery_engine.view.scope import named_scope
from discovery_server.access_token import (
    MCP_SCOPES,
    TokenScope,
    checked_limits,
    checked_principals,
    token_form,
)
from discovery_server.api.route import ApiRequest, Nothing, Routes

routes = Routes()


class TokenList(Struct, frozen=True):
    tokens: Annotated[list[JSONObject], Meta(description="Without their values.")]


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(max_length=64)] = ""
    view: Annotated[str | None, Meta(description="The only view that it opens.")] = None
    seconds: (
        Annotated[float, Meta(gt=0, lt=10**10, description="For how long; for ever if null.")]
        | None
    ) = None
    scopes: tuple[TokenScope, ...] = tuple(sorted(MCP_SCOPES))
    servers: Annotated[tuple[str, ...], Meta(description="Patterns of all that it shows.")] = ()
    tools: Annotated[tuple[str, ...], Meta(description="Patterns of all that it shows.")] = ()
    teams: Annotated[tuple[str, ...], Meta(description="Whom it stands for.")] = ()


class CreatedToken(Struct, frozen=True):
    value: Annotated[str, Meta(description="Shown this once; only its digest is stored.")]
    token: JSONObject


class RevokedTokens(Struct, frozen=True):
    revoked: list[JSONObject]


@routes("GET", "/access-tokens")
async def access_tokens(request: ApiRequest[Nothing]) -> TokenList:
    """List the tokens of clients, expired ones, too."""
    tokens, now = request.tokens, request.owner.call_log.now()
    stored = [*tokens.all(), *(tokens.shared.known if tokens.shared else ())]
    return TokenList([token_form(token, now) for token in stored])


@routes("POST", "/access-tokens")
async def create_token(request: ApiRequest[NewToken]) -> CreatedToken:
    """Create a token for a client, limited to a view, servers or tools."""
    asked, now = request.asked, request.owner.call_log.now()
    if asked.view is not None:
        named_scope(request.owner.settings, asked.view)
    create = partial(
        request.tokens.create,
        name=asked.name,
        view=asked.view,
        lifetime=asked.seconds,
        scopes=frozenset(asked.scopes),
        limits=checked_limits(asked.servers, asked.tools),
        principals=checked_principals(asked.teams, None),
    )
    value, token = await run_sync(create)
    return CreatedToken(value, token_form(token, now))


@routes("DELETE", "/access-tokens/{token}")
async def revoke_token(request: ApiRequest[Nothing]) -> RevokedTokens:
    """Revoke a token by its id or name; its sessions end within seconds."""
    now = request.owner.call_log.now()
    ended = await run_sync(request.tokens.revoke, request.path["token"])
    return RevokedTokens([token_form(token, now) for token in ended])
