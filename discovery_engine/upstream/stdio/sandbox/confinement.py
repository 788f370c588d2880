"""Confines this process on Linux, before it becomes the program of a server.

It runs in the reaper's child between fork and exec, and imports the standard library only. What
cannot be done without is raised as OSError, and the program is not started: Landlock, seccomp. What
a system may refuse (namespaces, control groups) is left out; `sandbox.means` finds that out before.
"""

from __future__ import annotations

import _socket  # `socket` takes another half a megabyte
import ctypes
import errno
import fcntl
import os
import resource
import stat
import struct
import sys
from functools import cache

if False:  # TYPE_CHECKING, without the module that has it
    from collections.abc import Iterable

MACHINES = ("x86_64", "aarch64")  # whose system calls have their numbers below

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1  # a type of rule
_ASK_VERSION = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READING = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICES = _MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""The number of file rights in each version of Landlock; later ones have those of the last."""
_TRUNCATE_SINCE, _NETWORK_SINCE, _SCOPES_SINCE = 3, 4, 6
_BIND_AND_CONNECT = 0b11
_SOCKETS_AND_SIGNALS = 0b11

_NEW_USER, _NEW_IPC, _NEW_NET = 0x10000000, 0x08000000, 0x40000000
_DROP_FROM_BOUNDING_SET, _NO_NEW_PRIVILEGES, _SET_SECCOMP = 24, 38, 22
_FILTER_MODE = 2
_SET_FLAGS, _UP = 0x8914, 0x1 | 0x40  # SIOCSIFFLAGS, IFF_UP and IFF_RUNNING

_CGROUPS = "/sys/fs/cgroup"

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000  # SECCOMP_RET_…
_LOAD, _IF_EQUAL, _IF_ANY_BIT, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_AT, _SECOND_AT = 0, 4, 16, 24
_X32 = 0x40000000
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: they type into a terminal

# Of x86_64 and of aarch64: the kernel's keyrings, other namespaces and mounts, what only
# administrators need, and what has been a way into the kernel. Ours may do any of it.
_DENIED = {
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
}
# As on a kernel without them: `clone3` has its flags in memory, where no filter can look, and
# requests of io_uring are seen by no filter. Libraries use `clone`, `epoll` and the like then.
_MISSING = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_TRUNCATE_CALL = (76, 45)
_PRLIMIT = (302, 261)
_CLONE, _SOCKET, _IOCTL = (56, 220), (41, 198), (16, 29)
_ARCHITECTURES = (0xC000003E, 0xC00000B7)

_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


class Confinement:
    """The limits of a program, read from words such as `read=/usr`."""

    def __init__(self, words: list[bytes]) -> None:
        pairs = [word.partition(b"=")[::2] for word in words]
        single = dict(pairs)
        self.kind = single[b"kind"].decode()
        self.read = [path for name, path in pairs if name == b"read"]
        self.write = [path for name, path in pairs if name == b"write"]
        self.has_network = single[b"network"] == b"1"
        self.has_named_sockets = single[b"sockets"] == b"1"
        """True if Unix sockets with a name in the file system may be used."""
        self.filter_at = int(single.get(b"filter", 0))
        """The descriptor from which bubblewrap reads the filter of system calls."""
        self.arguments_at = int(single.get(b"arguments", 0))
        """The one from which it reads more arguments: the variables of the program."""
        self.memory = int(single[b"memory"])
        self.processes = int(single[b"processes"])


def confine(rules: Confinement, variables: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Confine this process; returns the variables with which to start the command.

    Raises:
        OSError: If the system refuses what the sandbox cannot do without.
    """
    is_landlock = rules.kind == "landlock"
    enter_cgroups(rules)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_DATA, rules.memory)
    # Of a namespace of its own only the processes in it are counted; otherwise all of the user.
    spaces = _NEW_IPC | (0 if rules.has_network else _NEW_NET) if is_landlock else 0
    has_spaces = namespaces_work()
    if has_spaces:
        enter_namespaces(spaces)
    others = 0 if has_spaces else tasks_of_all()
    _limit(resource.RLIMIT_NPROC, others + rules.processes)
    has_own_network = bool(has_spaces and spaces & _NEW_NET)
    if has_own_network:
        start_loopback()
    program = seccomp_filter(
        has_internet=rules.has_network or not is_landlock or has_own_network,
        has_named_sockets=rules.has_named_sockets,
        has_truncate=not is_landlock or landlock_version() >= _TRUNCATE_SINCE,
    )
    if not is_landlock:
        if has_spaces and landlock_version() >= _SCOPES_SINCE:
            _restrict([0, 0, _SOCKETS_AND_SIGNALS])  # sockets without a file are in no mount
        _hand_over(program, rules.filter_at)
        # bubblewrap itself is not confined: one of its own variables could make it load code.
        words = [word for pair in variables.items() for word in (b"--setenv", *pair)]
        _hand_over(b"".join(word + b"\0" for word in words), rules.arguments_at)
        return {}
    drop_capabilities()
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    restrict_files(rules, has_tcp=rules.has_network or has_own_network)
    _install(program)
    return variables


