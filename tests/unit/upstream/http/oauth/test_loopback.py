from __future__ import annotations

from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from discovery_engine.upstream.http.oauth.browser_login import open_loopback
from tests.rows import rows

pytestmark = pytest.mark.anyio


async def get(url: str, **fields: str) -> int:
    async with httpx2.AsyncClient() as client:
        return (await client.get(url, params=fields)).status_code


@pytest.mark.requirement("AUT-5")
async def test_the_first_answer_with_the_state_counts_and_no_later_one() -> None:
    async with open_loopback("", "right") as loopback:
        wrong = await get(loopback.redirect_uri, state="wrong", code="a")
        right = await get(loopback.redirect_uri, state="right", code="b", iss="i")
        again = await get(loopback.redirect_uri, state="right", code="c")

        assert (wrong, right, again) == (400, 200, 400)
        answer = await loopback.answer()
        assert (answer.code, answer.issuer) == ("b", "i")


@pytest.mark.requirement("AUT-5")
@rows(
    "request_",
    [
        b"GET /callback?state=right&state=right&code=x HTTP/1.1\r\n\r\n",
        b"GET /callback?state=right&code=x&code=y HTTP/1.1\r\n\r\n",
        b"POST /callback?state=right&code=x HTTP/1.1\r\n\r\n",
        b"GET /other?state=right&code=x HTTP/1.1\r\n\r\n",
        b"GET\r\n\r\n",
        b"\r\n\r\n",
        b"\xff" * 20_000,
        b"GET /callback?" + b"a=b&" * 100 + b"state=right HTTP/1.1\r\n\r\n",
    ],
)
async def test_an_odd_request_is_refused_and_the_next_one_is_served(request_: bytes) -> None:
    async with open_loopback("", "right") as loopback:
        port = urlsplit(loopback.redirect_uri).port or 0
        with anyio.fail_after(60):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(request_)
                answer = await stream.receive()

        assert answer.startswith(b"HTTP/1.1 400")
        assert await get(loopback.redirect_uri, state="right", code="b") == 200
