"""Records what servers list and answer, redacted as logs are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock

import anyio.to_thread

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.engine.recordings import (
    Exchange,
    save_exchange,
    save_listing,
    shown_params,
)
from discovery_engine.errors import UpstreamProtocolError
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.secrets.redactor import Redactor
from discovery_engine.tools.model import canonical_json
from discovery_engine.upstream.listing import Listing
from discovery_engine.upstream.requests import UpstreamRequest
from discovery_engine.upstream.server_output import OutputRedactor

_SECRET = 6  # characters of the shortest pinned text that is taken for a secret


class Recorder:
    """Writes exchanges into a folder; those of one request of this run share a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._answers: dict[tuple[str, str], tuple[JSONObject, ...]] = {}
        self._lock = Lock()

    async def record_listing(self, server: str, listing: Listing) -> None:
        """Raises `RecordingError` if it cannot be written."""
        await anyio.to_thread.run_sync(save_listing, self._folder, server, listing)

    async def record(
        self,
        server: str,
        request: UpstreamRequest,
        answer: JSONObject | UpstreamProtocolError,
        redactor: OutputRedactor,
    ) -> None:
        """Raises `RecordingError` if it cannot be written."""
        await anyio.to_thread.run_sync(partial(self._record, server, request, answer, redactor))

    def _record(
        self,
        server: str,
        request: UpstreamRequest,
        answer: JSONObject | UpstreamProtocolError,
        redactor: OutputRedactor,
    ) -> None:
        pinned = Redactor(_pinned_texts(request))

        def redact(text: str) -> str:
            return KNOWN_SECRETS.redact_log(pinned.redact(redactor.redact(text)))

        params = _redacted(shown_params(request), redact)
        if isinstance(answer, UpstreamProtocolError):
            message, code = answer.given
            form: JSONObject = {"error": {"code": code, "message": redact(message)}}
        else:
            form = {"result": _redacted(answer, redact)}
        key = server, canonical_json([request.method, params])
        with self._lock:
            answers = self._answers.get(key, ())
            if answers and answers[-1] == form:
                return
            self._answers[key] = (*answers, form)
            save_exchange(
                self._folder, server, Exchange(request.method, params, self._answers[key])
            )


def _pinned_texts(request: UpstreamRequest) -> list[str]:
    arguments = request.params.get("arguments")
    values = arguments if isinstance(arguments, dict) else {}
    texts = (values.get(name) for name in request.pinned)
    return [text for text in texts if isinstance(text, str) and len(text) >= _SECRET]


def _redacted(value: JSONValue, redact: Callable[[str], str]) -> JSONValue:
    match value:
        case str():
            return redact(value)
        case dict():
            return {redact(name): _redacted(member, redact) for name, member in value.items()}
        case list():
            return [_redacted(element, redact) for element in value]
    return value
