"""Reads the files of the configuration: at first if they changed, else when they are needed.

What is remembered of an unchanged configuration is enough to answer from, and takes no parser: that
would be half of what a start costs. Transports are never remembered. So the files are read before
the first server is started or reached.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from discovery_engine.errors import ConfigurationError
from discovery_engine.events import ConfigurationRejected, ConfigurationReloaded, EventBus
from discovery_engine.view.notices import Rejection

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.runtime.catalog_state import CatalogState
    from discovery_engine.runtime.lazy_upstreams import LazyUpstreams
    from discovery_engine.tools.model import ServerName

logger = logging.getLogger(__name__)


def read_settings(
    config: str | Path | Settings | None, environ: Mapping[str, str], *, frozen: bool
) -> Settings:
    """As `config.loading.loader.resolve_settings`, which loads pydantic and YAML: 100 ms of CPU."""
    from discovery_engine.config.loading.loader import resolve_settings  # noqa: PLC0415 - as above

    return resolve_settings(config, environ, frozen=frozen)


class ConfigurationLoader:
    """`load` reads the files; `clock` is Unix time in seconds."""

    def __init__(
        self,
        load: Callable[[], Settings],
        state: CatalogState,
        upstreams: LazyUpstreams,
        events: EventBus,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._load = load
        self._state = state
        self._upstreams = upstreams
        self._events = events
        self._clock = clock
        self._changing = anyio.Lock()
        self.rejection: Rejection | None = None
        """Why the files contain other settings that are invalid; None if they do not."""

    async def reload(self) -> None:
        """As `Engine.reload`."""
        async with self._changing:
            before = self._state.view.connectable
            await self._apply()
            self._upstreams.settings_changed()
            await self._end_changed(before)

    async def apply_decisions(self) -> None:
        """As `Engine.apply_decisions`."""
        await self._state.apply_requests()
        async with self._changing:
            if not (self._state.is_complete or await self._state.knows_decisions()):
                await self._complete()
            before = self._state.view.connectable
            if await self._state.apply_decisions():
                await self._end_changed(before)

    async def complete(self) -> None:
        """Read the files unless they were read. If they are invalid now, no server can be used."""
        if not self._state.is_complete:
            async with self._changing:
                await self._complete()

    async def _complete(self) -> None:
        if self._state.is_complete:
            return
        try:
            await self._apply()
        except ConfigurationError as error:
            logger.warning("The configuration cannot be read any more:\n%s", error)

    async def _apply(self) -> None:
        """Read the files and apply them.

        Raises:
            ConfigurationError: If they are invalid; the last valid ones then stay in force.
        """
        from discovery_engine.config.loading.loader import require_same_file  # noqa: PLC0415 - as above

        try:
            settings = await anyio.to_thread.run_sync(self._load)
            require_same_file(self._state.view.settings, settings)
            await self._state.apply_settings(settings)
        except ConfigurationError as error:
            since = self.rejection.since if self.rejection else self._clock()
            self.rejection = Rejection(error.problems, since)
            self._events.publish(ConfigurationRejected(error.problems))
            raise
        self.rejection = None

    async def _end_changed(self, before: Mapping[ServerName, ServerSettings]) -> None:
        """End the sessions of servers whose transport is another than before, or that are gone."""
        view = self._state.view
        await self._upstreams.close_changed(before, view.connectable)
        self._events.publish(ConfigurationReloaded(len(view.settings.servers)))
