"""What the last run knew, read without touching anything else.

This path loads no YAML, no pydantic, no event loop and no MCP SDK: a command that only reads
answers in the time that starting Python takes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from discovery_engine.config.inputs import is_current
from discovery_engine.config.location import find_config, scope_of
from discovery_engine.errors import RegistryError
from discovery_engine.registry.memory import MemoryStore
from discovery_engine.registry.sqlite import open_store
from discovery_engine.search.searcher import build_searcher
from discovery_engine.view import View

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.registry.store import Store

logger = logging.getLogger(__name__)

_REGISTRY = "registry.db"


def remembered_view(
    config: str | Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    data_dir: str | Path | None = None,
) -> View | None:
    """The view of the last run; None if there was none or its configuration has changed."""
    path = registry_path(data_dir, environ)
    if not path.exists():
        return None
    found = find_config(os.fspath(config) if config is not None else None, environ=environ)
    try:
        with open_store(path) as store:
            world = store.load(scope_of(found))
    except RegistryError as error:
        logger.warning("Nothing could be recalled: %s", error)
        return None
    if world is None or not is_current(world.settings.inputs):
        return None
    settings = world.settings
    searcher = build_searcher(
        world.catalog,
        settings.search,
        descriptions={server.name: server.description for server in settings.servers},
    )
    return View(settings, world.catalog, searcher)


@contextmanager
def open_registry(
    settings: Settings, *, data_dir: str | Path | None, environ: Mapping[str, str]
) -> Iterator[Store]:
    """The registry on disk; one in memory if caching is off or the disk cannot be used."""
    if not settings.cache.enabled:
        yield MemoryStore()
        return
    path = registry_path(data_dir, environ)
    try:
        store = open_store(path)
    except RegistryError as error:
        logger.warning("Nothing will be remembered: %s", error)
        yield MemoryStore()
        return
    with store:
        yield store


def registry_path(data_dir: str | Path | None, environ: Mapping[str, str]) -> Path:
    """Where the registry is: `data_dir`, `$DISCOVERY_DATA_DIR`, or the user's data folder."""
    if folder := data_dir or environ.get("DISCOVERY_DATA_DIR"):
        return Path(folder) / _REGISTRY
    # Only needed without a folder of one's own, and loading it takes a sixth of a start.
    from platformdirs import user_data_path  # noqa: PLC0415

    return user_data_path("discovery", appauthor=False) / _REGISTRY
