"""What the marketplace costs: CPU of a synchronisation and of a search, memory, and the file.

    python benchmarks/marketplace.py [--entries 20000]

The entries are made up, two in three as short as most of the official registry, and every tenth
with tools as catalogs have them; words are drawn as rarely as in real text (Zipf). A process of its
own serves them as the official API does, in pages of a hundred. Every figure is CPU time of this
process. The queries are of one to six words, each asked once.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import anyio
from search_speed import Words

from discovery_engine.config.marketplace_settings import MarketplaceSettings, MarketplaceSource
from discovery_engine.marketplace.entry_store import FILE_NAME, MarketplaceStore
from discovery_engine.marketplace.marketplace import Marketplace, synced_sources
from discovery_engine.search.text.lexicon import default_lexicon
from discovery_engine.secrets.resolver import EnvironmentResolver

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.servers.mcp_registry_server import listed, registry_server

QUERIES = 200
RESULTS = 20
MIB = 1024 * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=20_000)
    count = parser.parse_args().entries
    words = Words(1)
    entries = make_entries(count, words)
    queries = [" ".join(words.some(1, 6)) for _ in range(QUERIES)]
    receiver, sender = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.get_context("fork").Process(
        target=serve, args=(entries, sender), daemon=True
    )
    server.start()
    url = receiver.recv()
    with tempfile.TemporaryDirectory() as folder:
        apart(synchronize, Path(folder), url)
        # The servers of the official registry have names of words, and queries have them, too.
        apart(search, Path(folder), url, queries)
    server.terminate()


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process that has loaded nothing yet."""
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawning) as pool:
        return pool.submit(work, *arguments).result()


def synchronize(folder: Path, url: str) -> None:
    anyio.run(_synchronize, folder, url)


async def _synchronize(folder: Path, url: str) -> None:
    default_lexicon().analyze("words")
    marketplace = opened(folder, url)
    before, started = resident(), time.process_time()
    [report] = await marketplace.sync()
    took, most = time.process_time() - started, peak() - before
    print(f"synchronise {report.added:,} entries   {took:8.1f} s of CPU")
    print(f"most memory meanwhile       {most / MIB:8.1f} MiB more")
    started = time.process_time()
    await marketplace.sync(force=True)
    print(f"again, nothing has changed  {(time.process_time() - started) * 1000:8.1f} ms")
    marketplace.close()
    print(f"marketplace.db              {(folder / FILE_NAME).stat().st_size / MIB:8.1f} MiB")


def search(folder: Path, url: str, queries: Sequence[str]) -> None:
    anyio.run(_search, folder, url, queries)


async def _search(folder: Path, url: str, queries: Sequence[str]) -> None:
    default_lexicon().analyze("words")
    before = resident()
    marketplace = opened(folder, url)

    async def found(query: str) -> float:
        started = time.process_time()
        await marketplace.search(query, limit=RESULTS, offline=True)
        return time.process_time() - started

    first = await found(queries[0])
    print(f"first search of a process   {first * 1000:8.1f} ms")
    times = [await found(query) for query in queries[1:]]
    print(f"search, median              {statistics.median(times) * 1000:8.2f} ms")
    print(f"search, 95 of 100           {sorted(times)[int(len(times) * 0.95)] * 1000:8.2f} ms")
    print(f"memory of all that          {(resident() - before) / MIB:8.1f} MiB")
    marketplace.close()


def opened(folder: Path, url: str) -> Marketplace:
    source = MarketplaceSource("mcp-registry", id="made-up", url=url)
    settings = MarketplaceSettings((source,))
    return Marketplace(
        settings,
        MarketplaceStore(folder / FILE_NAME, clock=time.time),
        synced=synced_sources(settings, EnvironmentResolver({}), folder=None),
        environ={},
        clock=time.time,
    )


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    """The most that it has held."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def make_entries(count: int, words: Words) -> list[dict[str, Any]]:
    chance = random.Random(2)
    entries = []
    for number in range(count):
        owner, *name = words.some(2, 3)
        members: dict[str, Any] = {}
        if number % 10 == 0:
            members["tools"] = [
                {"name": "_".join(words.some(2, 3)), "description": " ".join(words.some(5, 20))}
                for _ in range(chance.randint(3, 30))
            ]
        entries.append(
            listed(
                f"io.github.{owner}/{'-'.join(name) or owner}-{number}",
                title=" ".join(words.some(1, 3)).title(),
                description=" ".join(words.some(6, 16 if number % 3 else 60)),
                day=number / 100,
                **members,
            )
        )
    return entries


def serve(entries: list[dict[str, Any]], sender: Any) -> None:
    with registry_server(*entries) as server:
        sender.send(server.url)
        time.sleep(3_600)


if __name__ == "__main__":
    main()
