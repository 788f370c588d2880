"""What no client sends, over HTTP, in both eras."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from discovery_engine._util.json import JSONObject
from tests.unit.server.fakes import make_engine
from tests.unit.server.web import SessionClient, served

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SRV-19")]

INTERNALS = re.compile(
    r"pydantic|validation error|input_value|JSONRPC\w|https?://|SECRET", re.IGNORECASE
)
MODERN = {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "ping",
}
ERAS = pytest.mark.parametrize("headers", [{}, MODERN], ids=["handshake", "2026-07-28"])


def ping(**members: Any) -> bytes:
    message: JSONObject = {"jsonrpc": "2.0", "id": 1, "method": "ping", **members}
    return json.dumps({k: v for k, v in message.items() if v is not ...}).encode()


async def answered(body: bytes, headers: dict[str, str]) -> tuple[int, int, str]:
    """The status of HTTP, the code of the error, and its words."""
    async with served(make_engine()) as address, SessionClient(address) as client:
        session = {} if headers else {"mcp-session-id": await client.open()}
        answer = await client.http.post(address, content=body, headers={**headers, **session})
        error = answer.json()["error"]
        assert answer.json()["id"] is None
        assert len(answer.content) == int(answer.headers["content-length"])
        return answer.status_code, error["code"], error["message"]


@ERAS
@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"{", b"SECRET", b"\xff\xfe", b"[" * 100_000, b'{"jsonrpc": "2.0",}'],
    ids=lambda body: repr(body[:20]),
)
async def test_what_is_no_json_is_a_parse_error(body: bytes, headers: dict[str, str]) -> None:
    status, code, message = await answered(body, headers)

    assert (status, code) == (400, -32700)
    assert not INTERNALS.search(message)


@ERAS
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[]", id="empty batch"),
        pytest.param(b"[" + ping() + b"]", id="batch"),
        pytest.param(b"5", id="number"),
        pytest.param(b'"SECRET"', id="string"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="empty"),
        pytest.param(b'{"password": "SECRET"}', id="another object"),
        pytest.param(ping(jsonrpc="SECRET"), id="another version"),
        pytest.param(ping(jsonrpc=...), id="no version"),
        pytest.param(ping(method=...), id="no method"),
        pytest.param(ping(method=5), id="method that is no text"),
        pytest.param(ping(params="SECRET"), id="params that are no object"),
    ],
)
async def test_what_is_no_message_is_an_invalid_request(
    body: bytes, headers: dict[str, str]
) -> None:
    status, code, message = await answered(body, headers)

    assert (status, code) == (400, -32600)
    assert not INTERNALS.search(message)
