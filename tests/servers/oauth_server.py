"""An authorization server and a protected MCP server, made with the SDK, on two origins.

    python oauth_server.py

Prints both addresses. The authorization server is the SDK's, with rotating refresh tokens; the
grant of client credentials, which the SDK lacks, is added. A test changes its conduct with
`POST /control` and reads what happened from `GET /control`.
"""

from __future__ import annotations

import base64
import json
import secrets
import socket
import time
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, unquote

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.lowlevel import Server
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

Scope = dict[str, Any]
SCOPES = ["read", "write"]


class Provider:
    """The state of the authorization server, and the tokens that the MCP server accepts."""

    def __init__(self, issuer: str, resource: str) -> None:
        self.issuer = issuer
        self.resource = resource
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.spent: dict[str, str] = {}
        self.waiting: dict[str, tuple[OAuthClientInformationFull, AuthorizationParams]] = {}
        self.issued: list[str] = []
        """Every secret that was given out."""
        self.counts = {"refreshed": 0, "reused": 0, "revoked": 0, "registered": 0, "issued": 0}
        self.requests: list[dict[str, Any]] = []
        self.conduct: dict[str, Any] = {
            "lifetime": 3600,
            "denies": False,
            "iss": "own",  # own, none, or another issuer
            "audience": "",  # of tokens, whatever was asked for
            "token": "",  # "503", "drop", "drop-after", "hold": what the token endpoint does
            "metadata": {},
            "members": {},  # of answers, by the path
            "resource": {},
            "rotates": True,
            "refreshable": True,
            "scopes": ["read"],  # granted at most
            "redirect": "",  # where the MCP server redirects every request
            "handshake": "protected",  # "refused" without a token, which is no matter of logins
        }

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.counts["registered"] += 1
        self.clients[client_info.client_id] = client_info
        if client_info.client_secret:
            self.issued.append(client_info.client_secret)

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        if self.conduct["denies"] == "at once":
            raise AuthorizeError("access_denied")
        key = secrets.token_hex(8)
        self.waiting[key] = client, params
        return f"{self.issuer}consent?key={key}"

    def decide(self, key: str, *, agrees: bool) -> str:
        client, params = self.waiting.pop(key)
        iss = {"own": self.issuer, "none": None}.get(self.conduct["iss"], self.conduct["iss"])
        target = str(params.redirect_uri)
        if not agrees:
            return construct_redirect_uri(
                target, error="access_denied", state=params.state, iss=iss
            )
        code = AuthorizationCode(
            code=self._secret("code"),
            scopes=self._granted(params.scopes),
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(target, code=code.code, state=params.state, iss=iss)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        if self.codes.pop(authorization_code.code, None) is None:
            raise TokenError("invalid_grant")
        return self.tokens(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        if refresh_token in self.spent:  # a stolen or a twice spent one: the login ends
            self.counts["reused"] += 1
            self.end(self.spent[refresh_token])
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,
        refresh_token: RefreshToken,
        scopes: list[str],
    ) -> OAuthToken:
        self.counts["refreshed"] += 1
        if self.conduct["rotates"]:
            del self.refresh[refresh_token.token]
            self.spent[refresh_token.token] = client.client_id
        return self.tokens(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.counts["revoked"] += 1
        self.end(token.client_id)

    def end(self, client_id: str | None = None) -> None:
        for table in (self.access, self.refresh):
            for token in [t for t, one in table.items() if client_id in (None, one.client_id)]:
                del table[token]  # type: ignore[attr-defined]

    def tokens(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        self.counts["issued"] += 1
        lifetime = self.conduct["lifetime"]
        audience = self.conduct["audience"] or resource
        access = AccessToken(
            token=self._secret("access"),
            client_id=client_id,
            scopes=scopes,
            expires_at=int(time.time()) + 86_400,
            resource=audience,
        )
        self.access[access.token] = access
        refresh = None
        if self.conduct["refreshable"]:
            refresh = self._secret("refresh")
            self.refresh[refresh] = RefreshToken(
                token=refresh, client_id=client_id, scopes=scopes, resource=resource
            )
        return OAuthToken(
            access_token=access.token,
            expires_in=lifetime,
            refresh_token=refresh,
            scope=" ".join(scopes),
        )

    def _granted(self, scopes: list[str] | None) -> list[str]:
        return [one for one in (scopes or SCOPES) if one in self.conduct["scopes"]]

    def _secret(self, kind: str) -> str:
        made = f"{kind}-{secrets.token_urlsafe(24)}"
        self.issued.append(made)
        return made


def authorization_server(provider: Provider) -> Starlette:  # noqa: C901 - small handlers
    routes = create_auth_routes(
        provider,
        AnyHttpUrl(provider.issuer),
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES),
        revocation_options=RevocationOptions(enabled=True),
    )
    sdk = Starlette(routes=routes)

    async def metadata(request: Request) -> Response:
        inner = next(r for r in routes if r.path == "/.well-known/oauth-authorization-server")
        document = await _answer(inner.app, request.scope, request.receive) | {
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
            "token_endpoint_auth_methods_supported": [
                *("client_secret_basic", "client_secret_post", "none"),
            ],
            "grant_types_supported": [
                *("authorization_code", "refresh_token", "client_credentials"),
            ],
        }
        document |= provider.conduct["metadata"]
        return JSONResponse({k: v for k, v in document.items() if v is not None})

    async def consent(request: Request) -> Response:
        agrees = not provider.conduct["denies"]
        return RedirectResponse(provider.decide(request.query_params["key"], agrees=agrees))

    async def control(request: Request) -> Response:
        if request.method == "POST":
            orders = await request.json()
            if orders.pop("reset", False):
                provider.__init__(provider.issuer, provider.resource)  # type: ignore[misc]
            if orders.pop("end", False):
                provider.end()
            if orders.pop("end_access", False):
                provider.access.clear()
            for client in orders.pop("clients", ()):
                provider.clients[client["client_id"]] = OAuthClientInformationFull(**client)
            provider.conduct |= orders
        return JSONResponse(
            {
                "counts": provider.counts,
                "requests": provider.requests,
                "issued": provider.issued,
                "access": list(provider.access),
            }
        )

    own = Starlette(
        routes=[
            Route("/.well-known/oauth-authorization-server", metadata),
            Route("/consent", consent),
            Route("/control", control, methods=["GET", "POST"]),
        ]
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] in {route.path for route in own.routes}:
            await own(scope, receive, send)
            return
        body = await _body(receive)
        form = {k: v[0] for k, v in parse_qs(body.decode()).items()}
        provider.requests.append({"path": scope["path"], "form": form})
        if scope["path"] == "/token":
            while provider.conduct["token"] == "hold":  # noqa: ASYNC110 - a test says when
                await anyio.sleep(0.01)
            fault = provider.conduct["token"]
            if fault == "503":
                await JSONResponse({}, 503)(scope, receive, send)
                return
            if fault == "drop":
                return  # uvicorn closes the connection
            if form.get("grant_type") == "client_credentials":
                await _client_credentials(provider, scope, form)(scope, receive, send)
                return
            if fault == "drop-after":
                await sdk(scope, _again(body), _nowhere)
                return
        if members := provider.conduct["members"].get(scope["path"]):
            document = await _answer(sdk, scope, _again(body)) | members
            await JSONResponse(document)(scope, receive, send)
            return
        await sdk(scope, _again(body), send)

    return app  # type: ignore[return-value]


def _client_credentials(provider: Provider, scope: Any, form: dict[str, str]) -> Response:
    headers = dict(scope["headers"])
    scheme, _, encoded = headers.get(b"authorization", b"").decode().partition(" ")
    client, secret = form.get("client_id", ""), form.get("client_secret", "")
    if scheme == "Basic":
        client, _, secret = base64.b64decode(encoded).decode().partition(":")
    known = provider.clients.get(unquote(client))
    if known is None or known.client_secret != unquote(secret):
        return JSONResponse({"error": "invalid_client", "error_description": "no"}, 401)
    refreshable, provider.conduct["refreshable"] = provider.conduct["refreshable"], False
    scopes = form.get("scope", "read").split()
    tokens = provider.tokens(known.client_id, scopes, form.get("resource"))
    provider.conduct["refreshable"] = refreshable
    return JSONResponse(tokens.model_dump(exclude_none=True))


def mcp_server(provider: Provider) -> Any:
    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        names = ("read_file", "write_file", "tell_token")
        tools = [types.Tool(name=name, description="A file", input_schema=schema) for name in names]
        return types.ListToolsResult(tools=tools)

    async def call_tool(ctx: Any, params: Any) -> types.CallToolResult:
        if params.name == "tell_token":
            sent = ctx.request.headers.get("authorization", "none")
            raise MCPError(-32050, f"I was sent {sent}")
        return types.CallToolResult(content=[types.TextContent(text="done")])

    server: Any = Server("files", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    auth = AuthSettings(
        issuer_url=AnyHttpUrl(provider.issuer),
        resource_server_url=AnyHttpUrl(provider.resource),
        required_scopes=["read"],
        validate_token_resource=True,
    )
    inner = server.streamable_http_app(
        streamable_http_path="/mcp", auth=auth, token_verifier=provider
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        if override := provider.conduct["resource"].get(scope["path"]):
            await JSONResponse(override)(scope, receive, send)
            return
        if target := provider.conduct["redirect"]:
            await RedirectResponse(target, 307)(scope, receive, send)
            return
        body = await _body(receive)
        sent = dict(scope["headers"]).get(b"authorization", b"").decode()
        provider.requests.append({"path": scope["path"], "authorization": sent})
        token = provider.access.get(sent.removeprefix("Bearer "))
        is_handshake = b'"initialize"' in body and not token
        if is_handshake and provider.conduct["handshake"] == "refused":
            error = {"code": -32020, "message": "Missing MCP-Protocol-Version header"}
            answer = {"jsonrpc": "2.0", "id": json.loads(body)["id"], "error": error}
            await JSONResponse(answer, 400)(scope, receive, send)
            return
        if b'"write_file"' in body and token and "write" not in token.scopes:
            challenge = 'Bearer error="insufficient_scope", scope="write"'
            refusal = JSONResponse({}, 403, {"www-authenticate": challenge})
            await refusal(scope, receive, send)
            return
        await inner(scope, _again(body), send)

    return app


async def _answer(app: Any, scope: Any, receive: Any) -> dict[str, Any]:
    sent: list[Any] = []

    async def collect(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, collect)
    return dict(json.loads(sent[1]["body"]))


async def _body(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _again(body: bytes) -> Any:
    sent = False

    async def receive() -> Any:
        nonlocal sent
        if sent:
            await anyio.sleep_forever()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _nowhere(message: Any) -> None: ...


async def main() -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    issuer, resource = (f"http://127.0.0.1:{one.getsockname()[1]}/" for one in listeners)
    provider = Provider(issuer, f"{resource}mcp")
    apps = [authorization_server(provider), mcp_server(provider)]
    async with anyio.create_task_group() as tasks:
        for app, listener in zip(apps, listeners, strict=True):
            server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
            tasks.start_soon(server.serve, [listener])
        print(issuer, provider.resource, flush=True)  # noqa: T201


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        anyio.run(main)
