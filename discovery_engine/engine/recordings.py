"""Recorded exchanges with servers: files that one run writes, and a later run answers from.

    DIR/SERVER/listing.json                 what the server listed
    DIR/SERVER/create_issue-0f3a….json      one request, and its answers in their order

Files have sorted keys and stable names, so that a second recording of the same exchanges changes no
file. A request is answered by the recording with the same arguments, or else by one whose arguments
differ only in times, ids and paths of temporary files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Lock

import anyio.to_thread
from msgspec import Struct, convert, to_builtins

from discovery_engine._util.files import replace_file
from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.errors import DiscoveryError, UpstreamProtocolError
from discovery_engine.secrets.known_secrets import KNOWN_SECRETS
from discovery_engine.secrets.redactor import Redactor
from discovery_engine.secrets.references import REDACTED
from discovery_engine.tools.model import canonical_json
from discovery_engine.upstream.call import UpstreamRequest
from discovery_engine.upstream.listing import Listing
from discovery_engine.upstream.server_output import OutputRedactor

_LISTING = "listing.json"
_DIGEST = 16  # characters of a digest in a file's name
_NAME = 60  # characters of the subject in a file's name
_EPOCH = 1_000_000_000  # integers from here on are taken for times or ids
_VOLATILE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?)"
    r"|(?P<clock>\b\d\d:\d\d(?::\d\d(?:\.\d+)?)?\b)"
    r"|(?P<uuid>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)"
    r"|(?P<hex>\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{12,}\b)"
    r"|(?P<number>\b\d{9,}\b)"
    r"|(?P<path>/(?:tmp|private|var/folders)/[^\s\"']*)"
)


class RecordingError(DiscoveryError):
    """A folder of recordings cannot be read or written."""

    code = "RECORDING_ERROR"


class Exchange(Struct, frozen=True):
    """A request and its answers, in order; an answer equal to the one before is left out."""

    method: str
    params: JSONObject
    answers: tuple[JSONObject, ...]
    """Each has a `result`, or an `error` with `message` and `code`, which may be null."""


def shown_params(request: UpstreamRequest) -> JSONObject:
    """Return the parameters of a request, without `_meta` and the arguments that the owner pins."""
    params = {name: value for name, value in request.params.items() if name != "_meta"}
    arguments = params.get("arguments")
    if request.pinned and isinstance(arguments, dict):
        own = {name: value for name, value in arguments.items() if name not in request.pinned}
        params["arguments"] = own
    return params


def save_exchange(folder: Path, server: str, exchange: Exchange) -> None:
    """Write one exchange; it replaces an earlier recording of the same request.

    Raises:
        RecordingError: If it cannot be written.
    """
    subject = exchange.params.get("name") or exchange.params.get("uri") or exchange.method
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", str(subject))[:_NAME].strip("-")
    content = canonical_json([exchange.method, exchange.params]).encode()
    name = f"{slug}-{hashlib.sha256(content).hexdigest()[:_DIGEST]}.json"
    _write(folder / server / name, to_builtins(exchange))


def save_listing(folder: Path, server: str, listing: Listing) -> None:
    """Write the listing of a server, without its `connection`.

    Raises:
        RecordingError: If it cannot be written.
    """
    form = {name: value for name, value in to_builtins(listing).items() if name != "connection"}
    _write(folder / server / _LISTING, form)


def load_listing(folder: Path, server: str) -> Listing | None:
    """Return the recorded listing of a server; None if there is none.

    Raises:
        RecordingError: If its file is damaged.
    """
    path = folder / server / _LISTING
    return convert(_read(path), Listing) if path.exists() else None


def load_exchanges(folder: Path, server: str) -> tuple[Exchange, ...]:
    """Read the recorded exchanges of a server, in the order of their file names.

    Raises:
        RecordingError: If a file is damaged.
    """
    paths = sorted((folder / server).glob("*.json"))
    return tuple(convert(_read(path), Exchange) for path in paths if path.name != _LISTING)


def find(exchanges: tuple[Exchange, ...], method: str, params: JSONObject) -> Exchange | None:
    """Return the exchange with these parameters, else the first with the same template."""
    key = canonical_json([method, params])  # in Python 1 == True, in JSON they differ
    exact = (
        exchange
        for exchange in exchanges
        if canonical_json([exchange.method, exchange.params]) == key
    )
    alike = (
        exchange
        for exchange in exchanges
        if exchange.method == method and _fits(exchange.params, params)
    )
    return next(exact, None) or next(alike, None)


def _fits(recorded: JSONValue, call_value: JSONValue) -> bool:
    match recorded, call_value:
        case dict(), dict():
            return recorded.keys() == call_value.keys() and all(
                _fits(value, call_value[name]) for name, value in recorded.items()
            )
        case list(), list():
            return len(recorded) == len(call_value) and all(map(_fits, recorded, call_value))
        case str(), str():
            # A redacted text may have had any value.
            return REDACTED in recorded or _template(recorded) == _template(call_value)
        case int(), int() if min(recorded, call_value) >= _EPOCH:
            return True
    return canonical_json(recorded) == canonical_json(call_value)


def _template(text: str) -> str:
    return _VOLATILE.sub(lambda match: f"<{match.lastgroup}>", text)


def _write(path: Path, form: Mapping[str, JSONValue]) -> None:
    text = json.dumps(form, indent=2, sort_keys=True, ensure_ascii=False)
    data = f"{text}\n".encode("utf-8", "backslashreplace")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != data:
            replace_file(path, data, follows_link=False)
    except OSError as error:
        raise RecordingError(f"{path.name} cannot be written: {error.strerror}") from error


def _read(path: Path) -> JSONValue:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RecordingError(f"{path.name} cannot be read: {error}") from error


_SECRET = 6  # characters of the shortest pinned text that is taken for a secret


class Recorder:
    """Writes exchanges to a folder, all answers to one request in this run to one file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._answers: dict[tuple[str, str], tuple[JSONObject, ...]] = {}
        self._lock = Lock()

    async def record_listing(self, server: str, listing: Listing) -> None:
        """Write the listing of a server, in a worker thread.

        Raises:
            RecordingError: If it cannot be written.
        """
        await anyio.to_thread.run_sync(save_listing, self._folder, server, listing)

    async def record(
        self,
        server: str,
        request: UpstreamRequest,
        answer: JSONObject | UpstreamProtocolError,
        redactor: OutputRedactor,
    ) -> None:
        """Add an answer to the file of its request, both redacted, in a worker thread.

        Raises:
            RecordingError: If it cannot be written.
        """
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
