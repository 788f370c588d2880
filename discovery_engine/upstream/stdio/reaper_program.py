"""The reaper: ends process groups when the process that named them dies, however it dies.

    python -I -S reaper_program.py PARENT

reads `+123` (look after group 123) and `-123` (it has ended) from its input, one on each line.
When the input ends, or PARENT is no longer its parent, it ends every group that it still looks
after. It is its own program and loads next to nothing: it stays in memory as long as there are
servers.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

_GRACE = 1.0  # seconds from SIGTERM to SIGKILL
_LOOK = 0.5  # seconds between looks at the parent: a fork of it may hold our input open
_POLL = 0.02
_DEAF_TO = ("SIGINT", "SIGTERM", "SIGHUP")  # sent to a whole terminal or container


def main(parent: int) -> None:
    for name in _DEAF_TO:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    end(follow(sys.stdin.fileno(), parent))


def follow(source: int, parent: int) -> dict[int, str | None]:
    """The groups that are left when `parent` is gone, each with the start of its leader."""
    groups: dict[int, str | None] = {}
    rest = b""
    while os.getppid() == parent:
        if not select.select([source], [], [], _LOOK)[0]:
            continue
        chunk = os.read(source, 65536)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            group = int(line[1:])
            if line.startswith(b"+"):
                groups[group] = started(group)
            else:
                groups.pop(group, None)
    return groups


def end(groups: dict[int, str | None]) -> None:
    """Ask the groups to terminate; kill those that have not after the grace."""
    left = [group for group, start in groups.items() if started(group) in {None, start}]
    left = [group for group in left if signalled(group, signal.SIGTERM)]
    deadline = time.monotonic() + _GRACE
    while left and time.monotonic() < deadline:
        time.sleep(_POLL)
        left = [group for group in left if signalled(group, 0)]
    for group in left:
        signalled(group, signal.SIGKILL)


def signalled(group: int, number: int) -> bool:
    """Send a signal to a group; False if nobody is left in it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def started(pid: int) -> str | None:
    """When a process started, in the words of its system; None if there is no such process.

    A number is given to a new process once its old one is gone: only both together name one.
    """
    if sys.platform != "linux":
        return _told_by_ps(pid)
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:  # noqa: PTH123 - pathlib would double our memory
            return stat.read().rpartition(")")[2].split()[19]
    except OSError:
        return None


def _told_by_ps(pid: int) -> str | None:
    import subprocess  # noqa: PLC0415 - not needed, and not loaded, where there is /proc

    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return told.stdout.strip() or None


if __name__ == "__main__":
    main(int(sys.argv[1]))
