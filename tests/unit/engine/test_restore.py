"""What the last run knew: the same answers, and none where they would be out of date."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from discovery_engine.catalog import Catalog
from discovery_engine.config.files.location import scope_of
from discovery_engine.config.settings import Settings
from discovery_engine.engine.restore import (
    open_registry_or_fallback,
    stored_view,
)
from discovery_engine.errors import RegistryError
from discovery_engine.search.searcher import build_searcher
from discovery_engine.store.sqlite.registry import open_sqlite
from discovery_engine.trust.decisions import Acceptance, Approval
from tests.engines import Folder, good, python
from tests.rows import rows

pytestmark = pytest.mark.anyio

NO_ECHO = [{"pattern": "echo", "enabled": False}]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.thorough
async def test_it_loads_no_event_loop_no_parser_and_no_sdk(folder: Folder) -> None:
    folder.write(good(), toolRules=NO_ECHO)
    async with folder.open() as engine:
        await engine.refresh()
    script = f"""
import sys
from discovery_engine import stored_view

view = stored_view({str(folder.config)!r}, data_dir={str(folder.data)!r})
assert view.search("pid").hits and view.servers() and view.list_tools("good").entries
print(*{{"asyncio", "anyio", "yaml", "pydantic", "mcp", "regex", "wcmatch"}} & set(sys.modules))
"""

    printed = await python(script)

    assert printed.split() == []


async def test_a_registry_that_cannot_be_read_remembers_nothing(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write(good())
    async with folder.open():
        pass
    (folder.data / "registry.db").unlink()
    (folder.data / "registry.db").mkdir()

    with caplog.at_level(logging.WARNING, "discovery_engine"):
        assert stored_view(folder.config, data_dir=folder.data) is None

    assert "Nothing could be recalled" in caplog.text


@pytest.mark.requirement("REG-12")
@rows("is_cached", [True, False], ids=["no folder", "no cache"])
def test_a_decision_that_cannot_be_kept_is_an_error_and_what_is_seen_is_not(
    tmp_path: Path, *, is_cached: bool
) -> None:
    settings = replace(Settings(), cache=replace(Settings().cache, enabled=is_cached))
    blocked = tmp_path / "file"
    blocked.touch()
    seen = Acceptance("a", "echo", "meaning", "fingerprint", "{}")

    with open_registry_or_fallback(settings, data_dir=blocked, environ={}) as store:
        store.accept("scope", [seen], at=0, if_new=True)
        assert store.history("scope", "a") == (seen,)
        with pytest.raises(RegistryError, match="cannot be kept") as approving:
            store.approve("scope", [Approval("a", "identity")], at=0)
        with pytest.raises(RegistryError, match="cannot be kept"):
            store.accept("scope", [seen], at=0)

    assert approving.value.hint


@pytest.mark.requirement("REG-12")
def test_an_order_to_forget_is_an_error_where_something_may_be_remembered(tmp_path: Path) -> None:
    settings = Settings()
    uncached = replace(settings, cache=replace(settings.cache, enabled=False))
    blocked = tmp_path / "file"
    blocked.touch()

    with (
        open_registry_or_fallback(settings, data_dir=blocked, environ={}) as store,
        pytest.raises(RegistryError, match="cannot be forgotten"),
    ):
        store.forget("scope")
    with open_registry_or_fallback(uncached, data_dir=blocked, environ={}) as store:
        assert store.forget("scope") == 0


@pytest.mark.thorough
@pytest.mark.requirement("REG-15")
@pytest.mark.parametrize("damage", ["none", "of another world", "damaged", "gone"])
async def test_a_remembered_view_searches_with_whatever_index_there_is(
    folder: Folder, damage: str
) -> None:
    folder.write(good())
    async with folder.open() as engine:
        await engine.refresh()
        expected = engine.view.search("echo").hits
        other = engine.view.searcher.dump()
    with open_sqlite(folder.data / "registry.db") as store:
        scope = scope_of(folder.config)
        kept = store.load_index(scope)
        assert kept == other
        index = {
            "none": kept,
            "of another world": build_searcher(Catalog(), Settings().search).dump(),
            "damaged": kept[:-1] + bytes([kept[-1] ^ 1]),
            "gone": b"",
        }
        store.save_index(scope, index[damage])

    view = stored_view(folder.config, data_dir=folder.data)

    assert view is not None
    assert view.search("echo").hits == expected
    assert expected
    with open_sqlite(folder.data / "registry.db") as store:
        assert store.load_index(scope) == kept
