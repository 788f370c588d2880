"""What many tests share."""

from __future__ import annotations

import signal

import pytest

# A shell that starts the tests in the background has Ctrl-C ignored, and so would have every
# program that they start and press it for.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
