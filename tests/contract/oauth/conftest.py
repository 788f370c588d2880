from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import keyring
import keyring.backends.fail
import pytest

from discovery_engine.engine import Engine, open_engine
from tests.forked import Preloaded, preloaded
from tests.oauth import OAuthWorld, oauth_world

OpenEngine = Callable[..., AbstractAsyncContextManager[Engine]]


@pytest.fixture(scope="session")
def forked() -> Iterator[Preloaded]:
    """As elsewhere; what reaches remote servers is loaded, too, which takes over a second."""
    with preloaded(
        "discovery_engine.secrets.encrypted_store",
        "discovery_engine.upstream.http.http_transport",
        "discovery_engine.upstream.http.logins",
        "discovery_engine.upstream.http.oauth.browser_login",
    ) as run:
        yield run


@pytest.fixture(scope="session")
def shared_world() -> Iterator[OAuthWorld]:
    with oauth_world() as world:
        yield world


@pytest.fixture
def world(shared_world: OAuthWorld) -> OAuthWorld:
    """An authorization server that knows nobody, and the MCP server that it protects."""
    shared_world.control(reset=True)
    return shared_world


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring.set_keyring(keyring.backends.fail.Keyring())
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def engine_of(world: OAuthWorld, tmp_path: Path) -> OpenEngine:
    """Engines that share a configuration and a data folder."""

    @asynccontextmanager
    async def opened(
        *, environ: dict[str, str] | None = None, **more: Any
    ) -> AsyncIterator[Engine]:
        oauth = more.pop("oauth", {})
        config = more.pop("config", None) or world.config(tmp_path, **oauth)
        settings = {**os.environ, **(environ or {})}
        async with open_engine(
            config, environ=settings, data_dir=tmp_path / "data", **more
        ) as engine:
            yield engine

    return opened
