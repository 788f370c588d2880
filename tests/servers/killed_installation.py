"""An installation whose process kills itself when all is stored but the server.

    python -m tests.servers.killed_installation FOLDER NAME

The values are in $DISCOVERY_TEST_VALUES.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import anyio

from discovery_engine import open_engine


def die(*_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


async def main(folder: Path, name: str) -> None:
    values = json.loads(os.environ["DISCOVERY_TEST_VALUES"])
    async with open_engine(folder / "discovery.yaml", data_dir=folder / "data") as engine:
        plan = await engine.installer.plan_install(name, values=values)
        engine.servers.apply = die  # type: ignore[method-assign]
        await engine.installer.install(plan)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2])
