"""The texts to learn from: tools, and the requests that each of them serves."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from discovery_engine.engine.vector_cache import embedding_text
from discovery_engine.search.text.tokenizer import words
from discovery_engine.tools.model import Tool

_FIRST_SENTENCE = re.compile(r"(.{12,}?[.!?\n])(?:\s|$)", re.DOTALL)
_SHORTEST = 3  # words of a description that says something


class Example(NamedTuple):
    """A tool, and what may be typed for it."""

    server: str
    text: str
    requests: tuple[str, ...]


def requested(catalogs: Iterable[Path], requests: Iterable[Path]) -> list[Example]:
    """The tools that have requests, each with its text as the engine embeds it."""
    asked: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for line in lines(requests):
        more = line["requests"] if "requests" in line else [line["query"]]
        asked[line["server"], line["name"]] += more
    tools = _tools(catalogs)
    return [
        Example(key[0], embedding_text(tools[key]), tuple(dict.fromkeys(asked[key])))
        for key in sorted(asked.keys() & tools.keys())
    ]


def described(catalogs: Iterable[Path]) -> list[Example]:
    """The first sentence of each description as the request, name and parameters as the tool."""
    found: dict[str, Example] = {}
    for (server, _), tool in sorted(_tools(catalogs).items()):
        match = _FIRST_SENTENCE.match(tool.description)
        sentence = (match[1] if match else tool.description).strip()[:300]
        if len(words(sentence)) >= _SHORTEST:
            rest = tool.description[len(match[1]) :].strip()[:200] if match else ""
            text = embedding_text(_with_description(tool, rest if len(rest) % 2 else ""))
            found.setdefault(sentence.lower(), Example(server, text, (sentence,)))
    return list(found.values())


def tool_texts(catalogs: Iterable[Path]) -> dict[tuple[str, str], str]:
    """The texts of tools as the engine embeds them, by server and name."""
    return {key: embedding_text(tool) for key, tool in _tools(catalogs).items()}


def _with_description(tool: Tool, description: str) -> Tool:
    definition = {**tool.definition, "description": description or " "}
    return Tool.from_mcp(tool.server, definition)


def _tools(files: Iterable[Path]) -> dict[tuple[str, str], Tool]:
    tools = {}
    for line in lines(files):
        server = line.pop("server")
        schema = line.pop("input_schema", None)
        if schema:
            line["inputSchema"] = schema
        tools[server, line["name"]] = Tool.from_mcp(server, line)
    return tools


def lines(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)
