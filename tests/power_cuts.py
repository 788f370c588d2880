"""What a power cut leaves of a folder: every state in which a disk may be found after it.

    with recorded_disk(folder) as disk:
        ...                      # the program writes below the folder
        disk.note("saved")       # it was told that this is kept
    for image in disk.images(seed=1, count=100):
        image.write_to(other)    # and is started there; it must find what `image.noted` names

SQLite is recorded at its interface to the system (a VFS), the files that Python writes by what
differs at each event. The model: a sector of 512 bytes that was written since the last sync of its
file has any of the contents that it had since, or is torn between two of them; so has the size of
the file. A file that is synced keeps its name; that one was deleted or renamed is certain once its
folder was synced. Disks that lie about a sync are not modelled, and neither is `-shm`, which no
process reads after a restart of the system.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest

T = TypeVar("T")

_SECTOR = 512
_TORN = 0.05  # of the sectors
_OK = 0
# Of `sqlite3.h`.
_JOURNAL = 0x800 | 0x80000
"""A rollback journal or a write-ahead log; its first sync is one of the folder, too."""


@dataclass(frozen=True)
class Written:
    name: str
    offset: int
    data: bytes


@dataclass(frozen=True)
class Truncated:
    name: str
    size: int


@dataclass(frozen=True)
class Synced:
    name: str
    with_folder: bool = False


@dataclass(frozen=True)
class Deleted:
    name: str


@dataclass(frozen=True)
class Renamed:
    name: str
    target: str


@dataclass(frozen=True)
class FolderSynced:
    pass


@dataclass(frozen=True)
class Noted:
    what: Any


Event: TypeAlias = Written | Truncated | Synced | Deleted | Renamed | FolderSynced | Noted


@dataclass(frozen=True)
class Image:
    """A folder as it may be found."""

    files: dict[str, bytes]
    noted: list[Any]
    """What was noted before the cut."""
    cut: int
    """The number of events before it."""

    def write_to(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)


class RecordedDisk:
    """The events below one folder, which has no folders in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._events: list[Event] = []
        self._known: dict[str, tuple[int, bytes]] = {}
        """The number and the content of each file that Python writes, at the last event."""
        self._of_sqlite: set[str] = set()

    def note(self, what: Any) -> None:
        self.add(Noted(what))

    def add(self, event: Event) -> None:
        self._look()
        self._events.append(event)

    def opened(self, name: str) -> None:
        """SQLite writes this file from now on."""
        self._look()
        self._of_sqlite.add(name)

    def name_of(self, path: str | Path) -> str | None:
        """The name of a file of the folder; None for any other."""
        found = Path(path)
        return found.name if found.parent == self._folder else None

    def images(self, *, seed: int, count: int) -> Iterator[Image]:
        """So many images, the cuts spread over all events."""
        rng = random.Random(seed)
        for number in range(count):
            first = len(self._events) * number // count
            last = len(self._events) * (number + 1) // count
            cut = rng.randrange(first, max(last, first + 1))
            yield _image(self._events[:cut], rng)

    def _look(self) -> None:
        """Add what Python has done since the last event."""
        present = {}
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            if path.name not in self._of_sqlite and not path.name.endswith("-shm"):
                present[path.name] = path.stat().st_ino, path.read_bytes()
        left = {number: name for name, (number, _) in self._known.items()}
        for name, (number, content) in present.items():
            before = left.pop(number, None)
            if before not in (None, name):
                self._events.append(Renamed(before, name))
            known = self._known[before][1] if before else b""
            self._events += _difference(name, known, content)
        self._events += [Deleted(name) for name in left.values() if name not in present]
        self._known = present


def _difference(name: str, before: bytes, content: bytes) -> list[Event]:
    pairs = enumerate(zip(before, content, strict=False))
    start = next((at for at, (was, now) in pairs if was != now), min(len(before), len(content)))
    events: list[Event] = []
    if start < len(content):
        events.append(Written(name, start, content[start:]))
    if len(content) < len(before):
        events.append(Truncated(name, len(content)))
    return events


