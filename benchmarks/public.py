"""What search achieves on public sets, as one table for the page of figures.

    python benchmarks/public.py FOLDER [--embedder MODEL ...] [--check | --write]

FOLDER holds sets in the form that `relevance.py` reads, named as in `SETS`; those that it lacks are
left out. Nothing is downloaded. A row has the share of requests whose first hit is right, the share
of the right tools among the first five, and NDCG@10: by words, and with the word vectors and the
typical requests that ship. The requests of `GONE` are asked again with all servers of their right
tools taken away: how often the answer is `none`, and how often it is a match all the same.

`--write` puts the table into `docs/explanations/figures.md`; `--check` exits with 1 if the page has
another one. An embedder adds a column.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from relevance import COLUMNS, embedding_of, evaluate, queries_of, read_catalog

from discovery_engine.catalog import Catalog
from discovery_engine.config.settings import SearchSettings
from discovery_engine.search.examples.book import OWN_EXAMPLES, ExampleBook
from discovery_engine.search.searcher import build_searcher
from discovery_engine.view.search_answers import Decision, QueryRunner

PAGE = Path(__file__).parents[1] / "docs" / "explanations" / "figures.md"
BEGIN, END = "<!-- benchmarks/public.py -->\n", "<!-- end -->\n"
SETS = {
    "livemcp": "LiveMCPBench, tasks",
    "azure": "Azure MCP, end-to-end prompts",
    "metatool": "MetaTool",
    "apibank": "ToolRet, API-Bank",
    "apigen": "ToolRet, APIGen",
    "gorilla": "ToolRet, Gorilla",
    "toolink": "ToolRet, ToolLink",
    "toolret_code": "ToolRet, code",
    "mcpproxy": "mcpproxy, golden set",
}
GONE = "livemcp"
SHOWN = [COLUMNS.index(name) for name in ("hit@1", "R@5", "NDCG@10")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--embedder", help="a model's folder, or minilm:FOLDER of its weights")
    parser.add_argument("--vectors", type=Path, default=Path("vectors"), help="where they are kept")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--check", action="store_true", help="compare with the page")
    chosen.add_argument("--write", action="store_true", help="put the table into the page")
    options = parser.parse_args()
    folders = [options.folder / name for name in SETS]
    folders = [folder for folder in folders if (folder / "queries.jsonl").exists()]
    if not folders:
        parser.error(f"{options.folder} has none of the sets {', '.join(SETS)}")
    ways = [
        ("by words", None, OWN_EXAMPLES),
        ("with shipped requests and word vectors", "static", ExampleBook(is_shipped=True)),
    ]
    if options.embedder:
        ways.append(("with the sentence model", options.embedder, ExampleBook(is_shipped=True)))
    heads = ["right first · R@5 · NDCG@10", "tools", "requests", *(title for title, _, _ in ways)]
    table = [heads, ["---", "--:", "--:", *("--:" for _ in ways)]]
    embeddings = [model and embedding_of(model, options.vectors) for _, model, _ in ways]
    for folder in folders:
        catalog, _ = read_catalog(folder)
        figures = [
            evaluate(folder, 0, shown=False, embedding=embedding or None, book=book)
            for embedding, (_, _, book) in zip(embeddings, ways, strict=True)
        ]
        cells = [" · ".join(f"{row[at]:.3f}" for at in SHOWN) for row in figures]
        count = f"{len(queries_of(folder, 0))}"
        table.append([SETS[folder.name], f"{len(catalog):,}", count, *cells])
        if folder.name == GONE:
            cells = [gone(folder, book) if not model else "" for _, model, book in ways]
            table.append(["… their servers taken away: `none` · `match`", "", count, *cells])
    text = "".join(f"| {' | '.join(row)} |\n" for row in table)
    print(text)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    if options.write:
        PAGE.write_text(f"{before}{BEGIN}{text}{END}{after}", encoding="utf-8")
    elif options.check and shown != text:
        print(f"{PAGE.name} has other figures", file=sys.stderr)
        return 1
    return 0


def gone(folder: Path, book: ExampleBook) -> str:
    """The shares of tasks that are `none` and `match` without the servers of their right tools."""
    catalog, descriptions = read_catalog(folder)
    settings = SearchSettings()
    decisions: Counter[Decision] = Counter()
    queries = queries_of(folder, 0)
    for query in queries:
        servers = {server for server, _ in query["relevant"]}
        left = Catalog.of(p for p in catalog.parts.values() if p.server not in servers)
        searcher = build_searcher(left, settings, descriptions=descriptions, book=book)
        runner = QueryRunner(
            searcher.analyze(query["query"]),
            searcher,
            None,
            limit=settings.limit,
            least=settings.min_confidence,
            usage={},
        )
        decisions[runner.answer(lambda _: True).decision] += 1
    shares = (decisions[one] / len(queries) for one in (Decision.NONE, Decision.MATCH))
    return " · ".join(f"{share:.3f}" for share in shares)


if __name__ == "__main__":
    sys.exit(main())
