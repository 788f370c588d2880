"""Tokens bound to views: what one opens, no other one does, and a revoked one does nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from discovery_engine._util.json import JSONObject
from discovery_engine.engine import Engine
from discovery_server.access_tokens import AccessTokens
from discovery_server.client_notifications import open_notifications
from discovery_server.gateway import Gateway
from discovery_server.tokens import parse_tokens
from tests.contract.test_views import opened_folder
from tests.engines import Folder
from tests.unit.server.web import SessionClient, result_of, served
from tests.unit.server.wire import request

pytestmark = pytest.mark.anyio

OWN = "the-token-of-the-gateway-itself"
VIEWS: JSONObject = {
    "cats": {"servers": ["zoo"], "mode": "direct", "expose": ["*cat"]},
    "farm": {"servers": ["farm"], "mode": "direct"},
}


class Place:
    """A gateway over HTTP with tokens."""

    def __init__(self, address: str, tokens: AccessTokens, folder: Folder, engine: Engine) -> None:
        self.address = address
        self.tokens = tokens
        self.folder = folder
        self.engine = engine

    def token(self, view: str | None = None, **about: Any) -> str:
        return self.tokens.create(view=view, **about)[0]

    def client(self, token: str, path: str = "") -> SessionClient:
        return SessionClient(self.address + path, token)


@asynccontextmanager
async def placed(
    tmp_path: Path, *, view: str | None = None, **sections: Any
) -> AsyncIterator[Place]:
    folder = Folder(tmp_path)
    await opened_folder(folder, **{"views": VIEWS, **sections})
    tokens = AccessTokens(tmp_path / "data" / "tokens.json")
    async with folder.open() as engine, open_notifications(engine) as notifications:
        await engine.refresh()
        shown = engine if view is None else engine.in_view(view)
        gateway = Gateway(
            shown, notifications.of(shown), subscriptions_of=notifications.of, view=view
        )
        own = parse_tokens(OWN)
        async with served(engine, own, gateway=gateway, data=folder.data) as address:
            yield Place(address, tokens, folder, engine)


def expire(tokens: AccessTokens) -> None:
    """Let each token that ends at some time have ended by now."""
    document = json.loads(tokens.path.read_text("utf-8"))
    for token in document["tokens"]:
        token["expires_at"] = token["expires_at"] and token["created_at"]
    tokens.path.write_text(json.dumps(document), "utf-8")


async def tools(client: SessionClient) -> list[str]:
    session = await client.open()
    answer = await client.request("POST", session, request(3, "tools/list"))
    names = [tool["name"] for tool in result_of(answer)["tools"]]
    return [name for name in names if name != "read_result"]


@pytest.mark.requirement("VIEW-24")
async def test_a_token_of_a_view_opens_that_view_only(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        cats, everything = place.token("cats"), place.token()
        async with place.client(cats) as at_mcp, place.client(cats, "/cats") as at_view:
            assert await tools(at_mcp) == await tools(at_view) == ["zoo__get_cat", "zoo__wash_cat"]
        refused = []
        for path in ("/farm", "/nobody", "/Cats", "/cats/farm", "/farm/"):
            async with place.client(cats, path) as elsewhere:
                with pytest.raises(httpx2.HTTPStatusError) as error:
                    await elsewhere.open()
                refused.append((error.value.response.status_code, error.value.response.text))
        async with place.client(everything) as all_of_it, place.client(everything, "/farm") as farm:
            assert "search_tools" in await tools(all_of_it)
            assert await tools(farm) == ["farm__get_cow"]
        async with place.client(OWN, "/cats") as own:
            assert await tools(own) == ["zoo__get_cat", "zoo__wash_cat"]

    assert {code for code, _ in refused} == {404}
    assert len({text for _, text in refused}) == 1  # another view is as unknown as none


@pytest.mark.requirement("VIEW-24")
async def test_what_one_token_has_does_not_open_with_another(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        first, second = place.token("cats"), place.token("cats")
        async with place.client(first) as owner, place.client(second) as thief:
            session = await owner.open()
            for method in ("POST", "GET", "DELETE"):
                assert (await thief.request(method, session)).status_code == 404
            assert (await owner.request("POST", session)).status_code == 200
        async with place.client(place.token()) as other:
            assert (await other.request("POST", session)).status_code == 404


@pytest.mark.requirement("VIEW-22")
async def test_a_revoked_or_expired_token_is_refused_at_the_next_request(tmp_path: Path) -> None:
    async with placed(tmp_path) as place:
        revoked, expiring = place.token("cats", name="one"), place.token("cats", lifetime=60)
        for value, end in ((revoked, None), (expiring, 60.0)):
            async with place.client(value) as client:
                session = await client.open()
                assert (await client.request("POST", session)).status_code == 200
                if end is None:
                    AccessTokens(place.tokens.path).revoke("one")
                else:
                    expire(place.tokens)
                for answer in (
                    await client.request("POST", session),
                    await client.request("GET", session),
                    await client.call_statelessly("zoo__wash_cat", {}),
                ):
                    assert answer.status_code == 401
                    assert "invalid_token" in answer.headers["www-authenticate"]
                    assert value not in answer.text
