"""Pick queries that no tool of a catalog serves, out of the queries of other catalogs.

    python scripts/pick_unserviceable.py FOLDER MODEL [--write]

FOLDER holds the sets that `benchmarks/relevance.py` reads, MODEL is the folder of a sentence model
in ONNX form. A query of one set, asked of another set's catalog, is kept if that model, which has
no part in the ranking, finds nothing there that might serve it by accident:

- no tool is like one of the query's right tools (cosine of at least `TWIN`),
- none is as near to the query as `NEAR`, or nearly as near as the nearest right tool (`CLEARLY`),
- none is as near as `NEAR` to a clause of the query: whoever does a part of a request serves it,
- if the query speaks of a web page, no tool is as near as `NEAR` to `READS_PAGES`.

What a model cannot tell was read. Five queries of each set, drawn at random, were read by a single
reader for each other catalog, beside the tools that words and the model find nearest:
`judged.jsonl` says which fit some tool at least in part, which might, and which none does. The
first two are never picked, the last always. How many of each the rules alone would keep is shown.

The picks go to `benchmarks/unserviceable/foreign.jsonl`, by the ids of the sets: no text of theirs
is copied.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import anyio
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from relevance import lines, read_catalog  # noqa: E402

from discovery_engine.engine.vector_cache import embedding_text  # noqa: E402
from discovery_engine.search.embedders.local import OnnxEmbedder  # noqa: E402
from discovery_engine.search.query.analyzer import split_clauses  # noqa: E402

UNSERVICEABLE = ROOT / "benchmarks" / "unserviceable"
TWIN, NEAR, CLEARLY = 0.45, 0.45, 0.10
READS_PAGES = "fetch a web page: Fetches the content of any web page, given its URL (url)"
PAGE = re.compile(r"https?://|www\.|\bweb ?(?:page|site)|\burl\b", re.IGNORECASE)
MOST = 30  # queries of one set asked of one other
BATCH = 32
# Sets that share a catalog, or the crawl that most of it comes from.
FAMILIES = ({"livemcp", "livemcp_steps", "livemcp_xl"}, {"livemcp_xl", "mcpflow"})


class Query(NamedTuple):
    id: str
    text: str
    vector: np.ndarray
    clauses: np.ndarray
    """The vectors of the query's clauses, one a row; the query's own if it is a single one."""
    right: np.ndarray
    """The vectors of its right tools, one a row."""


class Tools(NamedTuple):
    vectors: np.ndarray
    """One a row."""
    read_pages: bool


@dataclass(frozen=True)
class Judged:
    """What a reader told of the queries of one set, asked of one catalog: their ids."""

    fits: frozenset[str] = frozenset()
    unclear: frozenset[str] = frozenset()
    none: frozenset[str] = frozenset()


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
    judged = read_judged()
    picks, kept = [], Counter()
    for asked, catalog in permutations(tools, 2):
        if any({asked, catalog} <= family for family in FAMILIES):
            continue
        told = judged.get((catalog, asked), Judged())
        misfits = {q.id for q in queries[asked] if not may_serve(tools[catalog], q)}
        kept.update({name: len(misfits & ids) for name, ids in vars(told).items()})
        if picked := pick(misfits, told, seed=f"{asked} {catalog}"):
            picks.append({"catalog": catalog, "from": asked, "ids": picked})
    print(f"{sum(len(one['ids']) for one in picks)} queries for {len(tools)} catalogs")
    print("of those that were read, the rules alone keep", dict(kept))
    if options.write:
        rows = "".join(f"{json.dumps(one)}\n" for one in picks)
        (UNSERVICEABLE / "foreign.jsonl").write_text(rows, encoding="utf-8")


def read(folder: Path, encoder: Encoder) -> tuple[Tools, list[Query]]:
    catalog, _ = read_catalog(folder)
    rows = encoder.rows([embedding_text(entry.tool) for entry in catalog])
    place = {(e.tool.server, e.tool.name): row for row, e in enumerate(catalog)}
    queries = []
    for one in lines(folder / "queries.jsonl"):
        text = one["query"]
        whole, *clauses = encoder.rows([text, *split_clauses(text)])
        right = rows[[place[tuple(pair)] for pair in one["relevant"]]]
        queries.append(Query(one["id"], text, whole, np.array(clauses or [whole]), right))
    read_pages = (rows @ encoder.rows([READS_PAGES])[0]).max() >= NEAR
    return Tools(rows, bool(read_pages)), queries


def read_judged() -> dict[tuple[str, str], Judged]:
    """By catalog and the set that the queries are of."""
    return {
        (one["catalog"], one["from"]): Judged(
            *(frozenset(one[verdict]) for verdict in ("fits", "unclear", "none"))
        )
        for one in lines(UNSERVICEABLE / "judged.jsonl")
    }


def pick(misfits: Iterable[str], judged: Judged, *, seed: str) -> list[str]:
    """All that were judged to fit nothing, and some more that seem to, up to `MOST`."""
    others = sorted(set(misfits) - judged.fits - judged.unclear - judged.none)
    random.Random(seed).shuffle(others)
    return sorted([*judged.none, *others[: MOST - len(judged.none)]])


def may_serve(tools: Tools, query: Query) -> bool:
    """Whether any of the tools might serve the query, as far as the model can tell."""
    rows = tools.vectors
    nearest, at_home = (rows @ query.vector).max(), (query.right @ query.vector).max()
    return (
        nearest >= min(NEAR, at_home - CLEARLY)
        or (query.right @ rows.T).max() >= TWIN
        or (rows @ query.clauses.T).max() >= NEAR
        or (tools.read_pages and PAGE.search(query.text) is not None)
    )


if __name__ == "__main__":
    main()
