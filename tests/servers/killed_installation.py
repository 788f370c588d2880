"""An installation whose process kills itself.

    python -m tests.servers.killed_installation FOLDER MOMENT

The entry is in $DISCOVERY_TEST_ENTRY. The moment is a word of its progress, or `entering`: when all
is stored but the server.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import anyio
from msgspec import json

from discovery_engine import open_engine
from discovery_engine.installer.installer import Installer
from discovery_engine.marketplace.entry import MarketplaceEntry
from discovery_engine.marketplace.entry_details import EntryDetails


def die(*_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


async def main(folder: Path, moment: str) -> None:
    entry = json.decode(os.environ["DISCOVERY_TEST_ENTRY"], type=MarketplaceEntry)
    data = folder / "data"

    async def find(_: str, __: str) -> EntryDetails:
        return EntryDetails(entry)

    async with open_engine(folder / "discovery.yaml", data_dir=data) as engine:
        installer = Installer(engine, find, environ=os.environ, data=data, clock=lambda: 1.0)
        plan = await installer.plan_install("files", values={"KEY": "hunter-2"})
        if moment == "entering":
            engine.servers.apply = die  # type: ignore[method-assign]
        await installer.install(
            plan, on_progress=lambda text: die() if text.startswith(moment) else None
        )


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
