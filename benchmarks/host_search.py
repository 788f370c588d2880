"""How hosts that search tools themselves find them, with and without our search hints.

    python benchmarks/host_search.py [--kept-aside | --set FOLDER | --unseen FOLDER [--agents]]

The English requests of `benchmarks/everyday` that some tool serves, as people put them and, of the
development set, as an agent puts them. `keywords` scores as the ToolSearch of Claude Code does: a
word of the name counts 12, a part of one 6, a whole word of the hint 4, of the description 2.
`bm25` ranks name, description and parameters. `hints` are the typical requests that ship with the
program, as `server.mode: auto` sends them; for `bm25`, which no host feeds with hints by now, they
stand behind the description. `regex` ranks by how many of the words occur in name, description and
hint, as a model that joins its words with `|` would have it; hosts do not rank such matches, and
list them as they come, so it is a bound. The FOLDER of `--set` has `catalog.jsonl` and
`queries.jsonl` as for `relevance.py`, that of `--unseen` what `everyday.py --columns` reads;
`--agents` asks those requests as an agent puts them. `words` are the hints of tools without typical
requests, for all tools. Printed: the share with a right tool among the first five, in percent.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from discovery_engine.agent.exposed_tools import search_hint, word_hint
from discovery_engine.search.examples.book import ExampleBook
from discovery_engine.tools.model import Tool, ToolKey
from discovery_server.surfaces import HOSTS

FOLDER = Path(__file__).parent / "everyday"
Ranked = Callable[[str], list[int]]


def _lines(name: str | Path) -> Iterator[dict[str, Any]]:
    file = FOLDER / name
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return map(json.loads, text.splitlines())


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).replace("_", " ").lower())


class Document:
    def __init__(self, definition: dict[str, Any], hint: str) -> None:
        self.name = _words(f"{definition['server']} {definition['name']}")
        self.description = definition.get("description") or ""
        self.parameters = " ".join(definition["inputSchema"].get("properties", {}))
        self.hint = hint
        self._in_name = " ".join(self.name)
        self._in_hint = frozenset(_words(hint))
        self._in_description = frozenset(_words(self.description))

    def score(self, word: str) -> int:
        points = 12 if word in self.name else 6 if word in self._in_name else 0
        points += 4 * (word in self._in_hint)
        return points + 2 * (word in self._in_description)


def keywords(documents: list[Document]) -> Ranked:
    def ranked(query: str) -> list[int]:
        words = query.lower().split()
        scores = [sum(map(document.score, words)) for document in documents]
        return sorted(filter(scores.__getitem__, range(len(scores))), key=lambda n: -scores[n])

    return ranked


def bm25(documents: list[Document], k1: float = 1.2, b: float = 0.75) -> Ranked:
    texts = [[*d.name, *_words(f"{d.description} {d.parameters} {d.hint}")] for d in documents]
    mean = sum(map(len, texts)) / len(texts)
    postings: dict[str, dict[int, float]] = defaultdict(dict)
    for number, text in enumerate(texts):
        for word, count in Counter(text).items():
            length = k1 * (1 - b + b * len(text) / mean)
            postings[word][number] = count * (k1 + 1) / (count + length)

    def ranked(query: str) -> list[int]:
        scores: Counter[int] = Counter()
        for word in _words(query):
            found = postings.get(word, {})
            rarity = math.log(1 + (len(texts) - len(found) + 0.5) / (len(found) + 0.5))
            for number, share in found.items():
                scores[number] += rarity * share
        return [number for number, _ in scores.most_common()]

    return ranked


def regex(documents: list[Document]) -> Ranked:
    texts = [f"{' '.join(d.name)} {d.description} {d.hint}".lower() for d in documents]

    def ranked(query: str) -> list[int]:
        words = {word for word in _words(query) if len(word) > 3}
        counts = [sum(word in text for word in words) for text in texts]
        return sorted(filter(counts.__getitem__, range(len(counts))), key=lambda n: -counts[n])

    return ranked


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kept-aside", action="store_true")
    parser.add_argument("--set", type=Path, help="a folder with another catalog and its queries")
    parser.add_argument(
        "--unseen",
        type=lambda name: Path(name).absolute(),
        help="a folder of servers that nobody here knows",
    )
    parser.add_argument("--agents", action="store_true", help="as an agent puts the requests")
    options = parser.parse_args()
    if options.unseen:
        catalog = list(_lines(options.unseen / "catalog.jsonl.gz"))
        text = "agent" if options.agents else "query"
        requests = _lines(options.unseen / "requests.jsonl")
        asked = [
            {**row, "query": row[text]}
            for row in requests
            if row["relevant"] and row["language"] == "en" and row.get(text)
        ]
    elif options.set:
        catalog = [
            {**row, "inputSchema": row.pop("input_schema")}
            for row in _lines(options.set / "catalog.jsonl")
        ]
        asked = list(_lines(options.set / "queries.jsonl"))
    else:
        catalog = list(_lines("catalog.jsonl.gz"))
        requests = _lines("kept_aside.jsonl" if options.kept_aside else "development.jsonl")
        asked = [row for row in requests if row["relevant"] and row["language"] == "en"]
    by_server: dict[str, list[Tool]] = defaultdict(list)
    for row in catalog:
        definition = {name: row[name] for name in row if name != "server"}
        by_server[row["server"]].append(Tool.from_mcp(row["server"], definition))
    by_words: dict[ToolKey, str] = {}
    hints: dict[ToolKey, str] = {}
    for tools in by_server.values():
        examples = ExampleBook().of_tools(tools)
        by_words |= {tool.key: word_hint(tool) for tool in tools}
        hints |= {
            tool.key: search_hint(e.texts) for tool in tools if (e := examples.get(tool.name))
        }
    keys = [ToolKey(row["server"], row["name"]) for row in catalog]
    print(f"{len(hints)} of {len(catalog)} tools have typical requests; {len(asked)} requests")
    print("hosts: " + ", ".join(host.title for host in HOSTS.values()))
    for search in (keywords, bm25, regex):
        shares = []
        for used in ({}, by_words, by_words | hints):
            documents = [
                Document(row, used.get(key, "")) for row, key in zip(catalog, keys, strict=True)
            ]
            ranked = search(documents)
            right = 0
            for request in asked:
                relevant = {ToolKey(*pair) for pair in request["relevant"]}
                right += not relevant.isdisjoint(keys[n] for n in ranked(request["query"])[:5])
            shares.append(100 * right / len(asked))
        figures = (
            f"without {shares[0]:5.1f}   with words {shares[1]:5.1f}   with hints {shares[2]:5.1f}"
        )
        print(f"{search.__name__:10} {figures}")


if __name__ == "__main__":
    main()
