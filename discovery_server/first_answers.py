"""Keeps the remembered first answer as it would be given now."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from discovery_engine.config.files.inputs import is_current
from discovery_engine.events import CatalogChanged, ConfigurationReloaded, TrustChanged
from discovery_engine.rpc.protocol import (
    CLIENT_CAPABILITIES,
    HANDSHAKE_VERSIONS,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    PROTOCOL_VERSION,
)
from discovery_server.eras import ClientRequest

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.engine.first_answer import FirstAnswer
    from discovery_server.gateway import Gateway

logger = logging.getLogger(__name__)

# Seconds in which changes are collected before the answer is written.
_ANSWER_DEBOUNCE_INTERVAL = 0.5

_INITIALIZE = ClientRequest(
    "initialize",
    {
        "protocolVersion": LATEST_HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "", "version": ""},
    },
    LATEST_HANDSHAKE,
)
_DISCOVER = ClientRequest(
    "server/discover",
    {"_meta": {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: {}}},
    LATEST_MODERN,
)


async def remember_first_answer(
    engine: Engine, gateway: Gateway, first: FirstAnswer, answered: anyio.Event
) -> None:
    """Write the answer after `answered` and after each change, until cancelled."""
    answer: object = None
    await answered.wait()
    with engine.subscribe(CatalogChanged, ConfigurationReloaded, TrustChanged) as changes:
        while True:
            try:
                answer = await _write(engine, gateway, first, answer)
            except OSError as error:
                logger.debug("The first answer is not remembered: %s", error)
            await anext(changes)
            await anyio.sleep(_ANSWER_DEBOUNCE_INTERVAL)
            changes.clear()


async def _write(
    engine: Engine, gateway: Gateway, first: FirstAnswer, written: object
) -> tuple[JSONObject, JSONObject | None]:
    """Write the answer unless it is `written`; returns what is written now."""
    inputs = engine.settings.inputs
    observed = first.observed(file.path for file in inputs)
    answer = observed, gateway.answer(_INITIALIZE)
    discovered = gateway.answer(_DISCOVER)
    if answer == written or answer[1] is None or discovered is None:
        return answer
    if await anyio.to_thread.run_sync(is_current, inputs):  # else it is about to be reloaded
        versions = (*HANDSHAKE_VERSIONS, LATEST_MODERN)
        await anyio.to_thread.run_sync(first.save, answer[1], discovered, versions, observed)
    return answer
