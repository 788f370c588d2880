"""The engine's own answers: held while they hold, and counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from discovery_engine.config.settings import CacheSettings
from discovery_engine.engine import open_engine
from tests.factories import make_settings

pytestmark = pytest.mark.anyio

NOBODY = make_settings("github", enabled=False)


async def test_an_answer_is_held_and_the_hit_is_counted(tmp_path: Path) -> None:
    async with open_engine(NOBODY, environ={}, data_dir=tmp_path) as engine:
        first = await engine.list_servers()
        again = await engine.list_servers()
        stats = engine.cache_stats()["servers"]

    assert again is first
    assert (stats.hits, stats.misses) == (1, 1)


async def test_a_reload_ends_what_was_held(tmp_path: Path) -> None:
    async with open_engine(NOBODY, environ={}, data_dir=tmp_path) as engine:
        first = await engine.list_tools("github", include_disabled=True)
        await engine.reload()
        again = await engine.list_tools("github", include_disabled=True)

    assert again is not first
    assert again == first


async def test_forgetting_ends_what_was_held(tmp_path: Path) -> None:
    async with open_engine(NOBODY, environ={}, data_dir=tmp_path) as engine:
        first = await engine.list_servers()
        await engine.forget()
        again = await engine.list_servers()

    assert again is not first


async def test_with_caching_off_every_answer_is_made_anew(tmp_path: Path) -> None:
    settings = replace(NOBODY, cache=CacheSettings(enabled=False))

    async with open_engine(settings, environ={}, data_dir=tmp_path) as engine:
        await engine.list_servers()
        await engine.list_servers()
        stats = engine.cache_stats()["servers"]

    assert (stats.hits, stats.misses, stats.size) == (0, 0, 0)
