"""`discovery tune enrich`: typical requests for tools, written by the owner's language model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation, named
from discovery_cli.options import complete_server, complete_target, pass_invocation
from discovery_cli.output import Cell, Output
from discovery_cli.terminal_input import is_agreed
from discovery_engine._util.quantities import counted
from discovery_engine._util.text import one_line

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.evaluation.enrichment.enrichment import EnrichmentPlan
    from discovery_engine.evaluation.enrichment.enrichment_run import EnrichedTool, EnrichmentReport

_SENT = (
    "Each request has a tool's name, title, description and parameters as its server lists them,"
    " and names and first sentences of its siblings. Nothing else is sent."
)


@click.command("enrich")
@click.option(
    "--server",
    "servers",
    metavar="SERVER",
    multiple=True,
    shell_complete=complete_server,
    help="Only tools of this server; may be repeated.",
)
@click.option(
    "--tool",
    "tools",
    metavar="TOOL",
    multiple=True,
    shell_complete=complete_target,
    help="Only this tool, as `server:tool`; may be repeated.",
)
@click.option("--again", is_flag=True, help="Also send tools that have typical requests.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--forget", is_flag=True, help="Delete what was written, and send nothing.")
@pass_invocation
def command(
    invocation: Invocation,
    *,
    servers: tuple[str, ...],
    tools: tuple[str, ...],
    again: bool,
    dry_run: bool,
    yes: bool,
    forget: bool,
) -> ExitCode:
    """Have a language model write typical requests for tools.

    Search then also finds a tool by requests that resemble them; agents never see them. Only tools
    without typical requests are sent, unless you say --again. The model is set under `enrich` in
    discovery.yaml: `url`, `model`, `apiKey`.

    You see what would be sent, and how many tokens it takes, before you confirm. Each answer is
    saved as it arrives, so you can interrupt the command and run it again. `examples` under
    `overrides` replace what was written. Exits with 4 if nothing was confirmed, and with 5 if the
    model cannot be reached or writes nothing usable.

    \b
      discovery tune enrich --dry-run
      discovery tune enrich --server notes
    """
    if forget:
        if again or dry_run or tools:
            raise click.UsageError("--forget can be combined only with --server")
        return _forget(invocation, servers, yes=yes)
    if servers and tools:
        raise click.UsageError("--server and --tool cannot be combined; give only the tools")
    plan = invocation.run(lambda engine: engine.enrichment.plan(servers, tools=tools, again=again))
    if plan.problem and plan.requests and not dry_run:
        raise plan.problem
    output = invocation.output
    if not output.as_json:
        _show_plan(output, plan, whole=dry_run)
    if dry_run or not plan.requests:
        if output.as_json:
            output.answer(_plan_form(plan))
        return ExitCode.OK
    if not is_agreed(output, f"Send {counted(len(plan.requests), 'request')}?", yes=yes):
        output.report(_plan_form(plan), "nothing was sent; --yes sends it")
        return ExitCode.DISABLED
    on_tool = (lambda _: None) if output.as_json else partial(_show_tool, output)
    report = invocation.run(lambda engine: engine.enrichment.run(plan, on_tool))
    return _answer(output, plan, report)


def _forget(invocation: Invocation, servers: tuple[str, ...], *, yes: bool) -> ExitCode:
    output = invocation.output
    texts = invocation.run(lambda engine: engine.enrichment.written(servers))
    for text in texts if not output.as_json else ():
        output.line(f"{one_line(text.server)}:{one_line(text.tool)}")
    question = f"Delete what was written for {counted(len(texts), 'definition')}?"
    if texts and not is_agreed(output, question, yes=yes):
        output.report({"forgotten_count": 0}, "nothing was deleted; --yes deletes what is shown")
        return ExitCode.DISABLED
    forgotten = invocation.run(lambda engine: engine.enrichment.forget(texts))
    output.report(
        {"forgotten_count": forgotten},
        f"deleted what was written for {counted(forgotten, 'definition')}",
    )
    return ExitCode.OK


def _show_plan(output: Output, plan: EnrichmentPlan, *, whole: bool) -> None:
    for source, count in sorted(plan.skipped.items()):
        output.say(f"{counted(count, 'tool')} left out, with typical requests already ({source})")
    if not plan.requests:
        output.say("no tool lacks typical requests; --again has them written anew")
        return
    servers = {request.entry.tool.server for request in plan.requests}
    where = (
        "nowhere yet, since `enrich` cannot be used"
        if plan.problem
        else f"{plan.model} at {plan.address}"
    )
    output.say(
        f"{counted(len(plan.requests), 'request')} about {counted(len(plan.requests), 'tool')} of"
        f" {named(servers)}, to {one_line(where)}: about {plan.tokens:,} tokens with the answers"
    )
    output.say(_SENT)
    if not whole:
        output.say("`--dry-run` shows every word of it.")
        return
    output.line("instructions", "strong")
    output.text(plan.instructions)
    for request in plan.requests:
        output.line(request.entry.key.label, "strong")
        output.line(f"  {request.message}")


def _show_tool(output: Output, tool: EnrichedTool) -> None:
    if tool.problem:
        output.say(f"{tool.key.label}: {tool.problem}")
        return
    output.table([[output.mark(good=True), Cell(tool.key.label, "strong")]])
    for text in tool.requests:
        output.line(f"    {one_line(text)}")


def _answer(output: Output, plan: EnrichmentPlan, report: EnrichmentReport) -> ExitCode:
    successes = [tool for tool in report.tools if tool.requests]
    failed = [tool for tool in report.tools if tool.problem]
    left_count = len(plan.requests) - len(successes)
    if output.as_json:
        output.answer(_plan_form(plan) | _report_form(report, left_count))
    else:
        output.say(
            f"{counted(len(successes), 'tool')} with typical requests now; {left_count} without a"
            f" usable answer; {report.tokens:,} tokens by the endpoint's count"
        )
        if report.failure:
            output.say(f"ended early: {report.failure.message}")
            if report.failure.hint:
                output.say(f"hint: {report.failure.hint}")
        elif failed:
            output.say("run it again to ask about those once more")
    return ExitCode.UNREACHABLE if left_count else ExitCode.OK


def _plan_form(plan: EnrichmentPlan) -> JSONObject:
    return {
        "address": plan.address,
        "model": plan.model,
        "instructions": plan.instructions,
        "planned": [
            {"server": ask.entry.tool.server, "tool": ask.entry.tool.name, "message": ask.message}
            for ask in plan.requests
        ],
        "skipped": dict(plan.skipped),
        "estimated_tokens": plan.tokens,
    }


def _report_form(report: EnrichmentReport, left_count: int) -> JSONObject:
    failure = report.failure
    return {
        "tools": [
            {
                "server": tool.key.server,
                "tool": tool.key.tool,
                "requests": list(tool.requests),
                "problem": tool.problem,
            }
            for tool in report.tools
        ],
        "left_count": left_count,
        "tokens": report.tokens,
        "code": failure.code if failure else None,
        "message": failure.message if failure else "",
        "hint": failure.hint if failure else "",
    }
