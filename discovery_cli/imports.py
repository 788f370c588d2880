"""What would come into `discovery.yaml` from the files of other clients, and what would not.

A plan is made before anything is written, so that its owner can look at it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_cli.borrowed import Borrowed, LeftOut, borrow, endpoint
from discovery_cli.failures import problem_form
from discovery_cli.output import Cell, Output
from discovery_engine.config.loading.merging import unique_name
from discovery_engine.config.serialization import serialize_server_redacted

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.config.sources import SourceResult
    from discovery_engine.errors import Problem
    from discovery_engine.rules.rule import Rule
    from discovery_engine.tools.model import ServerName

_ADVICE = "`sources: [{type: …}]` in discovery.yaml uses the file as it is"


class Plan(Struct):
    servers: list[Borrowed] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found, be it to be taken or not."""
        return not self.servers and not self.left_out

    @property
    def variables(self) -> list[str]:
        return sorted({name for one in self.servers for name in one.variables})

    def to_json(self) -> JSONObject:
        return {
            "servers": [
                {
                    "name": one.server.name,
                    "from": one.server.source,
                    "entry": serialize_server_redacted(one.server),
                    "variables": list(one.variables),
                }
                for one in self.servers
            ],
            "skipped": [{"name": one.name, "reason": one.reason} for one in self.left_out],
            "variables": self.variables,
            "rule_count": len(self.rules),
            "warnings": [problem_form(problem) for problem in self.warnings],
        }


def make_plan(
    found: Mapping[str, SourceResult], existing: Iterable[ServerSettings], only: Sequence[str]
) -> Plan:
    """What to take of each client's servers; `only` names those that are wanted, if not all."""
    plan = Plan()
    taken = {endpoint(server): str(server.name) for server in existing}
    for client, imported in found.items():
        _take_over(plan, client, imported, taken, only)
    return plan


def show_plan(output: Output, plan: Plan) -> None:
    rows: list[list[Cell | str]] = [
        [output.mark(good=True), Cell(one.server.name, "strong"), _about(one)]
        for one in plan.servers
    ]
    rows += [[output.mark(good=False), Cell(o.name, "strong"), o.reason] for o in plan.left_out]
    output.table(rows)
    for problem in plan.warnings:
        output.say(f"note: {problem}")
    if any(one.is_secret for one in plan.left_out):
        output.say(f"hint: {_ADVICE}")


def say_variables(output: Output, plan: Plan) -> None:
    if names := plan.variables:
        output.say(f"set {', '.join(names)}: secrets are referred to, and were not copied")


def _take_over(
    plan: Plan,
    client: str,
    imported: SourceResult,
    taken: dict[tuple[str, ...], str],
    only: Sequence[str],
) -> None:
    names: dict[ServerName, ServerName] = {}
    for server in imported.servers:
        if only and server.name not in only:
            continue
        borrowed = borrow(server)
        same = taken.get(endpoint(server))
        if isinstance(borrowed, LeftOut):
            plan.left_out.append(borrowed)
        elif same is not None:
            plan.left_out.append(LeftOut(server.name, f"it is there already, as {same!r}"))
        else:
            name = unique_name(server.name, client, {one.casefold() for one in taken.values()})
            taken[endpoint(server)] = names[server.name] = name
            renamed = replace(borrowed.server, name=name, source=client)
            plan.servers.append(replace(borrowed, server=renamed))
    others = frozenset(server.name for server in imported.servers) - names.keys()
    plan.rules += imported.without(others).renamed(names).tool_rules
    plan.warnings += imported.warnings
    plan.left_out += [LeftOut(name, reason) for name, reason in imported.skipped]


def _about(borrowed: Borrowed) -> str:
    entry = serialize_server_redacted(borrowed.server)
    reached = [entry["command"], *entry.get("args", ())] if "command" in entry else [entry["url"]]
    off = "" if borrowed.server.enabled else " (disabled)"
    return f"{' '.join(reached)}{off}, from {borrowed.server.source}"
