"""The reaper: starts programs for its parent process, and ends them when the parent dies.

    python -I -S reaper_program.py PARENT

Its stdin is a Unix socket. A request is the length of the rest in ten digits, then words, each
terminated by NUL: the request's number, the working directory, the number of words of a sandbox,
these words (see `sandbox.confinement`), the number of arguments, the path, the arguments, the
environment. Three descriptors are sent with its first byte: the program's
stdin, stdout and stderr. Replies are lines:

    started 7 1234      the program of request 7 is process 1234, at the head of its own group
    failed 7 2          it could not be started: errno 2
    ended 1234 -9       the exit code of process 1234, as in `subprocess`

Every program is a child of this process. On Linux it is a subreaper too: an orphan of any group or
session below it becomes its child. So when stdin ends, or PARENT is no longer its parent, it finds
and ends everything that was started. It imports little, because it runs as long as there are
servers.
"""

from __future__ import annotations

import _socket  # `socket` takes another half a megabyte
import array
import errno
import importlib
import os
import select
import signal
import sys
import time
from functools import partial
from types import ModuleType

_GRACE = 1.0  # seconds from SIGTERM to SIGKILL
_LOOK = 500  # milliseconds between checks of the parent: a fork of it may keep our stdin open
_POLL = 0.02
_IGNORED_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # sent to a whole terminal or container
# Ignored here or by Python; reset to the default in programs.
_RESET_SIGNALS = (*_IGNORED_SIGNALS, "SIGPIPE", "SIGXFSZ")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_DESCRIPTORS = 3
_NOT_CONFINED = 126  # the exit status of a program that was not started
_HEAD = 10  # bytes of a request that give the length of the rest
_BUFFER = 65536  # bytes


def main(parent: int) -> None:
    for name in _IGNORED_SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    adopts = adopt_orphans()
    starter = Starter(_socket.socket(fileno=0))
    starter.serve(parent)
    if adopts:
        end_descendants()
    else:
        end_groups(starter.programs)
    starter.leave_cgroups()


class Starter:
    def __init__(self, source: _socket.socket) -> None:
        self.programs: set[int] = set()
        """The pids of programs that have not exited."""
        self._confined: set[int] = set()
        """The pids of programs that may have control groups, which are removed when empty."""
        self._source = source
        self._received = b""
        self._descriptors: list[int] = []
        self._home = directory()

    def serve(self, parent: int) -> None:
        """Serve requests until `parent` is gone."""
        woken = wake_at_ends()
        poll = select.poll()
        for descriptor in (self._source.fileno(), woken):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll(_LOOK)]
            if os.getppid() != parent:  # its last request is obsolete
                return
            try:
                if woken in ready:
                    os.read(woken, 4096)
                    self._report_exits()
                if self._source.fileno() in ready and not self._receive():
                    return
            except OSError:  # the parent is gone
                return

    def leave_cgroups(self, but: set[int] | frozenset[int] = frozenset()) -> None:
        """Remove the control groups of programs that have ended, as far as nothing is in them."""
        gone = self._confined.difference(but)
        self._confined -= {pid for pid in gone if confinement().leave_cgroups(pid)}

    def _receive(self) -> bool:
        """Read more of a request, and start its program; False at the end of the input."""
        # Never beyond the end of the request: the descriptors received then belong to this request,
        # also if some are missing because this process has too many open.
        length = int(self._received[:_HEAD]) if len(self._received) >= _HEAD else 0
        left = _HEAD + length - len(self._received)
        size = _DESCRIPTORS * array.array("i").itemsize
        data, extra, _, _ = self._source.recvmsg(min(left, _BUFFER), _socket.CMSG_SPACE(size))
        for _, _, packed in extra:
            received = array.array("i")
            received.frombytes(packed[: len(packed) - len(packed) % received.itemsize])
            self._descriptors += received
        self._received += data
        if length and len(data) == left:
            request, self._received = self._received[_HEAD:], b""
            self._start(request.split(b"\0"))
        return bool(data)

    def _start(self, words: list[bytes]) -> None:
        number, directory, size, *rest = words[:-1]
        confined, (count, path, *rest) = rest[: int(size)], rest[int(size) :]
        streams, self._descriptors = self._descriptors, []
        start = partial(forked, confined) if confined else spawned
        try:
            if directory:
                os.chdir(directory)
            pid = start(path, rest[: int(count)], rest[int(count) :], streams)
        except (OSError, ValueError) as error:
            code = error.errno if isinstance(error, OSError) else errno.EINVAL
            reply = b"failed %s %d\n" % (number, code or errno.EIO)
        else:
            self.programs.add(pid)
            if confined:
                self._confined.add(pid)
            reply = b"started %s %d\n" % (number, pid)
        if directory:
            os.chdir(self._home)
        for descriptor in streams:
            os.close(descriptor)
        self._source.sendall(reply)

    def _report_exits(self) -> None:
        for pid, status in ended() or ():
            if pid in self.programs:
                self.programs.remove(pid)
                code = os.waitstatus_to_exitcode(status)
                self._source.sendall(b"ended %d %d\n" % (pid, code))
        self.leave_cgroups(but=self.programs)


