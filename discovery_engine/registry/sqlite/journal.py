r"""The decisions a second time: a file with a line for each, bound to all lines before it.

    {"decisions":1}                                    \t 0 \t <checksum>
    ["approve", SCOPE, SERVER, IDENTITY, AT]           \t 1 \t <checksum>
    ["accept", SCOPE, SERVER, TOOL, MEANING, ..., AT]  \t 2 \t <checksum>
    ["register", SCOPE, SERVER]                        \t 3 \t <checksum>

A checksum covers its line and the checksum before it, and the numbers rise by one. So a line that
is damaged, missing, added or moved shows, and all lines before it still count. Numbers and
checksums stand last: the newest is found without reading the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from discovery_engine._util.digests import blake2b
from discovery_engine._util.folder_sync import sync_folder
from discovery_engine.registry.records import (
    AcceptanceRecord,
    ApprovalRecord,
    LossRecord,
    Record,
    RegistrationRecord,
    RevocationRecord,
    ServerRecord,
    SwitchRecord,
    UnregistrationRecord,
)
from discovery_engine.trust.decisions import Acceptance, Approval

_HEADER = b'{"decisions":1}'
_PRIVATE = 0o600
_DIGEST = 16  # bytes
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_TAIL = 80  # bytes that hold the number and the checksum of the last line


class JournalHead(Struct, frozen=True):
    """The newest line: its number, and the checksum that binds it to all others."""

    number: int = 0
    checksum: str = ""


class JournalContent(Struct, frozen=True):
    """What a journal holds."""

    records: list[Record]
    head: JournalHead
    """Of the last line that holds."""
    is_whole: bool
    """Whether that is the last line there is."""


class JournalCheck(Struct, frozen=True):
    head: JournalHead
    records: int
    """How many there are."""


class Journal:
    """Made for a path at which there may be nothing; who writes holds the lock of the registry."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def head(self) -> JournalHead | None:
        """The head in the last line; None if there is none, or it is torn."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
                *_, last, torn = b"\n", *file.read().split(b"\n")
            _, number, checksum = last.rsplit(b"\t", 2)
            return None if torn else JournalHead(int(number), checksum.decode("ascii"))
        except (OSError, ValueError):
            return None

    def stamp(self) -> tuple[int, ...] | None:
        """Its size, when it was changed, and which file it is; None if there is none.

        Equal as long as it is not written.
        """
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_size, status.st_mtime_ns, status.st_ino

    def length(self) -> int | None:
        """The number of records by its first and its last line; None without it."""
        head = self.head()
        try:
            with self.path.open("rb") as file:
                first = file.readline(_TAIL)
        except OSError:
            return None
        return head.number - (_before_header(first).number + 1) if head else None

    def read(self) -> JournalContent | None:
        """All records up to the first line that does not hold; None if there is no file.

        Raises:
            OSError: If there is one, and it cannot be read.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        header, *lines = _bodies(content)
        if header is None:
            return JournalContent([], JournalHead(), is_whole=False)
        records: list[Record] = []
        head = header.head
        for line in lines:
            if line is None or (record := _record(line.body)) is None:
                return JournalContent(records, head, is_whole=False)
            records.append(record)
            head = line.head
        return JournalContent(records, head, is_whole=True)

    def verified(self) -> JournalCheck | None:
        """What every line's checksum comes to, if all hold; nothing is parsed.

        Raises:
            OSError: If the file cannot be read.
        """
        try:
            lines = list(_bodies(self.path.read_bytes()))
        except FileNotFoundError:
            return None
        last = lines[-1]
        return JournalCheck(last.head, len(lines) - 1) if last else None

    def append(self, lines: bytes, *, after: JournalHead) -> None:
        """Add what `lines_after` a head gave; it is on the disk on return."""
        is_first = after == JournalHead()
        with os.fdopen(os.open(self.path, _APPEND, _PRIVATE), "wb", buffering=0) as file:
            file.write(_FIRST_LINE + lines if is_first else lines)
            os.fsync(file.fileno())
        if is_first:
            sync_folder(self.path.parent)

    def replace(self, records: Sequence[Record], *, number: int) -> JournalHead:
        """Write the journal anew, in one step; returns its head.

        Args:
            records: All that it is to hold.
            number: That of the last line; a higher one if there are more records.
        """
        first = max(number - len(records), 0)
        header, head = _line(_HEADER, JournalHead(first - 1, ""))
        rest, head = lines_after(head, records)
        new = self.path.with_name(f"{self.path.name}.new")
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE), "wb") as file:
            file.write(header + rest)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        sync_folder(self.path.parent)
        return head


