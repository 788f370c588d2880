"""The answer to the first request of `discovery serve`, remembered for the next start.

A client does nothing before it has this answer, and loading the engine takes ten times as long as
starting Python. So the text of the last run is sent if nothing that it depends on has changed. This
module imports little of the standard library and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from discovery_engine._util import digests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject

_FOLDER = "first-answers"
_MAX_STORED_ANSWERS = 32  # answers; a client that starts in many folders would leave one in each
_READ = 1 << 16  # bytes; the first request is a few hundred
_REQUEST = {"jsonrpc", "id", "method", "params"}
_META = "io.modelcontextprotocol/"
_UNNAMED = {"name": "", "version": ""}  # what a client of 2026-07-28 may leave out
_MAX_ID = 2**53  # larger integers are not exact in every JSON decoder
_ENVIRONMENT = (
    *("APPDATA", "DISCOVERY_CONFIG", "DISCOVERY_DATA_DIR", "HOME", "LOCALAPPDATA"),
    *("USERPROFILE", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
)
"""Variables that decide which configuration is used, and where data are."""


class EarlyStart:
    """The bytes read from stdin before the engine was loaded, and whether they were answered."""

    def __init__(self, received: bytes = b"", *, is_answered: bool = False) -> None:
        self.received = received
        self.is_answered = is_answered


class FirstAnswer:
    """The remembered answer of one command line in one folder."""

    def __init__(
        self, data: str, arguments: Sequence[str], environ: Mapping[str, str], version: str
    ) -> None:
        """Read nothing yet.

        Args:
            data: The data folder.
            arguments: The command line, without the program.
            environ: The environment of the process.
            version: Of this program; another one may answer otherwise.
        """
        variables = [environ.get(name) for name in _ENVIRONMENT]
        key = json.dumps([version, *arguments, os.getcwd(), *variables])  # noqa: PTH109 - pathlib takes as long to load as all the rest
        name = digests.digest(key.encode("utf-8", "surrogatepass")).hex()
        self._data = data
        self._folder = os.path.join(data, _FOLDER)  # noqa: PTH118 - as above
        self._path = os.path.join(self._folder, f"{name[:32]}.json")  # noqa: PTH118 - as above

    def save(
        self,
        initialized: Mapping[str, JSONObject],
        discovered: Mapping[str, JSONObject],
        versions: Sequence[str],
        inputs: JSONObject,
    ) -> None:
        """Remember the results of `initialize` and `server/discover`.

        Args:
            initialized: The results of `initialize`, whose version is that of the request, by the
                name of the client; that of all others under the empty name.
            discovered: Those of `server/discover`.
            versions: The versions that `initialize` may name, and then the one of the other.
            inputs: What `observed` returned before the results were made.

        Raises:
            OSError: If it cannot be written.
        """
        from pathlib import Path  # noqa: PLC0415 - as above

        from discovery_engine._util.files import replace_file  # noqa: PLC0415 - as above

        *handshake, modern = versions
        record = {
            "inputs": inputs,
            "handshake": handshake,
            "modern": modern,
            "initialize": initialized,
            "discover": discovered,
        }
        replace_file(
            Path(self._path), json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        )
        files = sorted(Path(self._folder).glob("*.json"), key=lambda file: file.stat().st_mtime)
        for old in files[:-_MAX_STORED_ANSWERS]:
            old.unlink(missing_ok=True)

    def observed(self, files: Iterable[str]) -> JSONObject:
        """The present state of the files that the answer depends on, and of the decisions."""
        registry = os.path.join(self._data, "registry")  # noqa: PTH118 - as above
        states = {file: _state(file) for file in (*files, f"{registry}.mark")}
        return {"files": states, "database": _identity(f"{registry}.db")}

    def send(self, stdin: int, stdout: int) -> EarlyStart:
        """Answer the first request if it has arrived and its answer is remembered."""
        record = self._load()
        if record is None or not _has_arrived(stdin):
            return EarlyStart()
        try:
            received = os.read(stdin, _READ)
        except OSError:  # for instance a terminal that was closed
            return EarlyStart()
        answer = _answer(received, record)
        if answer is None:
            return EarlyStart(received)
        with suppress(OSError):  # the reader is gone, which the server notices, too
            _write(stdout, answer)
        return EarlyStart(received, is_answered=True)

    def _load(self) -> JSONObject | None:
        try:
            with open(self._path, encoding="utf-8") as file:  # noqa: PTH123 - as above
                record: JSONObject = json.load(file)
            is_current = self.observed(record["inputs"]["files"]) == record["inputs"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return record if is_current else None


def forget(data: str) -> None:
    """Delete all remembered answers of a data folder; no-op if there are none."""
    folder = os.path.join(data, _FOLDER)  # noqa: PTH118 - as above
    try:
        for name in os.listdir(folder):  # noqa: PTH208 - as above
            os.unlink(os.path.join(folder, name))  # noqa: PTH108, PTH118 - as above
    except OSError:
        return


def _state(path: str) -> list[int]:
    try:
        status = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return []
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _identity(path: str) -> list[int]:
    """The inode of a file that is written all the time; empty if there is none."""
    return _state(path)[:1]


def _has_arrived(stdin: int) -> bool:
    import select  # noqa: PLC0415 - Windows has no poll

    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(stdin, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(0))


def _answer(received: bytes, record: JSONObject) -> bytes | None:
    """The answer to what was received; None unless that is exactly one request of a known form."""
    line, newline, rest = received.partition(b"\n")
    if not newline or rest:
        return None
    try:
        request = json.loads(line)
        if not _is_request(request) or (result := _result(request, record)) is None:
            return None
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_request(request: JSONObject) -> bool:
    id_ = request["id"]
    is_id = type(id_) is str or (type(id_) is int and abs(id_) < _MAX_ID)
    return set(request) == _REQUEST and request["jsonrpc"] == "2.0" and is_id


def _result(request: JSONObject, record: JSONObject) -> JSONObject | None:
    params: JSONObject = request["params"]
    if request["method"] == "initialize":
        return _initialized(record, **params)
    if request["method"] == "server/discover" and set(params) == {"_meta"}:
        meta: JSONObject = params["_meta"]
        return _discovered(record, **{key.removeprefix(_META): meta[key] for key in meta})
    return None


def _initialized(
    record: JSONObject,
    *,
    protocolVersion: str,  # noqa: N803 - as the protocol names it
    capabilities: JSONObject,
    clientInfo: JSONObject,  # noqa: N803
) -> JSONObject | None:
    if type(protocolVersion) is not str or not _is_plain(capabilities, clientInfo):
        return None
    versions = record["handshake"]
    version = protocolVersion if protocolVersion in versions else versions[-1]
    return {**_of_client(record["initialize"], clientInfo), "protocolVersion": version}


def _discovered(
    record: JSONObject,
    *,
    protocolVersion: str,  # noqa: N803
    clientCapabilities: JSONObject,  # noqa: N803
    clientInfo: JSONObject | None = None,  # noqa: N803
) -> JSONObject | None:
    info = _UNNAMED if clientInfo is None else clientInfo
    is_known = protocolVersion == record["modern"] and _is_plain(clientCapabilities, info)
    return _of_client(record["discover"], info) if is_known else None


def _of_client(answers: JSONObject, info: JSONObject) -> JSONObject:
    answer: JSONObject = answers[info["name"] if info["name"] in answers else ""]
    return answer


def _is_plain(capabilities: JSONObject, info: JSONObject) -> bool:
    """Return whether the capabilities and the info have a form that needs no further check."""
    names = {"name", "version"} <= set(info) <= {"name", "version", "title"}
    return names and all(type(text) is str for text in info.values()) and _is_nested(capabilities)


def _is_nested(capabilities: JSONObject) -> bool:
    """Return whether capabilities consist of objects, and of flags only for `listChanged`."""
    return type(capabilities) is dict and all(
        type(value) is bool if name == "listChanged" else _is_nested(value)
        for name, value in capabilities.items()
    )


def _write(stdout: int, data: bytes) -> None:
    while data:
        data = data[os.write(stdout, data) :]
