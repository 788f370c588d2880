"""Signals of a gateway."""

from __future__ import annotations

import signal

import anyio
import pytest

from discovery_server.signals import handled

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("SRV-3")
@pytest.mark.parametrize(
    ("first", "second"), [(signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)]
)
async def test_only_the_same_signal_again_cuts_a_shutdown_short(
    first: signal.Signals, second: signal.Signals
) -> None:
    stopping = anyio.Event()
    async with handled() as handlers:
        handlers.stop = stopping.set

        signal.raise_signal(first)
        with anyio.fail_after(10):
            await stopping.wait()
        signal.raise_signal(second)  # as clients do, 100 ms later

        assert signal.getsignal(first) is signal.SIG_DFL
