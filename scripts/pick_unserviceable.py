"""Pick queries that no tool of a catalog serves, out of the queries of other catalogs.

    python scripts/pick_unserviceable.py FOLDER MODEL [--write]

FOLDER holds the sets that `benchmarks/relevance.py` reads, MODEL is the folder of a sentence model
in ONNX form. A query of one set, asked of another set's catalog, is kept if that model, which has
no part in the ranking, finds nothing there that might serve it by accident:

- no tool is like one of the query's right tools (cosine of at least `TWIN`),
- none is as near to the query as `NEAR`, or nearly as near as the nearest right tool (`CLEARLY`).

The picks go to `benchmarks/unserviceable/foreign.jsonl`, by the ids of the sets: no text of theirs
is copied.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import anyio
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from relevance import lines, read_catalog  # noqa: E402

from discovery_engine.search.embedders.onnx import OnnxEmbedder  # noqa: E402
from discovery_engine.search.texts import text_of  # noqa: E402

TARGET = ROOT / "benchmarks" / "unserviceable" / "foreign.jsonl"
TWIN, NEAR, CLEARLY = 0.45, 0.45, 0.10
MOST = 30  # queries of one set asked of one other
BATCH = 32
# Sets that share a catalog, or the crawl that most of it comes from.
FAMILIES = ({"livemcp", "livemcp_steps", "livemcp_xl"}, {"livemcp_xl", "mcpflow"})


class Query(NamedTuple):
    id: str
    vector: np.ndarray
    right: np.ndarray
    """The vectors of its right tools, one a row."""


class Encoder:
    """Vectors a unit long; one text is encoded once."""

    def __init__(self, folder: Path) -> None:
        self._embedder = OnnxEmbedder(folder)
        self._known: dict[str, np.ndarray] = {}

    def rows(self, texts: list[str]) -> np.ndarray:
        new = sorted({text for text in texts if text not in self._known}, key=len)
        for start in range(0, len(new), BATCH):
            batch = new[start : start + BATCH]
            for text, vector in zip(batch, anyio.run(self._embedder.embed, batch), strict=True):
                self._known[text] = vector / np.linalg.norm(vector)
        return np.stack([self._known[text] for text in texts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--write", action="store_true", help="keep the picks")
    options = parser.parse_args()
    folders = sorted(f for f in options.folder.iterdir() if (f / "queries.jsonl").exists())
    encoder = Encoder(options.model)
    tools, queries = {}, {}
    for folder in folders:
        tools[folder.name], queries[folder.name] = read(folder, encoder)
        print(f"read {folder.name}", flush=True)
    picks = [
        {"catalog": catalog, "from": asked, "ids": picked}
        for asked, catalog in permutations(tools, 2)
        if not any({asked, catalog} <= family for family in FAMILIES)
        if (picked := pick(queries[asked], tools[catalog], seed=f"{asked} {catalog}"))
    ]
    print(f"{sum(len(one['ids']) for one in picks)} queries for {len(tools)} catalogs")
    if options.write:
        TARGET.write_text("".join(f"{json.dumps(one)}\n" for one in picks), encoding="utf-8")


def read(folder: Path, encoder: Encoder) -> tuple[np.ndarray, list[Query]]:
    catalog, _ = read_catalog(folder)
    rows = encoder.rows([text_of(entry.tool) for entry in catalog])
    place = {(e.tool.server, e.tool.name): row for row, e in enumerate(catalog)}
    asked = lines(folder / "queries.jsonl")
    vectors = encoder.rows([one["query"] for one in asked])
    return rows, [
        Query(one["id"], vector, rows[[place[tuple(pair)] for pair in one["relevant"]]])
        for one, vector in zip(asked, vectors, strict=True)
    ]


def pick(queries: list[Query], tools: np.ndarray, *, seed: str) -> list[str]:
    misfits = [query.id for query in queries if not may_serve(tools, query)]
    random.Random(seed).shuffle(misfits)
    return sorted(misfits[:MOST])


def may_serve(tools: np.ndarray, query: Query) -> bool:
    """Whether any of `tools` might serve the query, as far as the model can tell."""
    nearest = (tools @ query.vector).max()
    at_home = (query.right @ query.vector).max()
    return nearest >= min(NEAR, at_home - CLEARLY) or (query.right @ tools.T).max() >= TWIN


if __name__ == "__main__":
    main()
