"""How many tokens an agent pays for the gateway, and for its servers without it; and how far the
estimate that budgets are kept by is from what real tokenizers count.

    python benchmarks/tokens.py [discovery.yaml]

Counts with the tables of two real tokenizers, which `python scripts/node_tools.py` brings, on the
servers of a configuration (the quickstart's by default; `make servers` brings those). Definitions
count as models get them, and as in `discovery tune tokens`: name, description and input schema.
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
from discovery_engine._util.json import JSONObject  # noqa: E402
from discovery_engine.agent.budget import (  # noqa: E402
    Budget,
    TokenCount,
    estimated_tokens,
)
from discovery_engine.agent.instructions import render_instructions  # noqa: E402
from discovery_engine.agent.list_rendering import (  # noqa: E402
    details_result,
    servers_result,
    tools_result,
)
from discovery_engine.agent.meta_arguments import meta_tools  # noqa: E402
from discovery_engine.agent.search_rendering import search_result, searches_result  # noqa: E402
from discovery_engine.agent.tool_text import Detail  # noqa: E402
from discovery_engine.engine import Engine  # noqa: E402
from discovery_engine.tools.signature import signature  # noqa: E402
from discovery_engine.view.view import View  # noqa: E402
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
INTENTS = ("what time is it in tokyo", "read a file", "show the history of a repository")
SENTENCES = {
    "Chinese": (
        "查询指定城市的实时天气信息包括温度、湿度和风速。",
        "在代码仓库中创建一个新的问题。",
    ),
    "Japanese": ("指定した都市の現在の天気を取得します。", "カレンダーの予定を一覧表示します。"),
    "Korean": ("지정한 도시의 현재 날씨 정보를 조회합니다.", "저장소에 새 이슈를 만듭니다."),
    "Russian": ("Возвращает текущую погоду для города.", "Создаёт новую задачу в репозитории."),
    "German": ("Liefert die Wetterdaten einer Stadt.", "Durchsucht den Inhalt von Dateien."),
    "French": ("Renvoie la météo actuelle d'une ville.", "Crée un ticket dans le dépôt."),
    "Spanish": ("Devuelve el tiempo de una ciudad.", "Crea una incidencia en el repositorio."),
    "Arabic": ("يعرض حالة الطقس الحالية للمدينة.", "ينشئ مشكلة جديدة في المستودع."),
}
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
    metas = [tool.definition for tool in meta_tools(view.settings).values()]
    enabled = [e for e in view.catalog if e.verdict.enabled]
    lists = Budget(view.settings.server.list_tokens)
    details = Budget(view.settings.server.details_tokens)
    usual = view.settings.search.max_tokens
    texts = {
        f"definitions of the {len(metas)} meta-tools": compact(list(map(given, metas))),
        "instructions": render_instructions(view),
        "list_mcp_servers": told(servers_result(view.servers(), lists)),
        f"all {len(enabled)} definitions": compact([given(e.tool.definition) for e in enabled]),
    }
    for query in QUERIES:
        answer = view.search(query)
        label = f"search {query!r}: {len(answer.hits)} hits"
        result = search_result(answer, Budget(usual), Detail.SIGNATURE)
        texts[label] = told(result)
    for tokens in (100, 200, 400, 800):
        answer = view.search(QUERIES[1])
        result = search_result(answer, Budget(tokens), Detail.SCHEMA)
        texts[f"search with maxTokens {tokens}"] = told(result)
    answers = [view.search(query) for query in INTENTS]
    result = searches_result(answers, Budget(2 * usual), Detail.SIGNATURE)
    texts[f"search with {len(answers)} queries"] = told(result)
    for server in view.servers():
        listed = view.list_tools(server.name)
        label = f"list_tools {server.name}: {len(listed.entries)} tools"
        texts[label] = told(tools_result(listed, lists, Detail.SIGNATURE))
    for entry in enabled:
        texts[f"details {entry.key}"] = told(details_result(entry, view, details))
    return texts


def given(definition: JSONObject) -> JSONObject:
    """What a model is given of a definition."""
    parts = ("name", "description", "inputSchema")
    return {part: definition[part] for part in parts if part in definition}


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


def errors(view: View, texts: Mapping[str, str]) -> None:
    """The estimate against each tokenizer, by what is estimated."""
    enabled = [e for e in view.catalog if e.verdict.enabled]
    kinds = {
        "answers": [text for label, text in texts.items() if "details" not in label],
        "details": [text for label, text in texts.items() if "details" in label],
        "signatures": [signature(e.tool) for e in enabled],
        "definitions": [compact(given(e.tool.definition)) for e in enabled],
        "names": [str(e.key) for e in enabled],
        **SENTENCES,
    }
    print(f"\n| estimate of | texts | {' | '.join(TOKENIZERS)} | quarter of characters |")
    print("|---|--:|--:|--:|--:|")
    for kind, samples in kinds.items():
        counts = counted(samples)
        cells = [deviation(samples, counts, at, estimated_tokens) for at in range(len(TOKENIZERS))]
        cells.append(deviation(samples, counts, 0, lambda text: len(text) // 4))
        print(f"| {kind} | {len(samples)} | {' | '.join(cells)} |")


def deviation(
    samples: Sequence[str],
    counts: Sequence[tuple[int, ...]],
    tokenizer: int,
    estimate: TokenCount,
) -> str:
    """The mean error of one text, and the error of all of them together."""
    real = [count[tokenizer] for count in counts]
    told = [estimate(sample) for sample in samples]
    mean = sum(abs(t - r) / r for t, r in zip(told, real, strict=True)) / len(real)
    return f"{mean:.0%} ({sum(told) / sum(real) - 1:+.0%})"


def row(label: str, tokens: Sequence[int], text: str) -> None:
    cells = [*map(str, tokens), str(estimated_tokens(text))]
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
        texts = texts_of(view)
        table(texts)
        errors(view, texts)
    except NodeToolsMissingError as missing:
        sys.exit(f"no tokenizer: {missing}")


if __name__ == "__main__":
    main()
