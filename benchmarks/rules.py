"""What verdicts cost: our rules beside one `wcmatch` call for each tool and pattern.

    python benchmarks/rules.py

Figures are CPU seconds of this process. The naive way is run on fewer tools, and scaled.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

import regex
from wcmatch import fnmatch

from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.rules.ruleset import ToolRules
from discovery_engine.tools.model import ServerName, Tool, ToolName

VERBS = ["get", "list", "create", "update", "delete", "search", "read", "write", "run", "close"]
NOUNS = ["issue", "repo", "file", "branch", "page", "user", "comment", "image", "directory", "job"]

# What owners write, in about these proportions.
SHAPES = [
    "{verb}_{noun}_*",
    "{verb}_*",
    "*{noun}*",
    "!*{verb}_{noun}*",
    "{verb}_*_{noun}_?*",
    "{{{verb},drop}}_{noun}*",
    "{verb}_[a-m]*_{noun}*",
    "server1*:{verb}_{noun}*",
    "/^({verb}|drop)_{noun}/",
    r"/\b{verb}.*{noun}/i",
]


def main() -> None:
    print(f"{'tools':>8} {'servers':>8} {'rules':>6} {'ours':>9} {'naive':>9} {'naive/ours':>11}")
    for servers, per_server, count in [
        (1000, 10, 100),
        (1000, 100, 10),
        (1000, 100, 100),
        (10, 10_000, 100),
        (1, 100_000, 100),
        (1000, 100, 1000),
    ]:
        rules = make_rules(count)
        tools = fleet(servers, per_server)
        ours = seconds(judge, rules, tools)
        sample = tools[0][: 100_000 // count]
        naive = seconds(judge_naively, rules, sample) * servers * per_server / len(sample)
        total = f"{servers * per_server:>8,} {servers:>8,} {count:>6,}"
        print(f"{total} {ours:>7.2f} s {naive:>7.1f} s {naive / ours:>11.1f}")


def judge(rules: Sequence[Rule], servers: Sequence[Sequence[Tool]]) -> None:
    compiled = ToolRules(rules)
    for tools in servers:
        compiled.verdicts(tools, Verdict())


def judge_naively(rules: Sequence[Rule], tools: Sequence[Tool]) -> None:
    """First match and all tags, with each pattern compiled once and called for each tool."""
    matchers = [naive_matcher(rule.patterns[0]) for rule in rules]
    for tool in tools:
        for rule, matches in zip(rules, matchers, strict=True):
            if matches(tool):
                _ = rule.enabled, rule.tags


def naive_matcher(pattern: str) -> Callable[[Tool], bool]:
    if pattern.startswith("/"):
        body, flags = pattern[1:].rsplit("/", 1)
        search = regex.compile(body, regex.I if flags else 0).search
        return lambda tool: bool(search(tool.name, timeout=1.0))
    flags = fnmatch.IGNORECASE | fnmatch.BRACE | fnmatch.DOTMATCH | fnmatch.FORCEUNIX
    compiled = fnmatch.compile(pattern.removeprefix("!"), flags=flags)
    if ":" in pattern:
        return lambda tool: compiled.match(str(tool.key))
    return lambda tool: compiled.match(tool.name) is not pattern.startswith("!")


def make_rules(count: int) -> list[Rule]:
    chance = random.Random(1)
    decisions = [None, None, False, True]
    return [
        Rule(
            (
                SHAPES[index % len(SHAPES)].format(
                    verb=chance.choice(VERBS), noun=chance.choice(NOUNS)
                ),
            ),
            enabled=chance.choice(decisions),
            tags=(chance.choice(NOUNS),),
        )
        for index in range(count)
    ]


def fleet(servers: int, per_server: int) -> list[list[Tool]]:
    chance = random.Random(2)
    return [
        [make_tool(f"server{server}", number, chance) for number in range(per_server)]
        for server in range(servers)
    ]


def make_tool(server: str, number: int, chance: random.Random) -> Tool:
    name = f"{chance.choice(VERBS)}_{chance.choice(NOUNS)}_{chance.choice(NOUNS)}_{number}"
    return Tool(ServerName(server), ToolName(name), name, "{}")


def seconds(work: Callable[..., None], *arguments: object) -> float:
    started = time.process_time()
    work(*arguments)
    return time.process_time() - started


if __name__ == "__main__":
    main()