def landlock_version() -> int:
    """The version of Landlock that the kernel has; 0 if none, or it is switched off."""
    if _libc is None:
        return 0
    version: int = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION)
    return max(version, 0)


def tasks_of_all() -> int:
    """The processes and threads of all users: those of this user are at most as many."""
    with open("/proc/loadavg", encoding="ascii") as file:  # noqa: PTH123 - pathlib is large
        return int(file.read().split()[3].partition("/")[2])


@cache
def namespaces_work() -> bool:
    """Return whether this user may make namespaces; tried once, in a process of its own.

    Some systems let a user make them and then forbid all that makes them useful (Ubuntu, by
    AppArmor): a process that has entered one cannot leave it.
    """
    if pid := os.fork():
        return os.waitpid(pid, 0)[1] == 0
    try:
        enter_namespaces(_NEW_IPC | _NEW_NET)
        start_loopback()
        os._exit(0)
    finally:
        os._exit(1)


def enter_namespaces(more: int) -> None:
    """Enter a user namespace of its own, and others in it."""
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _NEW_USER | more)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def start_loopback() -> None:
    """Programs may connect to themselves."""
    socket = _socket.socket(_INET, _socket.SOCK_DGRAM)
    fcntl.ioctl(socket.fileno(), _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
    socket.close()


def drop_capabilities() -> None:
    """A program of root, or of the root of a namespace, would get them back."""
    for number in range(64):
        try:
            _call("prctl", _DROP_FROM_BOUNDING_SET, number, 0, 0, 0)
        except OSError:  # there is no such capability, or this process may not, having none
            return


def restrict_files(rules: Confinement, *, has_tcp: bool) -> None:
    """Forbid what is not granted, with Landlock."""
    version = landlock_version()
    if version == 0:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock")
    rights = (1 << _RIGHTS.get(version, _RIGHTS[5])) - 1
    handled = [rights]
    if version >= _NETWORK_SINCE:
        handled.append(0 if has_tcp else _BIND_AND_CONNECT)
    if version >= _SCOPES_SINCE:
        handled.append(_SOCKETS_AND_SIGNALS)
    grants = [(path, _READING & rights) for path in rules.read]
    grants += [(path, rights & ~_DEVICES) for path in rules.write]
    _restrict(handled, grants)


def _restrict(handled: list[int], grants: Iterable[tuple[bytes, int]] = ()) -> None:
    attributes = struct.pack(f"={len(handled)}Q", *handled)
    ruleset = _call("syscall", _CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path, rights in grants:
        _grant(ruleset, path, rights)
    _call("syscall", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _grant(ruleset: int, path: bytes, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # a folder of the system that this one does not have
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        _call("syscall", _ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def seccomp_filter(
    *, has_internet: bool, has_named_sockets: bool, has_truncate: bool, machine: str = ""
) -> bytes:
    """The program that the kernel runs for every system call.

    Raises:
        OSError: On a machine of which the numbers of the calls are not known.
    """
    machine = machine or os.uname().machine
    if machine not in MACHINES:
        raise OSError(errno.ENOSYS, f"no filter of system calls for {machine}")
    column = MACHINES.index(machine)
    families = [_INET, _INET6, _NETLINK] if has_internet else []
    families += [_UNIX] if has_named_sockets else []
    denied = [*_DENIED.values()] + ([] if has_truncate else [_TRUNCATE_CALL])
    steps = [
        _step(_LOAD, _ARCH_AT),
        _step(_IF_EQUAL, _ARCHITECTURES[column], 1, 0),
        _refuse(errno.EPERM),  # a 32-bit call: its numbers mean something else
        _step(_LOAD, _NUMBER_AT),
        _step(_IF_AT_LEAST, _X32, 0, 1),
        _refuse(errno.EPERM),
    ]
    for numbers in denied:
        steps += [_step(_IF_EQUAL, numbers[column], 0, 1), _refuse(errno.EPERM)]
    for numbers in _MISSING.values():
        steps += [_step(_IF_EQUAL, numbers[column], 0, 1), _refuse(errno.ENOSYS)]
    steps += [
        _step(_IF_EQUAL, _CLONE[column], 0, 4),
        _step(_LOAD, _FIRST_AT),
        _step(_IF_ANY_BIT, _NEW_USER, 0, 1),
        _refuse(errno.EPERM),
        _step(_RETURN, _ALLOW),
        # The limits of others with the same user, whom nothing else would protect.
        _step(_IF_EQUAL, _PRLIMIT[column], 0, 4),
        _step(_LOAD, _FIRST_AT),
        _step(_IF_EQUAL, 0, 1, 0),
        _refuse(errno.EPERM),
        _step(_RETURN, _ALLOW),
        _step(_IF_EQUAL, _IOCTL[column], 0, 5),
        _step(_LOAD, _SECOND_AT),
        _step(_IF_EQUAL, _TERMINAL_INPUT[0], 1, 0),
        _step(_IF_EQUAL, _TERMINAL_INPUT[1], 0, 1),
        _refuse(errno.EPERM),
        _step(_RETURN, _ALLOW),
        _step(_IF_EQUAL, _SOCKET[column], 0, 2 + len(families)),
        _step(_LOAD, _FIRST_AT),
    ]
    # Each allowed family jumps over the rest of them, and the refusal.
    steps += [_step(_IF_EQUAL, family, len(families) - i, 0) for i, family in enumerate(families)]
    steps += [_refuse(errno.EACCES), _step(_RETURN, _ALLOW)]
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)


def _install(program: bytes) -> None:
    steps = ctypes.create_string_buffer(program, len(program))
    whole = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    _call("prctl", _SET_SECCOMP, _FILTER_MODE, whole, 0, 0)


def _hand_over(content: bytes, number: int) -> None:
    """To bubblewrap, which reads it from a descriptor."""
    descriptor = os.memfd_create("sandbox")
    while content:
        content = content[os.write(descriptor, content) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.dup2(descriptor, number)
    os.set_inheritable(number, True)  # it may have been that number


def enter_cgroups(rules: Confinement) -> None:
    """Limit the processes and the memory of root, whom no other limit of processes binds."""
    if os.geteuid() != 0:
        return
    limits = {
        "pids.max": rules.processes,
        "memory.max": rules.memory,
        "memory.limit_in_bytes": rules.memory,
    }
    for folder in cgroups_of(os.getpid()):
        try:
            os.mkdir(folder)  # noqa: PTH102 - pathlib is large
            for name, value in limits.items():
                if os.path.exists(f"{folder}/{name}"):  # noqa: PTH110 - as above
                    _write(f"{folder}/{name}", str(value))
            _write(f"{folder}/cgroup.procs", "0")
        except OSError:
            continue


def leave_cgroups(process: int) -> bool:
    """Remove the control groups of a process that has ended; False if others are left in them."""
    is_left = False
    for folder in cgroups_of(process):
        try:
            os.rmdir(folder)  # noqa: PTH106 - as above
        except OSError as error:
            is_left |= error.errno == errno.EBUSY
    return not is_left


def cgroups_of(process: int) -> list[str]:
    """Return the control groups of a confined process, existing or not, below our own."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:  # noqa: PTH123 - as above
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:  # this system has none
        return []
    own = f"discovery-{process}"
    folders = []
    for _, controllers, path in lines:
        names = {"pids", "memory"}.intersection(controllers.split(","))
        folders += [f"{_CGROUPS}/{name}{path.rstrip('/')}" for name in names]
        if not controllers:  # version 2
            folders.append(_CGROUPS)
    # Without that file it is any folder, for instance that in which version 1 is mounted.
    return [f"{folder}/{own}" for folder in folders if os.path.exists(f"{folder}/cgroup.procs")]  # noqa: PTH110


def has_cgroups() -> bool:
    """Return whether control groups limit the processes of root here."""
    for folder in map(os.path.dirname, cgroups_of(0)):
        is_own = folder.startswith(f"{_CGROUPS}/pids")
        try:
            with open(f"{folder}/cgroup.subtree_control", encoding="ascii") as file:  # noqa: PTH123
                is_own = "pids" in file.read().split()
        except OSError:  # version 1
            pass
        if is_own and os.access(folder, os.W_OK):
            return True
    return False


def _limit(which: int, most: int) -> None:
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123 - as above
        file.write(text)


def _call(name: str, *arguments: object) -> int:
    done: int = getattr(_libc, name)(*arguments)
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return done
