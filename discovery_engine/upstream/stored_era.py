"""The era of one connection, kept between runs. A registry that fails costs a warning only."""

from __future__ import annotations

import logging
from functools import partial

from anyio import to_thread

from discovery_engine._util.json import JSONObject
from discovery_engine.errors import RegistryError
from discovery_engine.redaction.known_secrets import KNOWN_SECRETS
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.connection import Era, EraMemory

logger = logging.getLogger(__name__)


class StoredEra:
    """`connection` is the fingerprint of the connection."""

    def __init__(self, eras: EraMemory, connection: str, server: ServerName) -> None:
        self._eras = eras
        self._connection = connection
        self._server = server

    async def load(self) -> Era | None:
        """The era that last worked; None if none is known."""
        try:
            load = self._eras.load_era
            return Era.from_json(await to_thread.run_sync(load, self._connection))
        except RegistryError:
            logger.warning("The stored era of %r cannot be loaded", self._server, exc_info=True)
            return None

    async def save(self, era: Era) -> None:
        """Keep an era for the next connect."""
        await self._write(KNOWN_SECRETS.redact_json(era.to_json()))

    async def delete(self) -> None:
        """The next connect probes the server."""
        await self._write(None)

    async def _write(self, era: JSONObject | None) -> None:
        try:
            await to_thread.run_sync(partial(self._eras.save_era, self._connection, era))
        except RegistryError:
            logger.warning("The era of %r cannot be stored", self._server, exc_info=True)
