"""Ports for programs that have to be told theirs: gateways, balancers, databases."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Not those of `random`, which pytest seeds alike in all processes that run tests.
_RANDOM = random.SystemRandom()


def free_port() -> int:
    """A port that is free, and is given to no connection before its program has it.

    A port that the system chooses may be that of any connection a moment later, and again whenever
    its program is restarted.
    """
    first = int(_RANGE.read_text("ascii").split()[0]) if _RANGE.exists() else 32_768
    for port in _RANDOM.sample(range(min(10_000, first - 1_000), first), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError(f"no port below {first} is free")
