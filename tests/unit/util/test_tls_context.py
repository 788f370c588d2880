from __future__ import annotations

import ssl
from pathlib import Path

import httpx2
import pytest

from discovery_engine._util.tls_context import _context
from discovery_engine.fetch.fetcher import open_fetcher
from discovery_engine.rpc.scheduling import FairScheduler
from discovery_engine.upstream.http.guarded_client import GuardedClient

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("FLT-22")
async def test_clients_share_the_certificates_of_the_machine_until_others_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = []
    create = httpx2.create_ssl_context

    def counted() -> ssl.SSLContext:
        made.append(context := create())
        return context

    async def open_clients() -> None:
        await GuardedClient(FairScheduler(), 1_000, expects_answers=True).aclose()
        async with open_fetcher("https://example.com"):
            pass

    monkeypatch.setattr(httpx2, "create_ssl_context", counted)
    _context.cache_clear()
    for _ in range(3):
        await open_clients()
    assert len(made) == 1

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    await open_clients()
    assert len(made) == 2
