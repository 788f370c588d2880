"""How servers fare in the gateways that are running, for whoever is not one of them.

A gateway keeps a small file beside the registry and holds a lock on it for as long as it lives. The
kernel takes the lock from a process that ends, however it ends, so there is no heartbeat to write,
the word of a dead gateway does not count, and a process id that is used again fools nobody. Several
gateways have a file each.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from discovery_engine.registry.sqlite.locking import lock_file
from discovery_engine.tools.model import ServerName
from discovery_engine.view.status import Live, ServerStatus

if TYPE_CHECKING:
    from discovery_engine.view.view import View

_FOLDER = "gateways"
_LIMIT = 16 * 1024 * 1024  # bytes that are read of a file
_LOOKS = 3  # at a file that is being written just then
_PRIVATE = 0o600

_BY_SEVERITY = (
    ServerStatus.IDLE,
    ServerStatus.READY,
    ServerStatus.STARTING,
    ServerStatus.DEGRADED,
    ServerStatus.NEEDS_AUTH,
    ServerStatus.FAILING,
    ServerStatus.CRASH_LOOPING,
)


class Observation(Struct, frozen=True):
    """How one server fares in one gateway."""

    server: str
    status: str
    """One of `ServerStatus`."""
    connection: str
    """The fingerprint of how the gateway reaches it."""
    gateway: int = 0
    """Its process id."""
    reason: str = ""
    stderr: str = ""
    detail: str = ""
    """More of the reason, for the owner alone."""
    since: float | None = None
    """Unix time in seconds."""
    next_try: float | None = None
    """Unix time in seconds before which it is not tried again."""

    @property
    def severity(self) -> int:
        return _severity(self.status)


class StatusFile:
    """Made by `open_status_file`."""

    def __init__(self, descriptor: int, scope: str) -> None:
        self._descriptor = descriptor
        self._scope = scope

    def write(self, observations: Iterable[Observation]) -> None:
        """Put these in the place of what the file says; not synced, as a reboot ends it anyway."""
        servers = [to_builtins(one) for one in observations]
        form = {"pid": os.getpid(), "scope": self._scope, "servers": servers}
        text = json.dumps(form).encode("ascii")
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, b"%s %s\n" % (_checksum(text), text))


@contextmanager
def open_status_file(data: Path, scope: str) -> Iterator[StatusFile]:
    """The file of this gateway in the data folder; gone with the end of the block.

    Raises:
        OSError: If it cannot be written.
    """
    folder = data / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{os.getpid()}-{os.urandom(4).hex()}.json"
    new = path.with_suffix(".new")  # nobody may find it before it is locked
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
    """What the running gateways of a scope say of each server, the worst first.

    Files of gateways that are gone are removed.
    """
    found: dict[ServerName, list[Observation]] = {}
    with contextlib.suppress(OSError):
        for path in sorted((data / _FOLDER).glob("*.json")):
            for one in _said_in(path, scope):
                found.setdefault(ServerName(one.server), []).append(one)
    return {
        name: sorted(said, key=lambda one: (-one.severity, one.gateway))
        for name, said in found.items()
    }


def with_observations(view: View, found: Mapping[ServerName, Sequence[Observation]]) -> View:
    """A view in which a server fares as in the gateway where it fares worst.

    What a gateway says of a server that it reaches in another way does not count.
    """
    live = dict(view.live)
    for server in view.settings.servers:
        own = live.get(server.name)
        said = concerning(view, server.name, found)
        if said and (own is None or said[0].severity > _severity(own.status)):
            live[server.name] = _live(said)
    return view.with_live(live, view.rejection) if found else view


def concerning(
    view: View, name: ServerName, found: Mapping[ServerName, Sequence[Observation]]
) -> list[Observation]:
    """What is said of a server as the view has it reached, the worst first."""
    reached = view.catalog.part(name).connection
    return [one for one in found.get(name, ()) if not reached or one.connection == reached]


def _live(said: Sequence[Observation]) -> Live:
    worst, *others = said
    if worst.severity < _severity(ServerStatus.STARTING):
        return Live(ServerStatus(worst.status), worst.reason, detail=worst.detail)
    elsewhere = "".join(f"; {one.status} in process {one.gateway}" for one in others)
    where = f"seen by the running gateway, process {worst.gateway}{elsewhere}"
    reason = f"{worst.reason} ({where})" if worst.reason else where
    return Live(ServerStatus(worst.status), reason, worst.stderr, detail=worst.detail)


def _severity(status: str) -> int:
    known = [one.value for one in _BY_SEVERITY]
    return known.index(status) if status in known else -1


def _said_in(path: Path, scope: str) -> list[Observation]:
    """What a gateway's file says; nothing if the gateway is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return []
    try:
        lock_file(descriptor)
    except BlockingIOError:
        return _read(descriptor, scope)
    except OSError:  # locks do not work here, so nobody can tell who lives
        return []
    else:
        with contextlib.suppress(OSError):
            path.unlink()
        return []
    finally:
        os.close(descriptor)


def _read(descriptor: int, scope: str) -> list[Observation]:
    for _ in range(_LOOKS):
        os.lseek(descriptor, 0, os.SEEK_SET)
        line, _, _ = os.read(descriptor, _LIMIT).partition(b"\n")
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
                said = convert(servers, list[Observation])
            except ValueError:  # of another version
                return []
            return [replace(one, gateway=pid) for one in said if one.severity >= 0]
    return []
