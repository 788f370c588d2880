"""What an agent reads until it can call the right tool, and how often it never can; no model runs.

    python benchmarks/agents.py [FOLDER] [--sets a,b] [--limit 40] [--without-peers]

Asked are the development requests of `benchmarks/everyday` and, with a FOLDER as for
`relevance.py`, the queries of each set in it, evenly taken; those that no tool serves are left out.

The agent is simulated, the same for all. It searches with the words of the request. It recognises a
right tool when it is shown one, and then takes the next step that its tools document for a tool
whose schema it has not read (`get_tool_details`). If none is shown, it searches once more: with a
larger `limit` where the search has one, again where a repeated search shows the next tools (but not
where it is told not to), else with the five longest words of the request. After that it gives up:
*never*.

Tokens are estimated alike for all (`agent/budget.py`), each text once: the definitions at
the first turn, its calls, their answers, and the definitions that they add. They are counted until
a right tool's whole schema is read, or until it gives up. A model reads the definitions again at
every turn, at the price of its prompt cache.

All tools up front need no call; but more than 128 tools or 200,000 tokens fit no common model, and
how well a model picks among them is not measured here. Peers run with their own code
(`agent_peers.py`), in the environment that `scripts/frameworks.py` makes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import everyday
from relevance import lines

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from discovery_engine import open_engine  # noqa: E402
from discovery_engine._util.json import JSONObject  # noqa: E402
from discovery_engine.agent.budget import estimated_tokens  # noqa: E402
from discovery_engine.agent.toolset import AgentTool, Toolset  # noqa: E402
from discovery_engine.config.settings import (  # noqa: E402
    ServerSettings,
    Settings,
    StdioTransport,
)
from discovery_engine.engine import Engine  # noqa: E402
from discovery_engine.engine.ingestion.server_parts import ListingResult  # noqa: E402
from discovery_engine.tools.model import ServerName, ToolKey, ToolName  # noqa: E402
from discovery_engine.upstream.connection import connection_fingerprint  # noqa: E402
from discovery_engine.upstream.listing import Listing, split_usable  # noqa: E402
from scripts.frameworks import FrameworkMissingError, python_with  # noqa: E402

MORE = {"limit": 30, "maxTokens": 800}
"""Of the second search, where the search has them."""
LONGEST_WORDS = 5
MOST_TOOLS, MOST_TOKENS = 128, 200_000


class Request(NamedTuple):
    text: str
    right: frozenset[ToolKey]


class Tools(NamedTuple):
    """A set: its tools as their servers list them, and what is asked of them."""

    name: str
    definitions: Mapping[ToolKey, JSONObject]
    descriptions: Mapping[str, str]
    requests: Sequence[Request]


class Journey(NamedTuple):
    tokens: int
    calls: int
    arrived: bool


class Row(NamedTuple):
    first_turn: float
    journeys: Sequence[Journey]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sets", default="", help="names, joined by commas; all if left out")
    parser.add_argument("--limit", type=int, default=40, help="requests of a set; 0: all")
    parser.add_argument("--without-peers", action="store_true", help="only what is ours")
    options = parser.parse_args()
    chosen = [name for name in options.sets.split(",") if name]
    folders = sorted(options.folder.glob("*/queries.jsonl")) if options.folder else []
    names = ["everyday", *(file.parent.name for file in folders)]
    table: dict[str, dict[str, Row]] = {}
    for name, file in zip(names, [None, *folders], strict=True):
        if chosen and name not in chosen:
            continue
        tools = set_of(file.parent) if file else everyday_requests()
        tools = tools._replace(requests=evenly(tools.requests, options.limit))
        table[name] = anyio.run(measured, tools, not options.without_peers)
        show(tools, table[name])
    if len(table) > 1:
        show_means(table)


def everyday_requests() -> Tools:
    served = {one["server"]: one for one in lines(everyday.FOLDER / "servers.jsonl")}
    sets = {name: one for name, one in served.items() if "development" in one["sets"]}
    definitions = {
        ToolKey(ServerName(tool.pop("server")), ToolName(tool["name"])): tool
        for tool in everyday.packed_lines(everyday.FOLDER / "catalog.jsonl.gz")
        if tool["server"] in sets
    }
    asked = lines(everyday.FOLDER / "development.jsonl")
    descriptions = {name: one["description"] for name, one in sets.items()}
    return Tools("everyday", definitions, descriptions, requests_of(asked))


def set_of(folder: Path) -> Tools:
    definitions = {}
    for line in lines(folder / "catalog.jsonl"):
        key = ToolKey(ServerName(line["server"]), ToolName(line["name"]))
        schema = line["input_schema"] or {"type": "object", "properties": {}}
        about = line["description"]
        definitions[key] = {"name": key.tool, "description": about, "inputSchema": schema}
    described = lines(folder / "servers.jsonl")
    descriptions = {one["server"]: one.get("description") or "" for one in described}
    return Tools(
        folder.name, definitions, descriptions, requests_of(lines(folder / "queries.jsonl"))
    )


def requests_of(asked: Iterable[dict[str, Any]]) -> list[Request]:
    found = []
    for one in asked:
        right = frozenset(ToolKey(ServerName(s), ToolName(t)) for s, t in one["relevant"])
        if right:
            found.append(Request(one["query"], right))
    return found


def evenly(requests: Sequence[Request], most: int) -> list[Request]:
    step = max(1, len(requests) // most) if most else 1
    return list(islice(requests[::step], most or None))


async def measured(tools: Tools, with_peers: bool) -> dict[str, Row]:  # noqa: FBT001 - for anyio.run
    rows = {"all tools up front": up_front(tools)}
    async with engine_of(tools) as engine:
        rows["discovery, meta"] = await each(tools, engine, meta)
        rows["discovery, select"] = await each(tools, engine, select)
    if with_peers:
        rows.update(peers(tools))
    return rows


@asynccontextmanager
async def engine_of(tools: Tools) -> AsyncIterator[Engine]:
    """An engine that has listed the tools; their servers are never started."""
    by_server: dict[ServerName, list[JSONObject]] = {}
    for key, definition in tools.definitions.items():
        by_server.setdefault(key.server, []).append(definition)
    nowhere = StdioTransport("/bin/false")
    servers = [
        ServerSettings(name, nowhere, description=tools.descriptions.get(name, ""))
        for name in by_server
    ]
    with tempfile.TemporaryDirectory() as data:
        async with open_engine(Settings(servers=tuple(servers)), data_dir=data) as engine:
            for server in servers:
                usable, dropped = await split_usable(
                    by_server[server.name], find_fault=lambda _: None
                )
                how = connection_fingerprint(server)
                listing = Listing(usable, dropped, connection=how)
                await engine._core.state.apply_listing(ListingResult(server, listing, 1.0))  # noqa: SLF001
            yield engine


def up_front(tools: Tools) -> Row:
    tokens = sum(
        tokens_of(definition_text(one["name"], one.get("description"), one["inputSchema"]))
        for one in tools.definitions.values()
    )
    return Row(tokens, [Journey(tokens, 0, arrived=True) for _ in tools.requests])


async def each(tools: Tools, engine: Engine, travel: Any) -> Row:
    first, journeys = [], []
    for request in tools.requests:
        surface, journey = await travel(engine, request)
        first.append(surface)
        journeys.append(journey)
    return Row(statistics.fmean(first), journeys)


async def meta(engine: Engine, request: Request) -> tuple[int, Journey]:
    """Search; then the details of the right tool, once it is named."""
    toolset = engine.toolset(mode="meta")
    surface = tokens_of(*map(definition, toolset.tools()))
    tokens = surface
    for calls, more in enumerate(({}, MORE), start=1):
        price, answer = await called(toolset, "search_tools", {"query": request.text, **more})
        tokens += price
        if shown := [key for key in sorted(request.right) if names(answer, key)]:
            key = shown[0]
            arguments = {"server": key.server, "tool": key.tool}
            price, _ = await called(toolset, "get_tool_details", arguments)
            return surface, Journey(tokens + price, calls + 1, arrived=True)
    return surface, Journey(tokens, calls, arrived=False)


async def select(engine: Engine, request: Request) -> tuple[int, Journey]:
    """The tools that fit are bound before the first turn; a search binds more."""
    toolset = engine.toolset(mode="select")
    await toolset.select(request.text)
    bound = toolset.tools()
    tokens = surface = tokens_of(*map(definition, bound))
    if has_right(bound, request):
        return surface, Journey(tokens, 0, arrived=True)
    arguments = {"query": request.text, "limit": MORE["limit"]}
    price, _ = await called(toolset, "search_tools", arguments)
    known = {tool.name for tool in bound}
    added = [tool for tool in toolset.tools() if tool.name not in known]
    tokens += price + tokens_of(*map(definition, added))
    return surface, Journey(tokens, 1, arrived=has_right(added, request))


def has_right(tools: Iterable[AgentTool], request: Request) -> bool:
    return any(tool.origin in request.right for tool in tools)


async def called(toolset: Toolset, name: str, arguments: JSONObject) -> tuple[int, str]:
    result = await toolset.named(name).call(arguments)
    answer = "\n".join(part.get("text", "") for part in result["content"])
    return tokens_of(call_text(name, arguments), answer), answer


def names(answer: str, key: ToolKey) -> bool:
    """Whether the answer names a tool in full, and not only a longer name that begins so."""
    _, found, rest = answer.partition(key.label)
    return bool(found) and not (rest[:1].isalnum() or rest[:1] in {"_", "-"})


def peers(tools: Tools) -> dict[str, Row]:
    """Theirs: all of a set in one process, which has nothing of ours."""
    try:
        python = python_with("clients")
    except FrameworkMissingError as error:
        print(f"left out: the peers ({error})", file=sys.stderr)
        return {}
    keys = {f"{key.server}_{key.tool}": key for key in tools.definitions}
    asked = {
        "tools": [
            {
                "name": name,
                "description": tools.definitions[key].get("description") or "",
                "parameters": tools.definitions[key]["inputSchema"],
            }
            for name, key in keys.items()
        ],
        "requests": [[one.text, longest_words(one.text)] for one in tools.requests],
    }
    program = Path(__file__).with_name("agent_peers.py")
    done = subprocess.run(
        [python, program], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(f"left out: the peers ({done.stderr.strip().splitlines()[-1]})", file=sys.stderr)
        return {}
    return {peer: peer_row(tools, keys, read) for peer, read in json.loads(done.stdout).items()}


def peer_row(tools: Tools, keys: Mapping[str, ToolKey], read: JSONObject) -> Row:
    surface = tokens_of(*(compact(one) for one in read["surface"]))
    journeys = []
    for request, searches in zip(tools.requests, read["requests"], strict=True):
        tokens, journey = surface, Journey(surface, 0, arrived=False)
        for calls, one in enumerate(searches, start=1):
            tokens += tokens_of(call_text("search_tools", one["arguments"]), one["answer"])
            tokens += tokens_of(*map(compact, one["bound"]))
            arrived = any(keys[name] in request.right for name in one["ready"])
            journey = Journey(tokens, calls, arrived)
            if arrived:
                break
        journeys.append(journey)
    return Row(surface, journeys)


def longest_words(text: str) -> str:
    """Some of them, in the order of the text."""
    words = text.split()
    longest = sorted(range(len(words)), key=lambda at: -len(words[at]))[:LONGEST_WORDS]
    return " ".join(words[at] for at in sorted(longest))


def definition(tool: AgentTool) -> str:
    return definition_text(tool.name, tool.description, tool.parameters)


def definition_text(name: str, description: str | None, parameters: JSONObject) -> str:
    return compact({"name": name, "description": description or "", "parameters": parameters})


def call_text(name: str, arguments: JSONObject) -> str:
    return compact({"name": name, "arguments": arguments})


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def tokens_of(*texts: str) -> int:
    return sum(map(estimated_tokens, texts))


def show(tools: Tools, rows: Mapping[str, Row]) -> None:
    servers = len({key.server for key in tools.definitions})
    print(f"\n{tools.name}: {len(tools.definitions):,} tools, {servers:,} servers, ", end="")
    print(f"{len(tools.requests)} requests")
    print(HEAD)
    for name, row in rows.items():
        print(f"{name:38} {figures(measures(row))}{remark(name, tools, row)}", flush=True)


HEAD = f"{'':38} {'first turn':>10} {'tokens':>9} {'median':>9} {'calls':>6} {'never':>6}"


def remark(name: str, tools: Tools, row: Row) -> str:
    if name != "all tools up front":
        return ""
    fits = len(tools.definitions) <= MOST_TOOLS and row.first_turn <= MOST_TOKENS
    return "" if fits else "   more than a model takes"


def measures(row: Row) -> tuple[float, ...]:
    """Tokens at the first turn; tokens, mean and median; calls of those that arrive; the rest."""
    tokens = [one.tokens for one in row.journeys]
    calls = [one.calls for one in row.journeys if one.arrived]
    return (
        row.first_turn,
        statistics.fmean(tokens),
        statistics.median(tokens),
        statistics.fmean(calls) if calls else 0.0,
        1 - len(calls) / len(row.journeys),
    )


def figures(values: Sequence[float]) -> str:
    first, mean, median, calls, never = values
    return f"{first:10,.0f} {mean:9,.0f} {median:9,.0f} {calls:6.2f} {never:6.1%}"


def show_means(table: Mapping[str, Mapping[str, Row]]) -> None:
    """Each set weighs the same."""
    print(f"\nmean of {len(table)} sets\n{HEAD}")
    for name in next(iter(table.values())):
        rows = [measures(rows[name]) for rows in table.values() if name in rows]
        if len(rows) == len(table):
            print(f"{name:38} {figures([statistics.fmean(c) for c in zip(*rows, strict=True)])}")


if __name__ == "__main__":
    main()