class _File:
    """What is surely in it, and each state that its sectors and its size had since."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._sizes = [0]
        self._sectors: dict[int, list[bytes]] = {}
        """By number; those that were written since the last sync, the first state first."""

    def apply(self, event: Written | Truncated) -> None:
        start, end = _extent(event, len(self._content))
        for number in range(start // _SECTOR, -(-end // _SECTOR)):
            self._sectors.setdefault(number, [self._sector(number)])
        if isinstance(event, Truncated):
            del self._content[event.size :]
        else:
            self._content.extend(bytes(max(end - len(self._content), 0)))
            self._content[start:end] = event.data
        self._sizes.append(len(self._content))
        for number in range(start // _SECTOR, -(-end // _SECTOR)):
            self._sectors[number].append(self._sector(number))

    def sync(self) -> None:
        self._sizes = [len(self._content)]
        self._sectors.clear()

    def found(self, rng: random.Random, kept: float) -> bytes:
        """What is in it after a cut; this share of its sectors was written to the disk."""

        def pick(states: list[T]) -> T:
            return states[-1] if rng.random() < kept else rng.choice(states)

        content = bytearray(self._content)
        content.extend(bytes(max(self._sizes) - len(content)))
        for number, states in self._sectors.items():
            state = pick(states)
            if rng.random() < _TORN:
                at = rng.randrange(_SECTOR)
                state = state[:at] + pick(states)[at:]
            content[number * _SECTOR : (number + 1) * _SECTOR] = state
        return bytes(content[: pick(self._sizes)])

    def _sector(self, number: int) -> bytes:
        return bytes(self._content[number * _SECTOR : (number + 1) * _SECTOR]).ljust(
            _SECTOR, bytes(1)
        )


def _extent(event: Written | Truncated, size: int) -> tuple[int, int]:
    """The first byte that an event concerns, and the one after the last."""
    if isinstance(event, Truncated):
        return event.size, max(size, event.size)
    return event.offset, event.offset + len(event.data)


class _Folder:
    """The files of the folder, and which names it surely has."""

    def __init__(self) -> None:
        self._now: dict[str, _File] = {}
        self._certain: dict[str, _File] = {}

    def apply(self, event: Event) -> None:
        match event:
            case Written(name) | Truncated(name):
                self._now.setdefault(name, _File()).apply(event)
            case Synced(name, with_folder):
                self._certain[name] = self._now.setdefault(name, _File())
                self._now[name].sync()
                if with_folder:
                    self._certain = dict(self._now)
            case Deleted(name):
                self._now.pop(name, None)
            case Renamed(name, target):
                self._now[target] = self._now.pop(name)
            case FolderSynced():
                self._certain = dict(self._now)

    def found(self, rng: random.Random) -> dict[str, bytes]:
        """The content of each file after a cut."""
        kept = rng.choice([0.0, 0.5, 0.9, 1.0, rng.random()])
        found = {}
        for name in sorted({*self._now, *self._certain}):
            file = rng.choice([self._now.get(name), self._certain.get(name)])
            if file is not None:
                found[name] = file.found(rng, kept)
        return found


def _image(events: list[Event], rng: random.Random) -> Image:
    folder = _Folder()
    for event in events:
        folder.apply(event)
    noted = [event.what for event in events if isinstance(event, Noted)]
    return Image(folder.found(rng), noted, len(events))


class _Vfs(ctypes.Structure):
    _fields_ = (
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", ctypes.c_void_p),
        ("zName", ctypes.c_char_p),
        ("pAppData", ctypes.c_void_p),
        ("xOpen", ctypes.c_void_p),
        ("xDelete", ctypes.c_void_p),
        *((f"other{number}", ctypes.c_void_p) for number in range(14)),
    )


class _Methods(ctypes.Structure):
    _fields_ = (
        ("iVersion", ctypes.c_int),
        ("xClose", ctypes.c_void_p),
        ("xRead", ctypes.c_void_p),
        ("xWrite", ctypes.c_void_p),
        ("xTruncate", ctypes.c_void_p),
        ("xSync", ctypes.c_void_p),
        *((f"other{number}", ctypes.c_void_p) for number in range(13)),
    )


class _FileHead(ctypes.Structure):
    _fields_ = (("pMethods", ctypes.POINTER(_Methods)),)


_file_p = ctypes.POINTER(_FileHead)
_Open = ctypes.CFUNCTYPE(
    ctypes.c_int,
    # The path is an address: SQLite refers to that string as long as the file is open.
    *(ctypes.c_void_p, ctypes.c_void_p, _file_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)),
)
_Delete = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_Write = ctypes.CFUNCTYPE(ctypes.c_int, _file_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong)
_Truncate = ctypes.CFUNCTYPE(ctypes.c_int, _file_p, ctypes.c_longlong)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, _file_p, ctypes.c_int)
_Close = ctypes.CFUNCTYPE(ctypes.c_int, _file_p)


@dataclass
class _OpenFile:
    name: str
    methods: _Methods
    """The system's own."""
    with_folder: bool
    """Whether its next sync is one of its folder, too."""


