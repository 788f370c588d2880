"""The states of servers in the running gateways, shared with other processes.

Each gateway writes a small file beside the registry and holds a lock on it while it runs. The
kernel releases the lock when the process ends, however it ends: there is no heartbeat, files of
dead gateways are ignored, and a reused process id does no harm.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from discovery_engine._util.file_lock import lock_file
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.status import Observation

if TYPE_CHECKING:
    from discovery_engine.view.view import View

_FOLDER = "gateways"
_MAX_REPORT_BYTES = 16 * 1024 * 1024  # bytes that are read of a file
_READS = 3  # of a file that is being written
_PRIVATE = 0o600

_BY_SEVERITY = (
    ServerState.IDLE,
    ServerState.READY,
    ServerState.STARTING,
    ServerState.DEGRADED,
    ServerState.NEEDS_AUTH,
    ServerState.FAILING,
    ServerState.CRASH_LOOPING,
)


class StatusFile:
    """Created by `open_status_file`."""

    def __init__(self, descriptor: int, scope: str) -> None:
        self._descriptor = descriptor
        self._scope = scope

    def write(self, observations: Iterable[Observation]) -> None:
        """Replace the content of the file; not synced, because a reboot ends the gateway anyway."""
        servers = [to_builtins(observation) for observation in observations]
        form = {"pid": os.getpid(), "scope": self._scope, "servers": servers}
        text = json.dumps(form).encode("ascii")
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, b"%s %s\n" % (_checksum(text), text))


@contextmanager
def open_status_file(data: Path, scope: str) -> Iterator[StatusFile]:
    """The file of this gateway in the data folder; deleted at the end of the block.

    Raises:
        OSError: If it cannot be written.
    """
    folder = data / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{os.getpid()}-{os.urandom(4).hex()}.json"
    new = path.with_suffix(".new")  # it must be locked before others can find it
    descriptor = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE)
    try:
        lock_file(descriptor)
        new.rename(path)
        yield StatusFile(descriptor, scope)
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def observations(data: Path, scope: str) -> Mapping[ServerName, Sequence[Observation]]:
    """The observations of the running gateways of a scope by server, the worst first.

    Files of gateways that have ended are removed.
    """
    by_server: dict[ServerName, list[Observation]] = {}
    with contextlib.suppress(OSError):
        for path in sorted((data / _FOLDER).glob("*.json")):
            for observation in _read_file(path, scope):
                by_server.setdefault(ServerName(observation.server), []).append(observation)
    return {
        name: sorted(
            seen, key=lambda observation: (-_severity(observation.status), observation.gateway)
        )
        for name, seen in by_server.items()
    }


def with_observations(view: View, reports: Mapping[ServerName, Sequence[Observation]]) -> View:
    """A view in which each server has its worst state of all gateways.

    Observations of gateways that reach the server in another way are ignored.
    """
    live = dict(view.live)
    for server in view.settings.servers:
        own = live.get(server.name)
        seen = matching(view, server.name, reports)
        if seen and (own is None or _severity(seen[0].status) > _severity(own.state)):
            live[server.name] = _live(seen)
    return view.with_live(live, view.rejection, view.outage) if reports else view


def matching(
    view: View, name: ServerName, reports: Mapping[ServerName, Sequence[Observation]]
) -> list[Observation]:
    """The observations of a server with the connection of the view, the worst first."""
    reached = view.catalog.part(name).connection
    return [
        observation
        for observation in reports.get(name, ())
        if not reached or observation.connection == reached
    ]


def _live(seen: Sequence[Observation]) -> StateInfo:
    worst, *others = seen
    if _severity(worst.status) < _severity(ServerState.STARTING):
        return StateInfo(ServerState(worst.status), worst.reason, detail=worst.detail)
    elsewhere = "".join(f"; {other.status} in process {other.gateway}" for other in others)
    where = f"seen by the running gateway, process {worst.gateway}{elsewhere}"
    reason = f"{worst.reason} ({where})" if worst.reason else where
    return StateInfo(ServerState(worst.status), reason, worst.stderr, detail=worst.detail)


def _severity(status: str) -> int:
    order = [state.value for state in _BY_SEVERITY]
    return order.index(status) if status in order else -1


def _read_file(path: Path, scope: str) -> list[Observation]:
    """The observations in the file of a gateway; none if the gateway has ended."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return []
    try:
        lock_file(descriptor)
    except BlockingIOError:
        return _read(descriptor, scope)
    except OSError:  # locks do not work here, so running gateways cannot be recognized
        return []
    else:
        with contextlib.suppress(OSError):
            path.unlink()
        return []
    finally:
        os.close(descriptor)


def _read(descriptor: int, scope: str) -> list[Observation]:
    for _ in range(_READS):
        os.lseek(descriptor, 0, os.SEEK_SET)
        line, _, _ = os.read(descriptor, _MAX_REPORT_BYTES).partition(b"\n")
        checksum, _, text = line.partition(b" ")
        if checksum == _checksum(text):
            return _observations(json.loads(text), scope)
    return []


def _checksum(text: bytes) -> bytes:
    from zlib import crc32  # noqa: PLC0415 - not loaded where no gateway is running

    return b"%08x" % crc32(text)


def _observations(form: Any, scope: str) -> list[Observation]:
    match form:
        case {"pid": int(pid), "scope": str(of), "servers": list(servers)} if of == scope:
            try:
                seen = convert(servers, list[Observation])
            except ValueError:  # of another version
                return []
            return [
                replace(observation, gateway=pid)
                for observation in seen
                if _severity(observation.status) >= 0
            ]
    return []
