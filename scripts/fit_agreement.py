"""Fit the weights by which the agreement of request and tool moves a score.

    python scripts/fit_agreement.py FOLDER [--write] [--limit N] [--without TRAIT,TRAIT]

FOLDER holds the development sets that `benchmarks/relevance.py` reads. Besides these, the model is
fitted on one typical request for each tool of `benchmarks/everyday`, and on its development set.
For each request the candidates by words are ranked by the logarithm of their odds plus the weights
of their traits; the weights maximize the likelihood of the right tools (a conditional logit, with a
little shrinkage). All sets weigh alike, however many requests they have, the typical ones four
times as much, the development set twice.

All figures are of weights that saw neither the set they judge nor any with tools of its catalog:
the typical requests for tools of a server are left out where that server is judged. The weights
that are written have seen all sets.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import everyday  # noqa: E402
from manifest import DATA, digests, record  # noqa: E402
from relevance import queries_of, read_catalog  # noqa: E402

from discovery_engine.catalog import Catalog, Entry, ServerPart  # noqa: E402
from discovery_engine.config.settings import SearchSettings  # noqa: E402
from discovery_engine.rules.rule import Verdict  # noqa: E402
from discovery_engine.search.operations.operation import ToolProfile  # noqa: E402
from discovery_engine.search.ranking.relevance import Trait, traits  # noqa: E402
from discovery_engine.search.searcher import Searcher, build_searcher  # noqa: E402
from discovery_engine.tools.model import ServerName, Tool, ToolKey  # noqa: E402

TRAITS = tuple(Trait)
CANDIDATES = 30  # that take part in the fit; a right tool is rarely below
DEPTH = 10
SHRINKAGE = 1e-4  # of the squared weights, beside the mean log likelihood
STEPS = 12
IMPORTANCE = {"typical": 4.0, "everyday": 2.0}
LEAST = 0.005  # a smaller weight is left out
SAME_CATALOG = ("livemcp", "livemcp_steps", "livemcp_xl")
FILE = DATA / "agreement.txt"


class Case(NamedTuple):
    features: np.ndarray
    """Of each candidate, in the order by words: the log odds of its score, then its traits."""
    is_right: np.ndarray
    right: int
    """How many tools are right."""
    servers: frozenset[str]
    """Those of the right tools."""


Sets = Mapping[str, Sequence[Case]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=300, help="queries a set, evenly taken")
    parser.add_argument("--without", default="", help="traits to leave out, joined by commas")
    parser.add_argument("--write", action="store_true", help="keep the weights")
    options = parser.parse_args()
    left_out = set(filter(None, options.without.split(",")))
    sets = {name: list(cases) for name, cases in all_cases(options.folder, options.limit)}
    columns = [0, *(1 + i for i, trait in enumerate(TRAITS) if trait not in left_out)]
    metrics = judge(sets, columns)
    weights = fit(sets, columns)
    table = {TRAITS[c - 1]: w for c, w in zip(columns[1:], weights[1:] / weights[0], strict=True)}
    for trait, weight in table.items():
        print(f"{trait:20s} {weight:+.3f}")
    if options.write:
        write(options.folder, table, metrics)


def write(folder: Path, table: Mapping[Trait, float], metrics: Mapping[str, float]) -> None:
    kept = (f"{trait} {w:.3f}\n" for trait, w in table.items() if abs(w) >= LEAST)
    FILE.write_text("".join(["# Written by scripts/fit_agreement.py\n", *kept]), encoding="utf-8")
    names = ("catalog.jsonl", "queries.jsonl", "servers.jsonl")
    files = [file for name in names for file in folder.glob(f"*/{name}")]
    own = [everyday.FOLDER / name for name in OWN]
    inputs = digests(files, folder) | digests(own, ROOT)
    record(FILE, script="scripts/fit_agreement.py", inputs=inputs, metrics=metrics)


OWN = ("catalog.jsonl.gz", "development.jsonl", "servers.jsonl", "typical_requests.jsonl.gz")


def all_cases(folder: Path, limit: int) -> Iterator[tuple[str, Iterator[Case]]]:
    for one in sorted(f for f in folder.iterdir() if (f / "queries.jsonl").exists()):
        catalog, descriptions = read_catalog(one)
        searcher = build_searcher(catalog, SearchSettings(), descriptions=descriptions)
        yield one.name, cases(searcher, queries_of(one, limit))
    catalog, descriptions = everyday.read_catalog("development", with_examples=False)
    searcher = build_searcher(catalog, SearchSettings(), descriptions=descriptions)
    requests = everyday.lines(everyday.FOLDER / "development.jsonl")
    yield "everyday", cases(searcher, requests)
    yield "typical", cases(*typical({request["query"] for request in requests}))


def typical(left_out: set[str]) -> tuple[Searcher, list[dict]]:
    """One typical request for each tool, over the tools of all servers."""
    chosen = random.Random(5)
    queries = []
    for line in everyday.packed_lines(everyday.FOLDER / "typical_requests.jsonl.gz"):
        if requests := [text for text in line["requests"] if text not in left_out]:
            right = [[line["server"], line["name"]]]
            queries.append({"query": chosen.choice(requests), "relevant": right})
    by_server: dict[str, dict[str, Entry]] = {}
    for definition in everyday.packed_lines(everyday.FOLDER / "catalog.jsonl.gz"):
        server = definition.pop("server")
        tool = Tool.from_mcp(server, definition)
        by_server.setdefault(server, {})[tool.name] = Entry(tool, Verdict())
    parts = (
        ServerPart(ServerName(server), tuple(found[tool] for tool in sorted(found)))
        for server, found in by_server.items()
    )
    servers = everyday.lines(everyday.FOLDER / "servers.jsonl")
    descriptions = {ServerName(one["server"]): one["description"] for one in servers}
    return build_searcher(Catalog.of(parts), SearchSettings(), descriptions=descriptions), queries


def cases(searcher: Searcher, queries: Sequence[dict]) -> Iterator[Case]:
    for query in queries:
        right = {ToolKey(server, tool) for server, tool in query["relevant"]}
        analyzed = searcher.analyze(query["query"])
        if not right or analyzed.name_matches:
            continue
        rows, is_right = [], []
        for key, score, profile in searcher.candidates(analyzed):
            held = set(traits(analyzed.reading, ToolProfile.unpacked(profile)))
            odds = math.log(score / (1 - score))
            rows.append([odds, *(float(trait in held) for trait in TRAITS)])
            is_right.append(key in right)
        servers = frozenset(key.server for key in right)
        features = np.array(rows).reshape(len(rows), 1 + len(TRAITS))
        yield Case(features, np.array(is_right, bool), len(right), servers)


def judge(sets: Sets, columns: Sequence[int]) -> dict[str, float]:
    """Print what the agreement is worth for each set; the means over those of FOLDER."""
    print(f"{'set':14s}   n  hit@1  ndcg@10   with agreement")
    alone = np.zeros(len(columns))
    alone[0] = 1
    before, after = {}, {}
    for name in (name for name in sets if name != "typical"):
        weights = fit(without(sets, name), columns)
        before[name] = measures(sets[name], alone, columns)
        after[name] = measures(sets[name], weights, columns)
        print(f"{name:14s} {len(sets[name]):4d}  {before[name].round(3)}   {after[name].round(3)}")
    known = [name for name in before if name != "everyday"]
    means = [np.mean([table[name] for name in known], axis=0) for table in (before, after)]
    print(f"{'mean':14s}       {means[0].round(4)}   {means[1].round(4)}", flush=True)
    return {
        "ndcg without": float(means[0][1]),
        "ndcg": float(means[1][1]),
        "everyday hit@1 without": float(before["everyday"][0]),
        "everyday hit@1": float(after["everyday"][0]),
    }


def without(sets: Sets, judged: str) -> Sets:
    """The sets to fit on where one is judged: none with a tool of its catalog."""
    unseen = set(SAME_CATALOG) if judged in SAME_CATALOG else {judged}
    kept = {name: found for name, found in sets.items() if name not in unseen}
    if judged == "everyday":
        seen = frozenset().union(*(case.servers for case in sets[judged]))
        kept["typical"] = [case for case in sets["typical"] if seen.isdisjoint(case.servers)]
    return kept


def fit(sets: Sets, columns: Sequence[int]) -> np.ndarray:
    """The weights of the highest likelihood, by Newton's method."""
    chosen = [
        (case.features[:CANDIDATES, columns], case.is_right[:CANDIDATES], name)
        for name, found in sets.items()
        for case in found
        if 0 < case.is_right[:CANDIDATES].sum() < len(case.is_right[:CANDIDATES])
    ]
    counts = {name: sum(one[2] == name for one in chosen) for name in sets}
    share = np.array([IMPORTANCE.get(name, 1.0) / counts[name] for *_, name in chosen])
    share /= share.sum()
    size = len(chosen), CANDIDATES, len(columns)
    x, wanted, absent = np.zeros(size), np.zeros(size[:2]), np.full(size[:2], -np.inf)
    for i, (features, is_right, _) in enumerate(chosen):
        x[i, : len(features)] = features
        wanted[i, : len(features)] = is_right / is_right.sum()
        absent[i, : len(features)] = 0
    weights = np.zeros(len(columns))
    weights[0] = 3
    for _ in range(STEPS):
        scores = x @ weights + absent
        likely = np.exp(scores - scores.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        mean = np.einsum("qn,qnd->qd", likely, x)
        slope = share @ (mean - np.einsum("qn,qnd->qd", wanted, x)) + 2 * SHRINKAGE * weights
        flat = (x * np.sqrt(likely * share[:, None])[..., None]).reshape(-1, len(columns))
        own = mean * np.sqrt(share)[:, None]
        curve = flat.T @ flat - own.T @ own + 2 * SHRINKAGE * np.eye(len(columns))
        weights = weights - np.linalg.solve(curve, slope)
    return weights


def measures(found: Sequence[Case], weights: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """hit@1 and NDCG@10."""
    rows = []
    for case in found:
        order = np.argsort(-(case.features[:, columns] @ weights), kind="stable")
        hits = case.is_right[order][:DEPTH]
        gain = sum(1 / math.log2(i + 2) for i in np.flatnonzero(hits))
        best = sum(1 / math.log2(i + 2) for i in range(min(DEPTH, case.right)))
        rows.append((hits[:1].any(), gain / best))
    return np.mean(rows, axis=0)


if __name__ == "__main__":
    main()
