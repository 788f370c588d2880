"""What 10,000 tools cost: from the servers' answers to a catalog that can be searched; memory.

    python benchmarks/catalog.py [--servers 50] [--tools 200] [--rules 100] [--profile]

Every step is CPU time of this process, the least of several rounds, and stands beside `json.loads`
of the same answers in the same run: ratios hold on any machine. Memory is what the kernel counts
as resident in a process of its own, which has the catalog and nothing else to do.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import anyio
from rules import NOUNS, VERBS, make_rules
from search_speed import Words

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.settings import ServerSettings, Settings, StdioTransport
from discovery_engine.engine.catalog_state import CatalogState
from discovery_engine.engine.ingestion.ingestor import Ingestor, Rulebook
from discovery_engine.engine.ingestion.server_parts import ListingResult
from discovery_engine.events import EventBus
from discovery_engine.search.searcher import build_searcher
from discovery_engine.store.memory import MemoryRegistry
from discovery_engine.store.snapshot import Snapshot
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.tools.model import ServerName, Tool
from discovery_engine.trust.effective_trust import suspicions
from discovery_engine.upstream.connection import connection_fingerprint
from discovery_engine.upstream.listing import Listing, split_usable

T = TypeVar("T")

ROUNDS = 3
SCOPE = "benchmark"
GOAL_SECONDS = 1.5
GOAL_MB = 150


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, default=50)
    parser.add_argument("--tools", type=int, default=200, help="of each server")
    parser.add_argument("--rules", type=int, default=100)
    parser.add_argument("--profile", action="store_true", help="say where the time goes")
    parser.add_argument("--resident", choices=("listed", "remembered"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    fleet = Fleet(options.servers, options.tools, options.rules)
    if options.resident:
        print(json.dumps(resident(options.resident, fleet, options.folder)))
    elif options.profile:
        profiled(fleet)
    else:
        measure(fleet)


class Fleet:
    """Servers that list tools of about 700 bytes each, and the rules of their owner."""

    def __init__(self, servers: int, tools: int, rules: int) -> None:
        self.sizes = servers, tools, rules
        self.settings = Settings(
            servers=tuple(
                ServerSettings(ServerName(f"server{n}"), StdioTransport(f"program{n}"))
                for n in range(servers)
            ),
            tool_rules=tuple(make_rules(rules)),
        )

    def answers(self) -> list[bytes]:
        """What each server answers to `tools/list`, as it comes over the wire."""
        words = Words(seed=7)
        _, tools, _ = self.sizes
        pages = ([definition(words, n) for n in range(tools)] for _ in self.settings.servers)
        return [json.dumps({"tools": page}).encode() for page in pages]


def definition(words: Words, number: int) -> JSONObject:
    some = words.some
    properties = {
        "_".join(some(1, 2)): {"type": "string", "description": " ".join(some(3, 11))}
        for _ in range(4)
    }
    verb, noun = VERBS[number % len(VERBS)], NOUNS[number // len(VERBS) % len(NOUNS)]
    return {
        "name": "_".join([verb, noun, *some(1, 1), str(number)]),
        "description": " ".join(some(8, 32)),
        "inputSchema": {
            "type": "object",
            "properties": properties,
            "required": sorted(properties)[:2],
        },
        "annotations": {"readOnlyHint": verb in {"get", "list"}},
    }


def measure(fleet: Fleet) -> None:
    servers, tools, rules = fleet.sizes
    answers = fleet.answers()
    size = sum(map(len, answers)) / 1e6
    print(f"{servers * tools:,} tools of {servers} servers, {size:.1f} MB of JSON, {rules} rules\n")
    print(f"{'':<44} {'CPU':>8} {'x json.loads':>14}")
    floor, pages = timed(lambda: [json.loads(answer)["tools"] for answer in answers])
    row("json.loads of the listings", floor, floor)
    sorting, listed = timed(lambda: [anyio.run(sorted_out, page) for page in pages])
    row("sort out what cannot be used", sorting, floor)
    making, made = timed(lambda: tools_of(fleet, listed))
    row("canonical text, fingerprint", making, floor)
    judging, parts = timed(lambda: judged(fleet, made))
    row("verdicts", judging, floor)
    catalog = Catalog.of(parts, revision=1)
    indexing, _ = timed(lambda: build_searcher(catalog, fleet.settings.search))
    row("index", indexing, floor)
    total = floor + sorting + making + judging + indexing
    row(f"together (at most {GOAL_SECONDS:g} s)", total, floor)
    reading, _ = timed(
        lambda: [suspicions(tools, "", ServerPart(ServerName(""))) for tools in made]
    )
    row("and read for what means harm, once", reading, floor)
    print()
    swapping, _ = timed(lambda: anyio.run(swapped_in, fleet, listed))
    row("the same from the lists on, one server at a time", swapping, floor)
    with tempfile.TemporaryDirectory() as folder:
        measure_registry(fleet, catalog, Path(folder), floor)
        print()
        for how in ("listed", "remembered"):
            resident_mb = in_own_process(how, fleet, Path(folder))
            print(
                f"{how:<12} {resident_mb['now']:6.0f} MB resident (at most {GOAL_MB}), "
                f"{resident_mb['libraries']:.0f} MB of it the libraries; "
                f"{resident_mb['peak']:.0f} MB at most meanwhile"
            )


def measure_registry(fleet: Fleet, catalog: Catalog, folder: Path, floor: float) -> None:
    with open_sqlite(folder / "registry.db") as store:
        store.save_settings(SCOPE, fleet.settings)
        parts = tuple(catalog.parts.values())
        saving, _ = timed(lambda: store.save_parts(SCOPE, parts, revision=1))
        row("registry: save all", saving, floor)
        one, _ = timed(lambda: store.save_parts(SCOPE, parts[:1], revision=1))
        row("registry: save one server", one, floor)
    loading, world = timed(lambda: remembered(folder))
    row("registry: open and load", loading, floor)
    indexing, _ = timed(lambda: build_searcher(world.catalog, world.settings.search))
    row("index of what was loaded", indexing, floor)


async def sorted_out(page: Sequence[JSONObject]) -> Listing:
    tools, dropped = await split_usable(page, find_fault=lambda _: None)
    return Listing(tools, dropped)


def tools_of(fleet: Fleet, listings: Sequence[Listing]) -> list[list[Tool]]:
    return [
        [Tool.from_mcp(server.name, definition) for definition in listing.tools]
        for server, listing in zip(fleet.settings.servers, listings, strict=True)
    ]


def judged(fleet: Fleet, made: Sequence[Sequence[Tool]]) -> list[ServerPart]:
    judge = Ingestor(Rulebook(fleet.settings))
    return [
        part(judge, server, tools)
        for server, tools in zip(fleet.settings.servers, made, strict=True)
    ]


def part(judge: Ingestor, server: ServerSettings, tools: Sequence[Tool]) -> ServerPart:
    verdict = judge.server_verdict(server)
    entries: tuple[Entry, ...] = judge.make_entries(tools, verdict)
    return ServerPart(server.name, entries, verdict, listed_at=1.0)


async def swapped_in(fleet: Fleet, listings: Sequence[Listing]) -> CatalogState:
    """What the engine does as servers answer, one after another."""
    current = CatalogState(MemoryRegistry(), EventBus())
    await current.restore(fleet.settings)
    for server, listing in zip(fleet.settings.servers, listings, strict=True):
        how = connection_fingerprint(server)
        told = Listing(listing.tools, listing.dropped, connection=how)
        await current.apply_listing(ListingResult(server, told, 1.0))
    return current


def remembered(folder: Path) -> Snapshot:
    with open_sqlite(folder / "registry.db") as store:
        world = store.load(SCOPE)
    if world is None:
        raise AssertionError("nothing was saved")
    return world


def resident(how: str, fleet: Fleet, folder: Path) -> JSONObject:
    """Resident megabytes of this process: with the libraries alone, now, and at most so far."""
    # What a serving process has loaded, too.
    import discovery_server.gateway  # noqa: F401, PLC0415

    libraries = megabytes("VmRSS")
    if how == "listed":
        kept: object = anyio.run(listed_from_disk, fleet, folder)
    else:
        world = remembered(folder)
        kept = world, build_searcher(world.catalog, world.settings.search)
    gc.collect()
    now = megabytes("VmRSS")
    del kept
    return {"libraries": libraries, "now": now, "peak": megabytes("VmHWM")}


def megabytes(field: str) -> float:
    # Not getrusage: its maximum is handed down from the process that started this one.
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1000
    raise LookupError(field)


async def listed_from_disk(fleet: Fleet, folder: Path) -> CatalogState:
    """The servers' answers are read one by one, as from a pipe."""
    current = CatalogState(MemoryRegistry(), EventBus())
    await current.restore(fleet.settings)
    for number, server in enumerate(fleet.settings.servers):
        page = json.loads((folder / f"{number}.json").read_bytes())["tools"]
        listing = await sorted_out(page)
        how = connection_fingerprint(server)
        told = Listing(listing.tools, listing.dropped, connection=how)
        await current.apply_listing(ListingResult(server, told, 1.0))
    return current


def in_own_process(how: str, fleet: Fleet, folder: Path) -> dict[str, float]:
    for number, answer in enumerate(fleet.answers()):
        (folder / f"{number}.json").write_bytes(answer)
    servers, tools, rules = map(str, fleet.sizes)
    sizes = ["--servers", servers, "--tools", tools, "--rules", rules]
    command = [sys.executable, __file__, *sizes, "--resident", how, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def profiled(fleet: Fleet) -> None:
    """Where the time of listing, judging and indexing goes."""
    answers = fleet.answers()
    profile = cProfile.Profile()
    with profile:
        listed = [anyio.run(sorted_out, json.loads(answer)["tools"]) for answer in answers]
        parts = judged(fleet, tools_of(fleet, listed))
        build_searcher(Catalog.of(parts), fleet.settings.search)
    pstats.Stats(profile).sort_stats("tottime").print_stats(20)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds, the least of the rounds, and what the last one gave."""
    spent = []
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time()
        result = work()
        spent.append(time.process_time() - start)
    return min(spent), result


def row(name: str, seconds: float, floor: float) -> None:
    print(f"{name:<50} {seconds * 1000:6.0f} ms {seconds / floor:8.2f}", flush=True)


if __name__ == "__main__":
    main()
