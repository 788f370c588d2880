"""Refusals before routing: in the form of the API below its paths, elsewhere in that of the caller.

{"code": "UNAUTHORIZED", "message": "a token is required", "hint": "…"}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discovery_engine.rpc.json_codec import encode_finite
from discovery_server.http.asgi import JSON, respond, respond_text

if TYPE_CHECKING:
    from discovery_server.http.asgi import Header, Scope, Send

API_PATH = "/api"
EVENTS_PATH = "/events"
METRICS_PATH = "/metrics"
_OF_API = frozenset({API_PATH, EVENTS_PATH, METRICS_PATH})


def is_of_api(scope: Scope) -> bool:
    """Return whether a request is for a path where each error has the form of the API."""
    return f"/{scope['path'].partition('/')[2].partition('/')[0]}" in _OF_API


def api_error(code: str, message: str, hint: str, **facts: str) -> bytes:
    return encode_finite({"code": code, "message": message, "hint": hint, **facts})


async def refuse(
    scope: Scope,
    send: Send,
    status: int,
    text: str,
    *headers: Header,
    hint: str,
    code: str = "INVALID_REQUEST",
) -> None:
    """Answer with an error of the API below its paths, and with the text alone elsewhere."""
    if is_of_api(scope):
        await respond(send, status, api_error(code, text, hint), JSON, *headers)
    else:
        await respond_text(send, status, text, *headers)
