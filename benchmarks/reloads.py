"""What a configuration that keeps changing costs the calls that are under way.

    python benchmarks/reloads.py [--reloads 100] [--torn 10] [--servers 8] [--seed 1]

Callers use healthy servers without pause, first alone, then while another process' way of saving
(a new file in the old one's place) changes the file again and again: a server is added, removed,
reached in another way, rules come and go, and every tenth edit cannot be used. Goals: no call on a
server that was not touched fails, and each of those keeps its process. In the end half a file is
written every 10 ms, for as many seconds as `--torn` says: half of it may be good YAML, too.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from discovery_engine.engine import Engine, open_engine  # noqa: E402
from discovery_engine.errors import DiscoveryError  # noqa: E402
from discovery_engine.events import (  # noqa: E402
    ConfigurationRejected,
    ConfigurationReloaded,
    ServerConnected,
)
from tests.engines import entry, good, heard, pid_of  # noqa: E402


@dataclass
class Load:
    """Callers of healthy servers, each with one call after the other."""

    engine: Engine
    names: list[str]
    seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    async def caller(self, name: str) -> None:
        while True:
            started = time.perf_counter()
            try:
                result = await self.engine.execute(name, "echo", {"text": "x"})
                if json.loads(result["content"][0]["text"]) != {"text": "x"}:
                    self.failures["a wrong answer"] += 1
            except DiscoveryError as error:
                self.failures[error.code] += 1
                await anyio.lowlevel.checkpoint()  # what is refused at once lets nobody else run
            self.seconds.append(time.perf_counter() - started)

    def taken(self) -> tuple[int, float, float]:
        """How many calls there were, their median and their 99th percentile in milliseconds."""
        seconds, self.seconds = self.seconds, []
        cuts = statistics.quantiles(seconds, n=100)
        return len(seconds), cuts[49] * 1000, cuts[98] * 1000


@dataclass
class File:
    """The configuration, and every way in which it changes."""

    path: Path
    healthy: dict[str, Any]
    chance: random.Random

    def save(self, text: str) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_text(text, "utf-8")
        beside.replace(self.path)

    def text(self, number: int) -> str:
        """The content of an edit; no two in a row are alike."""
        other = good("other", env={"NUMBER": str(number)})
        servers = {**self.healthy, **({"other": entry(other)} if number % 3 else {})}
        tag = f"edit-{number}"
        rules = [{"pattern": self.chance.choice(["echo", "p*", "!pid"]), "tags": [tag]}]
        return json.dumps({"servers": servers, "toolRules": rules})

    async def edit(self, number: int) -> type[ConfigurationReloaded | ConfigurationRejected]:
        """Change the file; returns the event that must follow."""
        is_bad = number % 10 == 9
        text = self.text(number)
        await anyio.to_thread.run_sync(self.save, text[:-20] if is_bad else text)
        return ConfigurationRejected if is_bad else ConfigurationReloaded

    async def tear(self, seconds: float) -> None:
        """Write a part of it again and again, and in the end all of it."""
        whole = yaml.safe_dump({"servers": self.healthy})
        with anyio.move_on_after(seconds):
            while True:
                self.path.write_text(whole[: self.chance.randrange(len(whole))], "utf-8")
                await anyio.sleep(0.01)
        self.path.write_text(whole, "utf-8")


async def main(reloads: int, torn: float, servers: int, seed: int) -> None:
    healthy = {name: entry(good(name)) for name in (f"healthy{n}" for n in range(servers))}
    with tempfile.TemporaryDirectory() as folder:
        file = File(Path(folder) / "discovery.yaml", healthy, random.Random(seed))
        file.save(json.dumps({"servers": healthy}))
        async with (
            open_engine(file.path, data_dir=folder) as engine,
            anyio.create_task_group() as tasks,
        ):
            with engine.subscribe() as events:
                tasks.start_soon(engine.run_maintenance)
                for _ in healthy:
                    await heard(events, ServerConnected)
            load = Load(engine, list(healthy))
            before = [await pid_of(engine, name) for name in healthy]
            for name in healthy:
                tasks.start_soon(load.caller, name)
            await anyio.sleep(5)
            alone = load.taken()
            followed, longest = await edited(engine, file, reloads)
            beside = load.taken()
            await tear(engine, file, torn)
            half = load.taken()
            after = [await pid_of(engine, name) for name in healthy]
            tasks.cancel_scope.cancel()
    kept = sum(one == other for one, other in zip(before, after, strict=True))
    failed = dict(load.failures)
    print(f"seed {seed}, {servers} healthy servers, {followed} edits followed")
    print("| | calls | median | p99 |\n|---|--:|--:|--:|")
    print(f"| alone | {alone[0]:,} | {alone[1]:.1f} ms | {alone[2]:.1f} ms |")
    print(f"| beside edits | {beside[0]:,} | {beside[1]:.1f} ms | {beside[2]:.1f} ms |")
    print(f"| beside half files | {half[0]:,} | {half[1]:.1f} ms | {half[2]:.1f} ms |")
    print(f"failed calls: {sum(failed.values())} {failed or ''} (goal: 0)")
    print(f"processes kept: {kept} of {servers} (goal: all)")
    print(f"from the edit to the new view, at most: {longest:.2f} s (goal: 1 s)")


async def edited(engine: Engine, file: File, reloads: int) -> tuple[int, float]:
    """How many edits were followed, and the seconds that the slowest took."""
    longest = 0.0
    with engine.subscribe() as events:
        for number in range(reloads):
            started = time.perf_counter()
            await heard(events, await file.edit(number))
            longest = max(longest, time.perf_counter() - started)
    return reloads, longest


async def tear(engine: Engine, file: File, seconds: float) -> None:
    """Write half files, and wait until the whole one is in force."""
    with engine.subscribe() as events:
        await file.tear(seconds)
        await heard(events, ConfigurationReloaded)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reloads", type=int, default=100)
    parser.add_argument("--torn", type=float, default=10)
    parser.add_argument("--servers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    logging.disable()  # every tenth edit would say that it was not followed
    anyio.run(main, arguments.reloads, arguments.torn, arguments.servers, arguments.seed)
