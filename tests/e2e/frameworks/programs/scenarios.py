"""What the programs of all frameworks share: scenarios, each with an engine and a shop of its own.

    python claude_messages.py FOLDER [SCENARIO...]

prints a JSON object: for each scenario null, or how it failed.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from discovery_engine import open_engine
from discovery_engine.engine import Engine

ROOT = Path(__file__).resolve().parents[4]
SERVER = ROOT / "tests" / "servers" / "shop_server.py"
PATIENCE = 60  # seconds for one scenario, on a busy machine too


@dataclass(frozen=True)
class World:
    """A folder with a configuration, and the shop that it names."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "discovery.yaml"

    def has(self, *tools: str) -> None:
        """The tools that the shop has from now on."""
        (self.folder / "tools.txt").write_text("\n".join(tools), "utf-8")

    def write(self, *tools: str, **sections: Any) -> Path:
        """A configuration with the shop; with all of its tools if none are named."""
        names = [str(self.folder / "tools.txt")] if tools else []
        self.has(*tools)
        shop = {
            "command": sys.executable,
            "args": ["-I", "-S", str(SERVER), *names],
            "description": "orders and stock of the shop",
        }
        servers = {"shop": shop, **sections.pop("servers", {})}
        content = {"servers": servers, "cache": {"ttl": 3600}, **sections}
        self.config.write_text(json.dumps(content), "utf-8")
        os.environ["DISCOVERY_CONFIG"] = str(self.config)  # where examples look for it
        return self.config

    @asynccontextmanager
    async def open(self, *tools: str, **sections: Any) -> AsyncIterator[Engine]:
        """An engine that has listed the shop."""
        config = self.write(*tools, **sections)
        async with open_engine(config, data_dir=self.folder / "data") as engine:
            report = await engine.refresh()
            assert all(failure is None for _, failure in report.servers), report
            yield engine


Scenario = Callable[[World], Any]


def run(program: Mapping[str, Any]) -> None:
    """Run the scenarios that are asked for, or all; what came of them is printed as JSON.

    The scenarios of a program are its functions that take a `world`.
    """
    folder, *names = sys.argv[1:]
    outcomes: dict[str, str | None] = {}
    for name, scenario in program.items():
        if _is_scenario(scenario) and (not names or name in names):
            place = Path(folder) / name
            place.mkdir(parents=True)
            outcomes[name] = outcome(scenario, World(place))
    sys.stdout.write(json.dumps(outcomes) + "\n")


def outcome(scenario: Scenario, world: World) -> str | None:
    try:
        if inspect.iscoroutinefunction(scenario):
            anyio.run(_bounded, scenario, world)
        else:
            scenario(world)
    except BaseException:  # noqa: BLE001 - it is reported
        return traceback.format_exc()
    return None


def _is_scenario(value: object) -> bool:
    return inspect.isfunction(value) and list(inspect.signature(value).parameters) == ["world"]


async def _bounded(scenario: Scenario, world: World) -> None:
    with anyio.fail_after(PATIENCE):
        await scenario(world)
