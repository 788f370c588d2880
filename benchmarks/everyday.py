"""How everyday requests are answered: whether the right tool comes first, and what is said of it.

    python benchmarks/everyday.py [--as-shipped | --examples] [--rewritten] [--misses N]
    python benchmarks/everyday.py --embedder MODEL --vectors FOLDER
    python benchmarks/everyday.py --all [--kept-aside] [--embedder MODEL --vectors FOLDER]
    python benchmarks/everyday.py --columns [FOLDER ...] [--embedder MODEL --vectors FOLDER]

The requests and the tool lists of popular public servers are in `benchmarks/everyday`, whose README
says how they were written. Without options the development set is asked; what is kept aside is for
a figure at the end, and never for looking at: `--misses` does not show it. With `--as-shipped` the
tools have the typical requests that ship with the program, where their servers are recognised, as
for everyone; with `--examples` all have those of that folder, as `examples` of `overrides`. `--all`
prints the tables of all three ways, by words alone and with the embedder, if there is one.

With `--rewritten` 150 requests are asked as an agent puts them that follows the description of
`search_tools`, operation, object and product, without arguments (`rewritten.jsonl`, written without
sight of the labels), after the same ones in their own words. `--all` does so, too.

Of requests that some tool serves: the share whose first tool is right, that have a right one among
the first five, and among those that are sent (as a match or as unsure, after the cut of the tail),
the share that is answered `none` though a right one is among the first five, the share of matches
whose first is right, and the shares that are answered `match`, `unsure` and `none`. Of requests
that none serves: these shares. A match is a false one; *near* requests name a product that is
connected, but lacks that action. ECE is the expected calibration error of the confidence that one
of the first five is right, in ten bins of equal width. Tokens are those of the answer as agents get
it.

`--columns` is one table of what decides: a row for each set, for people and for agents, in English
and in other languages, and by what is shipped: `shipped` with the requests that ship, `without`
without any, `beside` for servers without them beside others that have them (half of the servers of
the development set each, one half after the other; of another set its servers beside those of the
development set). FOLDER holds another set: `catalog.jsonl.gz` and `servers.jsonl` as here, and
`requests*.jsonl`, whose `agent` is the request as an agent asks it.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine.agent.budget import Budget, estimated_tokens
from discovery_engine.agent.search_rendering import search_result
from discovery_engine.agent.tool_text import Detail
from discovery_engine.catalog import Catalog, Entry, ServerPart
from discovery_engine.config.settings import SearchSettings
from discovery_engine.rules.rule import Verdict
from discovery_engine.search.examples.book import ExampleBook, Examples
from discovery_engine.search.searcher import Searcher, build_searcher
from discovery_engine.search.vectors import Similarities
from discovery_engine.tools.model import AppliedOverride, ServerName, Tool, ToolKey
from discovery_engine.view.search_answers import Decision, QueryRunner, SearchAnswer

if TYPE_CHECKING:
    from embedding import Embedding

FOLDER = Path(__file__).parent / "everyday"
FIRST = 5
BINS = 10
COMMON = "  ".join([*(f"{one.value:>6s}" for one in Decision), "  ECE", "tokens"])


class Outcome(Struct, frozen=True):
    """How one request was answered."""

    request: dict[str, Any]
    found: tuple[ToolKey, ...]
    """The first five, whatever was decided."""
    sent: tuple[ToolKey, ...]
    decision: Decision
    confidence: float
    tokens: int

    @property
    def right(self) -> set[ToolKey]:
        return {ToolKey(server, tool) for server, tool in self.request["relevant"]}

    @property
    def is_first_right(self) -> bool:
        return bool(self.found) and self.found[0] in self.right

    @property
    def is_found(self) -> bool:
        return not self.right.isdisjoint(self.found)

    @property
    def is_sent(self) -> bool:
        return not self.right.isdisjoint(self.sent)


class Way(Struct, frozen=True):
    """How tools are found."""

    title: str
    with_examples: bool = False
    is_shipped: bool = False
    by_vectors: bool = False


WORDS = Way("by words, without examples")
SHIPPED = Way("by words, with the requests that ship with the program", is_shipped=True)
EXAMPLES = Way("by words, with examples for every tool", with_examples=True)


class PartialBook(ExampleBook, frozen=True):
    """The shipped requests, but for those of some servers."""

    lacking: frozenset[str] = frozenset()

    def of_tools(self, tools: Sequence[Tool]) -> dict[str, Examples]:
        return {} if tools[0].server in self.lacking else ExampleBook.of_tools(self, tools)


class Asked:
    """A catalog that is searched by words, and by vectors if there is an embedding."""

    def __init__(
        self,
        catalog: Catalog,
        descriptions: dict[ServerName, str],
        book: ExampleBook,
        embedding: Embedding | None = None,
    ) -> None:
        self.searcher = build_searcher(
            catalog, SearchSettings(), descriptions=descriptions, book=book
        )
        self._embedding = embedding
        self.vectors = embedding.of(catalog, book) if embedding else None

    def ask(self, request: dict[str, Any]) -> Outcome:
        similarities = None
        if self._embedding and self.vectors:
            similarities = self._embedding.similarities(self.vectors, request["query"])
        return ask(self.searcher, request, similarities)

    def show(self, requests: Sequence[dict[str, Any]], title: str) -> list[Outcome]:
        """Ask requests and print the tables."""
        outcomes = [self.ask(one) for one in requests]
        print(f"\n== {title}, {len(requests)} requests")
        show_served([one for one in outcomes if one.right])
        show_unserved([one for one in outcomes if not one.right])
        return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kept-aside", action="store_true", help="the set kept aside, once")
    parser.add_argument("--as-shipped", action="store_true", help="with the shipped requests")
    parser.add_argument("--examples", action="store_true", help="give tools typical requests")
    parser.add_argument("--all", action="store_true", help="each of these ways, one after another")
    parser.add_argument("--rewritten", action="store_true", help="as an agent puts them")
    parser.add_argument("--embedder", help="a model's folder, or minilm:FOLDER of its weights")
    parser.add_argument("--vectors", type=Path, default=Path("vectors"), help="where they are kept")
    parser.add_argument("--columns", nargs="*", type=Path, metavar="FOLDER", help="one table")
    parser.add_argument("--misses", type=int, default=0, help="show N requests that failed")
    options = parser.parse_args()
    if options.columns is not None:
        embedding = embedding_of(options.embedder, options.vectors) if options.embedder else None
        show_columns(options.columns, embedding)
        return
    name = "kept_aside" if options.kept_aside else "development"
    requests = lines(FOLDER / f"{name}.jsonl")
    embedding = embedding_of(options.embedder, options.vectors) if options.embedder else None
    for way in ways_of(options):
        catalog, descriptions = read_catalog(name, with_examples=way.with_examples)
        title = f"{name}, {way.title}: {len(catalog)} tools of {len(descriptions)} servers"
        book = ExampleBook(is_shipped=way.is_shipped)
        asked = Asked(catalog, descriptions, book, embedding if way.by_vectors else None)
        outcomes = asked.show(requests, title)
        if not options.kept_aside:
            show_misses(outcomes, options.misses)
            if options.rewritten or options.all:
                before, after = rewritten(requests)
                asked.show(before, f"{title}, before rewriting")
                asked.show(after, f"{title}, rewritten")
    if embedding:
        print(f"\nof {embedding.asked} requests the embedder was late for {embedding.late}")


HEAD = (
    f"{'':37s}    n  right first  in sent  first of a match  told none"
    "     near match     far match  tokens"
)


class Column(Struct, frozen=True):
    """A set by what is shipped for its servers."""

    name: str
    kind: str
    """`shipped`, `without` or `beside`."""
    searched: Sequence[tuple[Catalog, dict[ServerName, str], frozenset[str]]]
    """Catalogs, the descriptions of their servers, and which lack the requests that ship."""
    requests: dict[str, list[dict[str, Any]]]
    """By who asks: people, agents."""

    def has(self, request: dict[str, Any], lacking: frozenset[str]) -> bool:
        """Return whether a request is about servers that lack shipped requests, or all do.

        `beside` of a request has the tools of known servers that would serve it, too.
        """
        known = request.get("beside", ()) if self.kind == "beside" else ()
        right = [*request["relevant"], *known]
        return self.kind == "shipped" or all(server in lacking for server, _ in right)


def all_columns(folders: Iterable[Path] = ()) -> Iterator[Column]:
    people = lines(FOLDER / "development.jsonl")
    requests = {"people": people, "agents": rewritten(people)[1]}
    catalog, descriptions = read_catalog("development", with_examples=False)
    servers = sorted(catalog.parts)
    halves = [frozenset(servers[half::2]) for half in (0, 1)]
    for kind, lacking in (
        ("shipped", [frozenset()]),
        ("without", [{*servers}]),
        ("beside", halves),
    ):
        searched = [(catalog, descriptions, some) for some in lacking]
        yield Column("development", kind, searched, requests)
    for folder in folders:
        own, own_descriptions = read_catalog("", with_examples=False, folder=folder)
        files = sorted(folder.glob("requests*.jsonl"))
        people = [request for file in files for request in lines(file)]
        agents = [one | {"query": one["agent"]} for one in people if one.get("agent")]
        both = Catalog.of((*catalog.parts.values(), *own.parts.values()))
        for kind, beside in (("without", own), ("beside", both)):
            lacking = frozenset(own.parts)
            searched = [(beside, descriptions | own_descriptions, lacking)]
            yield Column(folder.name, kind, searched, {"people": people, "agents": agents})


def show_columns(folders: Sequence[Path], embedding: Embedding | None) -> None:
    """A row for each column and who asks, and for English and the other languages."""
    print(HEAD)
    for column in all_columns(folders):
        asked = [
            (Asked(catalog, descriptions, PartialBook(lacking=lacking), embedding), lacking)
            for catalog, descriptions, lacking in column.searched
        ]
        for who, requests in column.requests.items():
            outcomes = [
                asker.ask(one)
                for asker, lacking in asked
                for one in requests
                if column.has(one, lacking)
            ]
            english = [one for one in outcomes if one.request["language"] == "en"]
            others = [one for one in outcomes if one.request["language"] != "en"]
            for language, some in (("all", outcomes), ("English", english), ("other", others)):
                if some:
                    row = f"{column.name:12s}{column.kind:8s} {who:7s}{language:8s}"
                    print(f"{row} {column_figures(some)}", flush=True)


def column_figures(outcomes: Sequence[Outcome]) -> str:
    served = [one for one in outcomes if one.right]
    matches = [one for one in served if one.decision is Decision.MATCH]
    found = [one for one in served if one.is_found]
    unserved = ""
    for kind in ("near", "far"):
        some = [one for one in outcomes if one.request["unserved"] == kind]
        unserved += f"  {len(some):7d}  {share(o.decision is Decision.MATCH for o in some):5.3f}"
    return (
        f"{len(served):11d}  {share(o.is_first_right for o in served):11.3f}"
        f"  {share(o.is_sent for o in served):7.3f}"
        f"  {share(o.is_first_right for o in matches):9.3f} ({len(matches):3d})"
        f"  {share(not o.sent for o in found):9.3f}{unserved}"
        f"  {sum(o.tokens for o in outcomes) / len(outcomes):6.0f}"
    )


def ways_of(options: argparse.Namespace) -> list[Way]:
    """By words and by vectors for `--all`; otherwise by vectors if there is an embedder."""
    if options.all:
        ways = [WORDS, SHIPPED, EXAMPLES]
        return ways + [by_vectors(way) for way in ways if options.embedder]
    way = SHIPPED if options.as_shipped else EXAMPLES if options.examples else WORDS
    return [by_vectors(way) if options.embedder else way]


def by_vectors(way: Way) -> Way:
    return replace(way, title=way.title.replace("words", "words and vectors"), by_vectors=True)


def rewritten(requests: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], ...]:
    """Those that were rewritten, before and after."""
    after = {one["id"]: one["query"] for one in lines(FOLDER / "rewritten.jsonl")}
    before = [one for one in requests if one["id"] in after]
    return before, [one | {"query": after[one["id"]]} for one in before]


def embedding_of(model: str, kept: Path) -> Embedding:
    from embedding import Embedding  # noqa: PLC0415 - needs packages that words do without

    return Embedding(model, kept)


def ask(searcher: Searcher, request: dict[str, Any], similarities: Similarities | None) -> Outcome:
    settings = SearchSettings()
    query = searcher.analyze(request["query"])
    runner = QueryRunner(
        query, searcher, similarities, limit=settings.limit, least=settings.min_confidence, usage={}
    )
    answer = runner.answer(lambda _: True)
    found = searcher.search(query, limit=FIRST, accepts=lambda _: True, similarities=similarities)
    return Outcome(
        request,
        tuple(hit.entry.key for hit in found),
        tuple(hit.entry.key for hit in answer.hits),
        answer.decision,
        answer.confidence,
        tokens_of(answer),
    )


def tokens_of(answer: SearchAnswer) -> int:
    result = search_result(answer, Budget(SearchSettings().max_tokens), Detail.SIGNATURE)
    return sum(estimated_tokens(part["text"]) for part in result["content"])


def show_served(outcomes: Sequence[Outcome]) -> None:
    groups = defaultdict(list, {"all": list(outcomes)})
    for one in outcomes:
        groups[one.request["kind"]].append(one)
    head = "right first  in five  in sent  found, told none  first of a match"
    print(f"\n{'served':<13}    n  {head}  {COMMON}")
    for kind, some in groups.items():
        matches = [one for one in some if one.decision is Decision.MATCH]
        found = [one for one in some if one.is_found]
        print(
            f"{kind:<13} {len(some):4d}  {share(o.is_first_right for o in some):11.3f}"
            f"  {share(o.is_found for o in some):7.3f}  {share(o.is_sent for o in some):7.3f}"
            f"  {share(not o.sent for o in found):16.3f}"
            f"  {share(o.is_first_right for o in matches):16.3f}"
            f"  {common_figures(some)}"
        )


def show_unserved(outcomes: Sequence[Outcome]) -> None:
    print(f"\n{'unserved':<13}    n  {COMMON}")
    for kind in ("near", "far"):
        if some := [one for one in outcomes if one.request["unserved"] == kind]:
            print(f"{kind:<13} {len(some):4d}  {common_figures(some)}")


def common_figures(outcomes: Sequence[Outcome]) -> str:
    """The columns `COMMON`."""
    decisions = "  ".join(f"{share(o.decision is one for o in outcomes):6.3f}" for one in Decision)
    tokens = sum(o.tokens for o in outcomes) / len(outcomes)
    return f"{decisions}  {calibration_error(outcomes):5.3f}  {tokens:6.0f}"


def show_misses(outcomes: Iterable[Outcome], most: int) -> None:
    missed = [one for one in outcomes if one.right and not (one.is_first_right and one.is_sent)]
    for one in missed[:: max(1, len(missed) // most) if most else 1][:most]:
        print(f"\n{one.request['id']} {one.request['query']!r}, confidence {one.confidence:.2f}")
        print(f"    right: {named(one.right)}")
        print(f"    found: {named(one.found)}")


def calibration_error(outcomes: Sequence[Outcome]) -> float:
    bins: defaultdict[int, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        bins[min(int(one.confidence * BINS), BINS - 1)].append(one)
    return sum(
        abs(sum(one.confidence - one.is_found for one in some)) for some in bins.values()
    ) / len(outcomes)


def read_catalog(
    name: str, *, with_examples: bool, folder: Path = FOLDER
) -> tuple[Catalog, dict[ServerName, str]]:
    """The tools of the servers of a set, and the servers' descriptions; without a name of all."""
    servers = {
        one["server"]: one
        for one in lines(folder / "servers.jsonl")
        if not name or name in one["sets"]
    }
    examples = {
        (one["server"], one["name"]): tuple(one["requests"])
        for one in packed_lines(FOLDER / "typical_requests.jsonl.gz")
        if with_examples
    }
    by_server: defaultdict[str, dict[str, Entry]] = defaultdict(dict)
    for definition in packed_lines(folder / "catalog.jsonl.gz"):
        server = definition.pop("server")
        if server in servers:
            tool = Tool.from_mcp(server, definition)
            given = AppliedOverride(examples=examples.get((server, tool.name), ()))
            by_server[server][tool.name] = Entry(replace(tool, overridden=given), Verdict())
    parts = (
        ServerPart(ServerName(server), tuple(entries[tool] for tool in sorted(entries)))
        for server, entries in by_server.items()
    )
    return Catalog.of(parts), {
        ServerName(name): one["description"] for name, one in servers.items()
    }


def packed_lines(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as unpacked:
        yield from map(json.loads, unpacked)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.open(encoding="utf-8")]


def named(tools: Iterable[ToolKey]) -> str:
    return ", ".join(map(str, tools))


def share(values: Iterable[bool]) -> float:
    counted = list(values)
    return sum(counted) / len(counted) if counted else 0.0


if __name__ == "__main__":
    main()
