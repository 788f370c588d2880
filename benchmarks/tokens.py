"""How many tokens an agent pays for the gateway, and for its servers without it.

    python benchmarks/tokens.py [discovery.yaml]

Counts with the tables of two real tokenizers, which `python scripts/node_tools.py` brings, on the
servers of a configuration (the quickstart's by default; `make servers` brings those).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from discovery_engine import open_engine  # noqa: E402
from discovery_engine.engine import Engine  # noqa: E402
from discovery_engine.view import View  # noqa: E402
from discovery_server import guide, rendering  # noqa: E402
from discovery_server.meta_tools import META_TOOLS  # noqa: E402
from scripts.node_tools import NodeToolsMissingError, bring  # noqa: E402

TOKENIZERS = ("o200k_base", "cl100k_base")
QUERIES = (
    "what time is it in tokyo",
    "show the history of a repository",
    "read a file",
    "commit changes",
    "search files by name",
    "add numbers",
)
_COUNTER = """
import { readFileSync } from 'node:fs';
const texts = JSON.parse(readFileSync(0, 'utf8'));
const counts = [];
for (const name of process.argv.slice(1)) {
  const { encode } = await import('gpt-tokenizer/encoding/' + name);
  counts.push(texts.map((text) => encode(text).length));
}
console.log(JSON.stringify(counts));
"""


def counted(texts: Sequence[str]) -> list[tuple[int, ...]]:
    """The number of tokens of each text, by each tokenizer."""
    tools = bring()
    command = [tools.node, "--input-type=module", "-e", _COUNTER, *TOKENIZERS]
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        input=json.dumps(texts),
        cwd=tools.folder,
    )
    return list(zip(*json.loads(done.stdout), strict=True))


def told(result: Mapping[str, list[dict[str, str]]]) -> str:
    return result["content"][0]["text"]


def texts_of(view: View) -> dict[str, str]:
    """Everything an agent may be told, by what it is."""
    definitions = [tool.definition for tool in META_TOOLS.values()]
    enabled = [e for e in view.catalog if e.verdict.enabled]
    texts = {
        "five definitions": compact(definitions),
        "instructions": guide.instructions(view),
        "list_mcp_servers": told(rendering.servers_result(view.servers())),
        f"all {len(enabled)} definitions": compact([e.tool.definition for e in enabled]),
    }
    for query in QUERIES:
        answer = view.search(query)
        label = f"search {query!r}: {len(answer.hits)} hits"
        texts[label] = told(rendering.search_result(answer))
    for server in view.servers():
        listed = view.list_tools(server.name)
        label = f"list_tools {server.name}: {len(listed.entries)} tools"
        texts[label] = told(rendering.tools_result(listed, view))
    for entry in enabled:
        texts[f"details {entry.key}"] = told(rendering.details_result(entry))
    return texts


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def table(texts: Mapping[str, str]) -> None:
    counts = dict(zip(texts, counted(list(texts.values())), strict=True))
    print(f"| {'what':60} | {' | '.join(TOKENIZERS)} | estimated |\n|---|--:|--:|--:|")
    for label, tokens in counts.items():
        if not label.startswith("details "):
            row(label, tokens, texts[label])
    details = sorted((tokens[0], label) for label, tokens in counts.items() if "details" in label)
    for name, at in (("median", len(details) // 2), ("largest", -1)):
        label = details[at][1]
        row(f"{label} ({name} of {len(details)})", counts[label], texts[label])
    under = sum(tokens < 100 for tokens, _ in details)
    print(f"\ndetails below 100 tokens: {under} of {len(details)} tools")
    ratios = [len(texts[label]) / tokens[0] for label, tokens in counts.items()]
    print(f"characters in a token: {min(ratios):.2f} to {max(ratios):.2f}")


def row(label: str, tokens: Sequence[int], text: str) -> None:
    cells = [*map(str, tokens), str(rendering.estimated_tokens(text))]
    print(f"| {label:60} | {' | '.join(cells)} |")


async def known_view(config: Path) -> View:
    with tempfile.TemporaryDirectory() as folder:
        async with open_engine(config, data_dir=Path(folder)) as engine:
            return await listed(engine)


async def listed(engine: Engine) -> View:
    report = await engine.refresh()
    for server, failure in report.servers:
        if failure:
            print(f"left out: {server}: {failure.message}", file=sys.stderr)
    return engine.view


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    default = ROOT / "examples" / "quickstart" / "discovery.yaml"
    parser.add_argument("config", nargs="?", type=Path, default=default)
    view = anyio.run(known_view, parser.parse_args().config)
    try:
        table(texts_of(view))
    except NodeToolsMissingError as missing:
        sys.exit(f"no tokenizer: {missing}")


if __name__ == "__main__":
    main()
