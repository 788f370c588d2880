"""`discovery tune plan`: what a change of the configuration would do."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.log_output import logged
from discovery_cli.options import pass_invocation
from discovery_cli.output import Cell, Output, Style
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import named, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.owner.change_plan import ChangePlan, Projection
    from discovery_engine.engine.owner.planned_changes import OfferingChange, ToolChange, ViewChange

_STYLES: Mapping[str, Style] = {"appears": "good", "vanishes": "bad"}
_MAX_PLAN_DESCRIPTION_LENGTH = 60  # characters of a description
_MAX_LISTED_VIEW_CHANGES = 4  # changes of a view


@click.command("plan")
@click.argument("new", metavar="[NEW.yaml]", required=False, type=click.Path(dir_okay=False))
@click.option(
    "--rule",
    metavar="RULE",
    help="A rule to add before all `toolRules`, such as '{pattern: \"*delete*\", enabled: false}'.",
)
@click.option(
    "--override",
    metavar="ENTRY",
    help="An entry to add after all `overrides`, such as '{pattern: a, examples: [b c]}'.",
)
@click.option(
    "--synonym",
    metavar="GROUP",
    help="A group to add after all `search.synonyms`, such as '[ticket, incident]'.",
)
@click.option(
    "--queries",
    metavar="FILE",
    type=click.File("rb"),
    help="Queries, as for `discovery tune eval`: show which results change.",
)
@click.option(
    "--view", "view_name", metavar="NAME", help="Show only what changes for clients of this view."
)
@pass_invocation
def command(
    invocation: Invocation,
    *,
    new: str | None,
    rule: str | None,
    override: str | None,
    synonym: str | None,
    queries: BinaryIO | None,
    view_name: str | None,
) -> ExitCode:
    """Show what a change of the configuration would do, without doing it.

    NEW.yaml is compared with the configuration. Without it, the configuration is compared with what
    was last in effect. Tools, resources and prompts that clients would gain or lose are shown, for
    all clients and for each view. No server is started, and nothing is written. Exits with 8 if
    anything would change.

    \b
      discovery tune plan new.yaml --queries queries.yaml
      discovery tune plan --rule '{pattern: "*delete*", enabled: false}'
      discovery tune plan --synonym '[ticket, incident]' --queries queries.yaml
    """
    from discovery_engine.agent.context_costs import definition_tokens

    with logged(invocation.output, invocation.verbose, invocation.shown_notes):
        options = {"rule": rule, "override": override, "synonym": synonym}
        additions = [_added(option, text) for option, text in options.items() if text is not None]
        projection = _projection(invocation, new, additions)
        searches = _queries(projection, queries) if queries else []
        plan = projection.plan(price=definition_tokens, queries=searches, view=view_name)
    _show(invocation.output, plan)
    return ExitCode.OK if plan.is_empty else ExitCode.CHANGES


def _projection(
    invocation: Invocation, new: str | None, additions: Sequence[Settings]
) -> Projection:
    from discovery_engine.config.loading.loader import resolve_settings
    from discovery_engine.engine.owner.change_plan import in_place_of, project
    from discovery_engine.engine.restore import with_registered

    register = partial(with_registered, data_dir=invocation.data_dir, environ=os.environ)
    current = register(resolve_settings(invocation.config, os.environ, frozen=invocation.frozen))
    changed = current
    if new is not None:
        replacement = in_place_of(current, resolve_settings(new, os.environ, frozen=False))
        changed = register(replacement)
    for more in additions:
        changed = _with(changed, more)
    is_edit = changed is current
    return project(None if is_edit else current, changed, data_dir=invocation.data_dir)


_OPTIONS = {
    "rule": "toolRules:\n- {}\n",
    "override": "overrides:\n- {}\n",
    "synonym": "search:\n  synonyms:\n  - {}\n",
}


def _added(option: str, text: str) -> Settings:
    """Parse the value of an option as if it were read from a file."""
    from discovery_engine.config.loading.parsing import parse_settings

    return parse_settings(_OPTIONS[option].format(text).encode(), file=f"--{option}")


def _with(settings: Settings, more: Settings) -> Settings:
    """Return the settings with rules added before, and overrides and synonyms after, their own."""
    from msgspec.structs import replace

    synonyms = (*settings.search.synonyms, *more.search.synonyms)
    return replace(
        settings,
        tool_rules=(*more.tool_rules, *settings.tool_rules),
        overrides=(*settings.overrides, *more.overrides),
        search=replace(settings.search, synonyms=synonyms),
    )


def _queries(projection: Projection, file: BinaryIO) -> list[str]:
    from discovery_engine.config.document.yaml_reader import SIZE_LIMIT
    from discovery_engine.evaluation.queries import read_queries

    content = file.read(SIZE_LIMIT + 1)
    read = read_queries(content, file=file.name, view=projection.before, allow_missing=True)
    return [query.text for query in read.queries]


def _show(output: Output, plan: ChangePlan) -> None:
    if output.as_json:
        output.answer(plan.to_json())
        return
    output.table(
        [
            [Cell(change.name, "strong"), Cell(change.what, _style(change.what))]
            for change in plan.servers
        ]
    )
    output.table([list(_tool_row(change)) for change in plan.tools])
    output.table([list(_offering_row(change)) for change in plan.offerings])
    output.table([list(_view_row(change)) for change in plan.views])
    for move in plan.queries:
        output.line(f"{one_line(move.query)}: {_hits(move.before)} -> {_hits(move.after)}")
    if plan.settings:
        output.line(f"settings: {', '.join(plan.settings)}")
    if plan.unknown:
        output.say(f"not known before they are listed: the tools of {', '.join(plan.unknown)}")
    tokens = f"{plan.tokens[0]:,} -> {plan.tokens[1]:,} tokens of definitions"
    tools = f"{plan.visible[0]:,} -> {counted(plan.visible[1], 'tool')}"
    what = "nothing changes" if plan.is_empty else "this would change; nothing was done"
    output.say(f"{what}: {tools}, {tokens}")


def _style(what: str) -> Style:
    return _STYLES.get(what, "plain")


def _tool_row(change: ToolChange) -> Iterator[Cell | str]:
    yield Cell(named(change.tool, before=f"{change.server}:"), "strong")
    yield from _what(change)


def _offering_row(change: OfferingChange) -> Iterator[Cell | str]:
    yield change.kind.label
    yield Cell(named(change.identifier, before=f"{change.server} "), "strong")
    yield from _what(change)


def _what(change: ToolChange | OfferingChange) -> Iterator[Cell | str]:
    yield Cell(change.what, _style(change.what))
    yield change.reason or "; ".join(
        f"{name} {_short(before)} -> {_short(after)}"
        for name, (before, after) in change.changes.items()
    )


def _view_row(change: ViewChange) -> Iterator[Cell | str]:
    yield f"view {change.name}"
    yield Cell(change.what, _style(change.what))
    yield "; ".join(_in_view(change))


def _in_view(change: ViewChange) -> Iterator[str]:
    """Describe briefly what changes in a view: `--view` shows all of it."""
    tools = [(tool.what, named(tool.tool, before=f"{tool.server}:")) for tool in change.tools]
    others = [(offering.what, named(offering.identifier)) for offering in change.offerings]
    for what, verb in (("appears", "shows"), ("vanishes", "hides"), ("changes", "changes")):
        names = [name for kind, name in (*tools, *others) if kind == what]
        if names:
            more = (
                f" and {len(names) - _MAX_LISTED_VIEW_CHANGES} more"
                if len(names) > _MAX_LISTED_VIEW_CHANGES
                else ""
            )
            yield f"{verb} {', '.join(names[:_MAX_LISTED_VIEW_CHANGES])}{more}"
    if change.settings:
        yield f"settings: {', '.join(change.settings)}"
    yield f"{change.visible[0]:,} -> {counted(change.visible[1], 'tool')}"


def _short(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    line = one_line(text)
    return (
        line
        if len(line) <= _MAX_PLAN_DESCRIPTION_LENGTH
        else f"{line[:_MAX_PLAN_DESCRIPTION_LENGTH]}…"
    ) or "none"


def _hits(hits: tuple[str, ...]) -> str:
    return ", ".join(hits) or "none"
