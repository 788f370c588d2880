"""How well the searcher ranks: real queries, the tools that are right, and where they came out.

    python benchmarks/relevance.py FOLDER [--sets a,b] [--limit N] [--without SIGNAL | --ablation]
    python benchmarks/relevance.py FOLDER --embedder MODEL --vectors FOLDER
    python benchmarks/relevance.py FOLDER --peers FILE

FOLDER holds one folder a set, each with `catalog.jsonl` (`server`, `name`, `description`,
`input_schema`), `queries.jsonl` (`id`, `query`, `relevant`: pairs of server and name) and, where
servers are described, `servers.jsonl` (`server`, `description`).

Shown are the share of queries whose first hit is right, the share of the right tools among the
first five and ten, NDCG@10, the mean reciprocal rank, CPU milliseconds a query, and CPU seconds
to build. The macro line weighs the sets alike. With an embedder the milliseconds hold the making
of the query's vector, and its vectors of tools are kept in the folder named for them. With
`--peers`, the rankers that FILE defines (`benchmarks/peers.py` says how) run beside ours.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import peers
from peers import Peers

from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.settings import SearchSettings
from discovery_engine.rules.rule import Verdict
from discovery_engine.search.examples.book import OWN_EXAMPLES, ExampleBook
from discovery_engine.search.index import documents
from discovery_engine.search.index.documents import Field
from discovery_engine.search.query import analyzer
from discovery_engine.search.ranking import relevance as scoring
from discovery_engine.search.searcher import build_searcher
from discovery_engine.search.text.lexicon import Lexicon
from discovery_engine.tools.model import Tool

if TYPE_CHECKING:
    from embedding import Embedding

COLUMNS = ("hit@1", "R@5", "R@10", "NDCG@10", "MRR")
NDCG = COLUMNS.index("NDCG@10")
NO_FIELD = Field("", 0.0)
# What stands where a signal comes from, and what turns it off.
SIGNALS = {
    "concepts": [(analyzer, "CONCEPT_WEIGHT", 0.0)],
    "subjects": [(analyzer, "_SUBJECTS_WEIGHT", 0.0)],
    "stop words": [(Lexicon, "is_stop_word", lambda _lexicon, _word: False)],
    "clauses": [(scoring, "_CLAUSE_SHARE", 0.0)],
    "compounds": [(analyzer.QueryAnalyzer, "_compounds", lambda _reader, _english: ())],
    "guesses": [(analyzer, "_SHORT_QUERY", 0)],
    "questions": [(analyzer, "_QUESTION_WORDS", frozenset())],
    "addresses": [(analyzer, "_ADDRESS", re.compile("(?!)"))],
    "softer inverse frequency": [(analyzer, "_IDF_POWER", 1.0)],
    "share of the name": [(documents, "_NAME_SHARE", 0.0)],
    "server name": [(documents, "_SERVER", NO_FIELD)],
    "server description": [(documents, "_SERVER_DESCRIPTION", NO_FIELD)],
    "parameters": [
        (documents, "_PARAMETER_NAMES", NO_FIELD),
        (documents, "_PARAMETER_TEXTS", NO_FIELD),
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default="", help="names, joined by commas; all if left out")
    parser.add_argument("--limit", type=int, default=0, help="queries a set, evenly taken; 0: all")
    parser.add_argument("--without", choices=sorted(SIGNALS), help="a signal to turn off")
    parser.add_argument("--ablation", action="store_true", help="what each signal is worth")
    parser.add_argument("--embedder", help="a model's folder, or minilm:FOLDER of its weights")
    parser.add_argument("--vectors", type=Path, default=Path("vectors"), help="where they are kept")
    parser.add_argument("--peers", type=Path, help="a file with the rankers of others")
    options = parser.parse_args()
    chosen = [name for name in options.sets.split(",") if name]
    folders = sorted(f for f in options.folder.iterdir() if (f / "queries.jsonl").exists())
    folders = [f for f in folders if not chosen or f.name in chosen]
    if options.ablation:
        ablate(folders, options.limit)
        return
    if options.peers:
        compare(folders, options.limit, Peers.of_file(options.peers))
        return
    if options.without:
        turn_off(options.without)
    print(f"{'set':14s}  tools    n " + " ".join(f"{c:>8s}" for c in COLUMNS) + "      ms  build s")
    embedding = embedding_of(options.embedder, options.vectors) if options.embedder else None
    found = macro(folders, options.limit, shown=True, embedding=embedding)
    print(f"{'macro':26s} " + figures(found))
    if embedding:
        print(
            f"of {embedding.asked} requests the embedder was late for {embedding.late}, "
            f"and for the clauses of {embedding.partial}"
        )


def ablate(folders: list[Path], limit: int) -> None:
    whole = macro(folders, limit)
    print(f"{'everything':20s} NDCG@10 {whole[NDCG]:.4f}  hit@1 {whole[0]:.4f}")
    for signal in SIGNALS:
        before = turn_off(signal)
        rest = macro(folders, limit)
        for owner, name, value in before:
            setattr(owner, name, value)
        ndcg, hit = rest[NDCG] - whole[NDCG], rest[0] - whole[0]
        print(f"{'- ' + signal:20s} NDCG@10 {ndcg:+.4f}  hit@1 {hit:+.4f}", flush=True)


def compare(folders: list[Path], limit: int, others: Peers) -> None:
    table: peers.Table = {}
    for folder in folders:
        catalog = lines(folder / "catalog.jsonl")
        asked = queries_of(folder, limit)
        scores = {peers.OURS: evaluate(folder, limit, shown=True)[NDCG]}
        for name, rank in others.fitted(catalog, lines(folder / "servers.jsonl")).items():
            start = time.process_time()
            rows = [measures(*answer(rank(query["query"]), catalog, query)) for query in asked]
            spent = (time.process_time() - start) / len(asked) * 1000
            means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
            print(f"  {name:24s} {figures(means)} {spent:7.2f}", flush=True)
            scores[name] = means[NDCG]
        table[folder.name] = scores
    peers.show(table, others.names)


def answer(
    places: list[int], catalog: list[dict], query: dict
) -> tuple[list[tuple[str, str]], set[tuple[str, str]]]:
    """What was found, and what is right."""
    found = [(catalog[place]["server"], catalog[place]["name"]) for place in places]
    return found[: peers.DEPTH], {tuple(pair) for pair in query["relevant"]}


def turn_off(signal: str) -> list[tuple[object, str, object]]:
    """Turn a signal off, and tell what was there."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in SIGNALS[signal]]
    for owner, name, value in SIGNALS[signal]:
        setattr(owner, name, value)
    return before


