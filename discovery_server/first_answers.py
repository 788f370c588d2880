"""Keeps the remembered first answer as it would be given now."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread

from discovery_engine.config.files.inputs import is_current
from discovery_engine.events import CatalogChanged, ConfigurationReloaded, TrustChanged
from discovery_engine.rpc.protocol import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    HANDSHAKE_VERSIONS,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    PROTOCOL_VERSION,
)
from discovery_server.eras import ClientRequest, client_name
from discovery_server.surfaces import HOSTS

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.engine.first_answer import FirstAnswer
    from discovery_server.gateway import Gateway

Answers: TypeAlias = "Mapping[str, JSONObject]"
"""Answers by the name of a client."""

logger = logging.getLogger(__name__)

# Seconds in which changes are collected before the answer is written.
_ANSWER_DEBOUNCE_INTERVAL = 0.5

_OTHERS = ""  # the name of all clients that are no host of `server.mode: auto`


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
) -> tuple[JSONObject, Answers]:
    """Write the answer unless it is `written`; returns what is written now."""
    inputs = engine.settings.inputs
    observed = first.observed(file.path for file in inputs)
    names = (_OTHERS, *HOSTS)
    answer = observed, _answers(gateway, map(_initialize, names))
    discovered = _answers(gateway, map(_discover, names))
    if answer == written or not (answer[1] and discovered):
        return answer
    if await anyio.to_thread.run_sync(is_current, inputs):  # else it is about to be reloaded
        versions = (*HANDSHAKE_VERSIONS, LATEST_MODERN)
        await anyio.to_thread.run_sync(first.save, answer[1], discovered, versions, observed)
    return answer


def _answers(gateway: Gateway, requests: Iterable[ClientRequest]) -> Answers:
    """Return the answers by client, those like that of the others left out; none if all wait."""
    answers = {client_name(request): gateway.answer(request) for request in requests}
    common = answers[_OTHERS]
    return {
        name: answer
        for name, answer in answers.items()
        if answer is not None and (name == _OTHERS or answer != common)
    }


def _initialize(name: str) -> ClientRequest:
    params: JSONObject = {
        "protocolVersion": LATEST_HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": name, "version": ""},
    }
    return ClientRequest("initialize", params, LATEST_HANDSHAKE)


def _discover(name: str) -> ClientRequest:
    meta: JSONObject = {
        PROTOCOL_VERSION: LATEST_MODERN,
        CLIENT_CAPABILITIES: {},
        CLIENT_INFO: {"name": name, "version": ""},
    }
    return ClientRequest("server/discover", {"_meta": meta}, LATEST_MODERN)