def lines_after(head: JournalHead, records: Iterable[Record]) -> tuple[bytes, JournalHead]:
    """The lines of records that follow a head, and the head then."""
    head = head if head.number or head.checksum else _FIRST_HEAD
    lines = []
    for record in records:
        line, head = _line(_body(record), head)
        lines.append(line)
    return b"".join(lines), head


class _Line(Struct, frozen=True):
    body: bytes
    head: JournalHead


def _bodies(content: bytes) -> Iterator[_Line | None]:
    """Each line that holds; None in place of the first that does not, and then no more."""
    *lines, torn = content.split(b"\n")
    if not lines:
        yield None
        return
    head = _before_header(lines[0])
    for line in lines:
        body, _, _ = line.partition(b"\t")
        expected, head = _line(body, head)
        if expected != line + b"\n":
            yield None
            return
        yield _Line(body, head)
    if torn:
        yield None


def _before_header(line: bytes) -> JournalHead:
    """The head that the first line follows, with any number."""
    body, _, rest = line.partition(b"\t")
    number, _, _ = rest.partition(b"\t")
    is_header = body == _HEADER and number.isdigit()
    return JournalHead(int(number) - 1, "") if is_header else JournalHead(-2, "")


def _line(body: bytes, before: JournalHead) -> tuple[bytes, JournalHead]:
    content = b"%s\t%d" % (body, before.number + 1)
    hashed = blake2b(content, digest_size=_DIGEST, key=before.checksum.encode())
    head = JournalHead(before.number + 1, hashed.hexdigest())
    return b"%s\t%s\n" % (content, head.checksum.encode()), head


_FIRST_LINE, _FIRST_HEAD = _line(_HEADER, JournalHead(-1, ""))


def _body(record: Record) -> bytes:
    fields: list[Any]
    match record:
        case ApprovalRecord(scope, one, at):
            fields = ["approve", scope, one.server, one.identity, at]
        case RevocationRecord(scope, server):
            fields = ["revoke", scope, server]
        case AcceptanceRecord(scope, one, at):
            what = one.server, one.tool, one.meaning, one.fingerprint, one.definition
            fields = ["accept", scope, *what, at]
        case LossRecord(scope, at, acknowledged):
            fields = ["lose", scope, at, acknowledged]
        case RegistrationRecord(scope, server):
            fields = ["register", scope, server.to_text()]
        case UnregistrationRecord(scope, server):
            fields = ["unregister", scope, server]
        case SwitchRecord(scope, server, is_wanted, at):
            fields = ["switch", scope, server, is_wanted, at]
    # Escaped beyond ASCII: no line break, no tab, and names that are not UTF-8 pass.
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def _record(body: bytes) -> Record | None:
    """None for an unknown record; its checksum is right, so a newer version wrote it."""
    fields = json.loads(body)
    match fields:
        case ["approve", scope, server, identity, at]:
            return ApprovalRecord(scope, Approval(server, identity), at)
        case ["revoke", scope, server]:
            return RevocationRecord(scope, server)
        case ["accept", scope, server, tool, meaning, fingerprint, definition, at]:
            return AcceptanceRecord(
                scope, Acceptance(server, tool, meaning, fingerprint, definition), at
            )
        case ["lose", scope, at, acknowledged]:
            return LossRecord(scope, at, acknowledged)
    return _server_record(fields)


def _server_record(fields: list[Any]) -> ServerRecord | None:
    match fields:
        case ["register", scope, server]:
            # Most journals have none, and a class costs each start a tenth of a millisecond.
            from discovery_engine.registry.server_records import RegisteredServer  # noqa: PLC0415

            return RegistrationRecord(scope, RegisteredServer.from_text(server))
        case ["unregister", scope, server]:
            return UnregistrationRecord(scope, server)
        case ["switch", scope, server, is_wanted, at]:
            return SwitchRecord(scope, server, is_wanted, at)
    return None
