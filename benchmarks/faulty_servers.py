"""Servers that work and servers that fail, and the rows of a table about them."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from discovery_engine.config.settings import ServerSettings  # noqa: E402
from discovery_engine.errors import UpstreamError  # noqa: E402
from tests.servers.programs import TestedUpstreams, fault_server  # noqa: E402

WIRE = "wire_server.py"
_OLD = {"huge", "stubborn", "hang_start", "hang_call", "noise"}  # modes of fault_server.py


class Row(Struct, frozen=True):
    what: str
    goal: str
    value: str
    baseline: str = ""
    is_met: bool = True

    def print(self) -> None:
        verdict = "yes" if self.is_met else "NO"
        print(
            f"| {self.what} | {self.baseline} | {self.value} | {self.goal} | {verdict} |",
            flush=True,
        )


class Clock:
    """Time that goes so fast that no pause after a failure is ever seen."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1000.0
        return self.now


def healthy(count: int) -> list[ServerSettings]:
    return [fault_server(name=f"healthy{number}") for number in range(count)]


def sick(mode: str, number: int = 0, **settings: Any) -> ServerSettings:
    program = "fault_server.py" if mode in _OLD else WIRE
    return fault_server(mode, name=f"{mode}{number}", program=program, **settings)


async def list_all(opened: TestedUpstreams, servers: list[ServerSettings]) -> list[float]:
    """Seconds after which each server had listed its tools; those that fail are left out."""
    began, took = time.perf_counter(), []

    async def ask(server: ServerSettings) -> None:
        with suppress(UpstreamError):
            await opened.list_tools(server)
            took.append(time.perf_counter() - began)

    async with anyio.create_task_group() as tasks:
        for server in servers:
            tasks.start_soon(ask, server)
    return took


async def again_and_again(ask: Callable[[], Awaitable[Any]]) -> None:
    while True:
        with suppress(UpstreamError):
            await ask()
        await anyio.sleep(0.01)


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]