class _RecordingVfs:
    """The system's own VFS, with a record of what changes a file of the folder."""

    def __init__(self, sqlite: ctypes.CDLL, disk: RecordedDisk) -> None:
        self._sqlite, self._disk = sqlite, disk
        sqlite.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        self._base = sqlite.sqlite3_vfs_find(None)
        self._files: dict[int, _OpenFile] = {}
        """By the address of each."""
        self._methods: dict[int, _Methods] = {}
        """What stands in place of the methods at an address."""
        self._of_file = {
            "xWrite": _Write(self._write),
            "xTruncate": _Truncate(self._truncate),
            "xSync": _Sync(self._sync),
            "xClose": _Close(self._close),
        }
        self._of_folder = _Open(self._open), _Delete(self._delete)
        self._vfs = _Vfs.from_buffer_copy(self._base.contents)
        self._vfs.zName = b"recording"
        self._vfs.xOpen, self._vfs.xDelete = map(_address, self._of_folder)

    def register(self) -> None:
        self._sqlite.sqlite3_vfs_register(ctypes.byref(self._vfs), 1)

    def unregister(self) -> None:
        self._sqlite.sqlite3_vfs_register(self._base, 1)
        self._sqlite.sqlite3_vfs_unregister(ctypes.byref(self._vfs))

    def _open(self, _: int, path: int | None, file: Any, flags: int, out: Any) -> int:
        base = self._base.contents
        code = int(_Open(base.xOpen)(ctypes.addressof(base), path, file, flags, out))
        name = self._disk.name_of(_text(path)) if path else None
        if code == _OK and name is not None:
            self._disk.opened(name)
            methods = file.contents.pMethods.contents
            is_journal = bool(flags & _JOURNAL)
            self._files[ctypes.addressof(file.contents)] = _OpenFile(name, methods, is_journal)
            file.contents.pMethods = ctypes.pointer(self._recording(methods))
        return code

    def _recording(self, methods: _Methods) -> _Methods:
        address = ctypes.addressof(methods)
        if address not in self._methods:
            made = self._methods[address] = _Methods.from_buffer_copy(methods)
            for name, callback in self._of_file.items():
                setattr(made, name, _address(callback))
        return self._methods[address]

    def _delete(self, _: int, path: int, with_folder: int) -> int:
        base = self._base.contents
        code = int(_Delete(base.xDelete)(ctypes.addressof(base), path, with_folder))
        if code == _OK and (name := self._disk.name_of(_text(path))):
            self._disk.add(Deleted(name))
            if with_folder:
                self._disk.add(FolderSynced())
        return code

    def _write(self, file: Any, data: int, size: int, offset: int) -> int:
        opened = self._file(file)
        self._disk.add(Written(opened.name, offset, ctypes.string_at(data, size)))
        return int(_Write(opened.methods.xWrite)(file, data, size, offset))

    def _truncate(self, file: Any, size: int) -> int:
        opened = self._file(file)
        self._disk.add(Truncated(opened.name, size))
        return int(_Truncate(opened.methods.xTruncate)(file, size))

    def _sync(self, file: Any, flags: int) -> int:
        opened = self._file(file)
        self._disk.add(Synced(opened.name, with_folder=opened.with_folder))
        opened.with_folder = False
        return int(_Sync(opened.methods.xSync)(file, flags))

    def _close(self, file: Any) -> int:
        opened = self._files.pop(ctypes.addressof(file.contents))
        return int(_Close(opened.methods.xClose)(file))

    def _file(self, file: Any) -> _OpenFile:
        return self._files[ctypes.addressof(file.contents)]


def _text(address: int) -> str:
    return os.fsdecode(ctypes.string_at(address))


def _address(callback: Any) -> int | None:
    return ctypes.cast(callback, ctypes.c_void_p).value


@contextmanager
def recorded_disk(folder: Path) -> Iterator[RecordedDisk]:
    """What this process writes below `folder` within the block; it opens and closes it there."""
    try:
        sqlite = ctypes.CDLL(_sqlite3.__file__)
        sqlite.sqlite3_vfs_register  # noqa: B018 - looks the name up
    except (AttributeError, OSError):
        pytest.skip("this Python shows no interface of its SQLite to the system")
    disk = RecordedDisk(folder)
    vfs = _RecordingVfs(sqlite, disk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", _recorded_fsync(disk, os.fsync, folder))
        vfs.register()
        try:
            yield disk
        finally:
            vfs.unregister()


def _recorded_fsync(
    disk: RecordedDisk, fsync: Callable[[int], None], folder: Path
) -> Callable[[int], None]:
    def recorded(descriptor: int) -> None:
        status = os.fstat(descriptor)
        fsync(descriptor)
        if os.path.samestat(status, folder.stat()):
            disk.add(FolderSynced())
        for path in folder.iterdir():
            if os.path.samestat(status, path.stat()):
                disk.add(Synced(path.name))

    return recorded