def spawned(
    path: bytes, arguments: list[bytes], environment: list[bytes], streams: list[int]
) -> int:
    """Start a program as the leader of its own session; returns its pid.

    Raises:
        OSError: If it cannot be started.
        ValueError: If a variable has no name.
    """
    checked(streams)
    return os.posix_spawn(
        path,
        arguments,
        variables(environment),
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)],
        setsid=True,
        setsigdef=[getattr(signal, name) for name in _RESET_SIGNALS],
    )


def forked(
    confined: list[bytes],
    path: bytes,
    arguments: list[bytes],
    environment: list[bytes],
    streams: list[int],
) -> int:
    """The same for a program in a sandbox; if that cannot be, it exits with a line on its stderr.

    A launcher of its own would take 20 to 60 ms of CPU for each start, and a fork takes 2.
    """
    checked(streams)
    try:
        module = confinement()
        module.namespaces_work()  # once for all children
    except ImportError as error:  # a Python without ctypes
        raise OSError(errno.ENOSYS, str(error)) from error
    if pid := os.fork():
        return pid
    try:
        signal.set_wakeup_fd(-1)
        for name in (*_RESET_SIGNALS, "SIGCHLD"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.setsid()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        left = module.confine(module.Confinement(confined), variables(environment))
        os.execve(path, arguments, left)  # noqa: S606 - no shell is wanted
    except BaseException as error:  # noqa: BLE001 - this is another process: nothing may return
        os.write(2, b"discovery: not started in its sandbox: %s\n" % str(error).encode())
    finally:
        os._exit(_NOT_CONFINED)


def confinement() -> ModuleType:
    """The module beside this program, which only programs in a sandbox need."""
    folder = os.path.join(os.path.dirname(__file__), "sandbox")  # noqa: PTH118, PTH120
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("confinement")


def checked(streams: list[int]) -> None:
    if len(streams) != _DESCRIPTORS:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    for descriptor in streams:
        os.set_inheritable(descriptor, False)


def variables(environment: list[bytes]) -> dict[bytes, bytes]:
    pairs = (variable.partition(b"=") for variable in environment)
    return {name: value for name, _, value in pairs}


def directory() -> int | str:
    """The working directory, to return to; the root if it cannot be opened."""
    try:
        return os.open(".", os.O_RDONLY)
    except OSError:
        return "/"


def adopt_orphans() -> bool:
    """Become a subreaper, the parent of orphaned descendants; False where not supported."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes  # noqa: PLC0415 - not everywhere

        return bool(ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def wake_at_ends() -> int:
    """A descriptor that becomes readable when a child has exited."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    return woken


def ended() -> list[tuple[int, int]] | None:
    """Reap exited children: pids and statuses; None if there are no children left."""
    endings: list[tuple[int, int]] = []
    try:
        while (ending := os.waitpid(-1, os.WNOHANG))[0]:
            endings.append(ending)
    except ChildProcessError:
        return endings or None
    return endings


def end_descendants() -> None:
    """Send SIGTERM to all descendants, and SIGKILL after the grace period."""
    # Only children get signals: their pids cannot be reused before this process reaps them. Their
    # own children become children of this process when they exit, and are ended in a later round.
    deadline = time.monotonic() + _GRACE
    signalled_once: set[int] = set()
    while ended() is not None:
        left = children()
        is_late = time.monotonic() > deadline
        for pid in left if is_late else left - signalled_once:
            signalled(pid, signal.SIGKILL if is_late else signal.SIGTERM)
        signalled_once |= left
        time.sleep(_POLL)


def end_groups(programs: set[int]) -> None:
    """The same without a subreaper: only for processes still in the groups of the programs."""
    for pid in programs:
        signalled(pid, signal.SIGTERM)
    if programs:
        time.sleep(_GRACE)  # without reaping: afterwards a pid may be reused
    for pid in programs:
        signalled(pid, signal.SIGKILL)


def signalled(pid: int, number: int) -> None:
    """Send a signal to a child, or to its group if it leads one."""
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
        return


def children() -> set[int]:
    """The pids of our children; one that starts or exits just now may be missing."""
    try:
        return set(map(int, read(f"/proc/self/task/{os.getpid()}/children").split()))
    except OSError:  # the kernel does not provide that list
        numbers = filter(str.isdigit, os.listdir("/proc"))  # noqa: PTH208 - pathlib would double our memory
        return {pid for pid in map(int, numbers) if is_ours(pid)}


def is_ours(pid: int) -> bool:
    try:
        return int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[1]) == os.getpid()
    except OSError:
        return False


def read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - as above
        return file.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
