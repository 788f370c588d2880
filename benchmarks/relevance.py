"""How well the searcher ranks: real queries, the tools that are right, and where they came out.

    python benchmarks/relevance.py FOLDER [--sets a,b] [--limit N]

FOLDER holds one folder a set, each with `catalog.jsonl` (`server`, `name`, `description`,
`input_schema`), `queries.jsonl` (`id`, `query`, `relevant`: pairs of server and name) and, where
servers are described, `servers.jsonl` (`server`, `description`).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.settings import SearchSettings
from discovery_engine.rules.rule import Verdict
from discovery_engine.search.searcher import build_searcher
from discovery_engine.tools import Tool

COLUMNS = ("hit@1", "R@5", "R@10", "NDCG@10", "MRR")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default="", help="names, joined by commas; all if left out")
    parser.add_argument("--limit", type=int, default=0, help="queries a set, evenly taken; 0: all")
    options = parser.parse_args()
    chosen = [s for s in options.sets.split(",") if s]
    folders = sorted(f for f in options.folder.iterdir() if (f / "queries.jsonl").exists())
    print(
        f"{'set':14s} {'tools':>6s} {'n':>4s} "
        + " ".join(f"{c:>8s}" for c in COLUMNS)
        + "      ms  build s"
    )
    rows = [evaluate(f, options.limit) for f in folders if not chosen or f.name in chosen]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    print(f"{'macro':26s} " + figures(means))


def evaluate(folder: Path, limit: int) -> list[float]:
    catalog, descriptions = read_catalog(folder)
    queries = lines(folder / "queries.jsonl")
    step = max(1, len(queries) // limit) if limit else 1
    queries = queries[::step]
    start = time.process_time()
    searcher = build_searcher(catalog, SearchSettings(), descriptions=descriptions)
    built = time.process_time() - start
    rows = []
    start = time.process_time()
    for query in queries:
        hits = searcher.search(query["query"], limit=10, accepts=lambda _: True)
        found = [(h.entry.tool.server, h.entry.tool.name) for h in hits]
        rows.append(measures(found, {tuple(pair) for pair in query["relevant"]}))
    spent = (time.process_time() - start) / len(queries) * 1000
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    head = f"{folder.name:14s} {len(catalog):6d} {len(queries):4d}"
    print(f"{head} {figures(means)} {spent:7.2f} {built:8.2f}", flush=True)
    return means


def measures(found: list[tuple[str, str]], right: set[tuple[str, str]]) -> list[float]:
    gains = [float(pair in right) for pair in found]
    discounts = [1 / math.log2(rank + 2) for rank in range(10)]
    ideal = sum(discounts[: len(right)])
    first = next((rank for rank, gain in enumerate(gains, 1) if gain), 0)
    return [
        gains[0] if gains else 0.0,
        sum(gains[:5]) / len(right),
        sum(gains) / len(right),
        sum(g * d for g, d in zip(gains, discounts, strict=False)) / ideal,
        1 / first if first else 0.0,
    ]


def read_catalog(folder: Path) -> tuple[Catalog, dict[str, str]]:
    by_server: dict[str, dict[str, Entry]] = {}
    for line in lines(folder / "catalog.jsonl"):
        definition = {"name": line["name"], "description": line["description"]}
        if line["input_schema"]:
            definition["inputSchema"] = line["input_schema"]
        tool = Tool.from_mcp(line["server"], definition)
        by_server.setdefault(line["server"], {})[tool.name] = Entry(tool, Verdict())
    parts = (
        ServerPart(server, tuple(entries[name] for name in sorted(entries)))
        for server, entries in by_server.items()
    )
    described = lines(folder / "servers.jsonl")
    return Catalog.of(parts), {s["server"]: s.get("description") or "" for s in described}


def lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.open(encoding="utf-8")] if file.exists() else []


def figures(values: list[float]) -> str:
    return " ".join(f"{value:8.4f}" for value in values)


if __name__ == "__main__":
    main()