def embedding_of(model: str, kept: Path) -> Embedding:
    from embedding import Embedding  # noqa: PLC0415 - needs libraries that words do without

    return Embedding(model, kept)


def macro(
    folders: list[Path],
    limit: int,
    *,
    shown: bool = False,
    embedding: Embedding | None = None,
) -> list[float]:
    rows = [evaluate(folder, limit, shown=shown, embedding=embedding) for folder in folders]
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def evaluate(
    folder: Path,
    limit: int,
    *,
    shown: bool,
    embedding: Embedding | None = None,
    book: ExampleBook = OWN_EXAMPLES,
) -> list[float]:
    catalog, descriptions = read_catalog(folder)
    queries = queries_of(folder, limit)
    start = time.process_time()
    searcher = build_searcher(catalog, SearchSettings(), descriptions=descriptions, book=book)
    built = time.process_time() - start
    vectors = embedding.of(catalog, book) if embedding else None
    rows = []
    start = time.process_time()
    for query in queries:
        text = query["query"]
        similarities = embedding.similarities(vectors, text) if embedding and vectors else None
        hits = searcher.search(
            searcher.analyze(text), limit=10, accepts=lambda _: True, similarities=similarities
        )
        found = [(hit.entry.tool.server, hit.entry.tool.name) for hit in hits]
        rows.append(measures(found, {tuple(pair) for pair in query["relevant"]}))
    spent = (time.process_time() - start) / len(queries) * 1000
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    if shown:
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


def queries_of(folder: Path, limit: int) -> list[dict]:
    queries = lines(folder / "queries.jsonl")
    return queries[:: max(1, len(queries) // limit) if limit else 1]


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
