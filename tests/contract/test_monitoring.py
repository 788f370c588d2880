"""`/metrics` and `/health` of a gateway, as monitors ask for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse

from discovery_engine import DiscoveryError, Engine
from discovery_server.access_tokens import AccessTokens
from discovery_server.tokens import parse_tokens
from tests.engines import Folder, broken, good
from tests.unit.server import web

pytestmark = pytest.mark.anyio

OWN = "owner-token-of-forty-three-characters-12345"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@asynccontextmanager
async def served(
    folder: Folder, token: str | None = OWN
) -> AsyncIterator[tuple[Engine, httpx2.AsyncClient]]:
    folder.write(good(), broken(good("dead")), views={"few": {"servers": ["good"]}})
    async with folder.open() as engine:
        tokens = parse_tokens(token) if token else None
        async with web.served(engine, tokens, data=folder.data) as address:
            base = address.removesuffix("/mcp")
            async with httpx2.AsyncClient(base_url=base, timeout=60) as http:
                yield engine, http


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(text)
        for sample in family.samples
    }


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.mark.requirement("MTR-10")
async def test_metrics_are_valid_and_count_what_was_called(folder: Folder) -> None:
    async with served(folder) as (engine, http):
        await engine.refresh()
        for _ in range(3):
            await engine.execute("good", "echo", {"text": "confidential"})
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "echo", {"text": 7})
        with pytest.raises(DiscoveryError):
            await engine.execute("good", "s3cret_name", {})
        await engine.call_log.flush()
        answer = await http.get("/metrics", headers=bearer(OWN))
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}
        other = await http.get("/metrics", headers=bearer(OWN) | accept)

    found = samples(answer.text)
    echo = {("server", "good"), ("tool", "echo")}
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert found["discovery_calls_total", frozenset(echo | {("outcome", "ok")})] == 3
    assert found["discovery_call_duration_seconds_count", frozenset(echo)] == 4
    assert found["discovery_server_healthy", frozenset({("server", "good"), ("state", "ready")})]
    dead = frozenset({("server", "dead"), ("state", "failing")})
    assert found["discovery_server_healthy", dead] == 0
    assert ("process_open_fds", frozenset()) in found
    assert "confidential" not in answer.text
    assert "s3cret_name" not in answer.text
    assert "(unknown)" in answer.text
    assert other.headers["content-type"].startswith("application/openmetrics-text")
    assert len(list(parse_openmetrics(other.text))) >= 7  # type: ignore[no-untyped-call]


@pytest.mark.requirement("MTR-11")
async def test_metrics_need_a_token_of_all_views(folder: Folder) -> None:
    async with served(folder) as (_, http):
        tokens = AccessTokens(folder.data / "tokens.json")
        reader = tokens.create(scopes=frozenset({"read"}))[0]
        bound = tokens.create(view="few", scopes=frozenset({"read"}))[0]
        statuses = {
            "none": (await http.get("/metrics")).status_code,
            "wrong": (await http.get("/metrics", headers=bearer("x" * 43))).status_code,
            "reader": (await http.get("/metrics", headers=bearer(reader))).status_code,
            "bound": (await http.get("/metrics", headers=bearer(bound))).status_code,
            "post": (await http.post("/metrics", headers=bearer(OWN))).status_code,
            "below": (await http.get("/metrics/x", headers=bearer(OWN))).status_code,
            "rebound": (
                await http.get("/metrics", headers=bearer(OWN) | {"host": "evil.example"})
            ).status_code,
        }
    assert statuses == {
        "none": 401,
        "wrong": 401,
        "reader": 200,
        "bound": 403,
        "post": 405,
        "below": 404,
        "rebound": 421,
    }
    async with served(folder, token=None) as (_, http):
        assert (await http.get("/metrics")).status_code == 404


@pytest.mark.thorough
@pytest.mark.requirement("MTR-13")
async def test_health_needs_no_token_and_says_nothing_of_servers(folder: Folder) -> None:
    for token in (OWN, None):
        async with served(folder, token) as (_, http):
            answer = await http.get("/health")
            foreign = await http.get("/health", headers={"host": "evil.example"})
            deeper = await http.get("/health/good")

        form = json.loads(answer.text)
        assert (answer.status_code, foreign.status_code, deeper.status_code) == (200, 421, 404)
        assert form.keys() == {"status", "version", "uptime"}
        assert form["status"] == "ok"
        assert form["uptime"] >= 0
