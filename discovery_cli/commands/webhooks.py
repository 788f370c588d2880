"""`discovery webhooks`: where events of servers and tools are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from discovery_cli.command_group import Group
from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.options import pass_invocation
from discovery_cli.output import Cell, Output
from discovery_engine._util.quantities import ago, counted
from discovery_engine._util.text import one_line, visible

if TYPE_CHECKING:
    from discovery_engine.engine import Engine
    from discovery_engine.engine.owner.configured_webhooks import WebhookReport
    from discovery_engine.errors import Diagnostic

_HEADS = ("WEBHOOK", "STATE", "WAITING", "DEAD", "DELIVERED", "LAST", "REASON")


@click.group("webhooks", cls=Group)
def command() -> None:
    """List, test and retry webhooks.

    Entries under `webhooks` in discovery.yaml are sent signed requests when servers and tools are
    added, changed or removed, when a tool is withheld for review or released, and when a server
    fails or recovers.

    \b
      discovery webhooks list
      discovery webhooks test chat
    """


@command.command("list")
@pass_invocation
def list_(invocation: Invocation) -> ExitCode:
    """List webhooks, with what waits for each and why it fails.

    Exits with 7 if a delivery is dead, or a webhook cannot be used. Deliveries that wait for their
    next attempt are no failure.

    \b
      discovery webhooks list
    """
    output = invocation.output
    reports, refusal = invocation.run(_list)
    if output.as_json:
        from discovery_engine.engine.json_forms.owner_forms import webhooks_form

        output.answer(webhooks_form(reports, refusal))
    elif refusal is not None:
        output.say(f"no webhook is used: {refusal.line}")
        output.say(f"  hint: {refusal.hint}")
    elif not reports:
        output.say("no webhook is configured; add one under `webhooks` in discovery.yaml")
    else:
        _show(output, reports, invocation.clock())
    is_well = refusal is None and all(
        report.condition in ("ok", "off", "failing") and not report.state.dead for report in reports
    )
    return ExitCode.OK if is_well else ExitCode.UNHEALTHY


@command.command("test")
@click.argument("name")
@pass_invocation
def test(invocation: Invocation, name: str) -> ExitCode:
    """Send a signed test message to a webhook, and show the answer.

    The message has the type `webhook.test`, and is also sent to a webhook that is disabled. Exits
    with 5 if it is not accepted.

    \b
      discovery webhooks test chat
    """
    output = invocation.output
    result = invocation.run(lambda engine: engine.webhooks.test(name))
    if output.as_json:
        from discovery_engine.engine.json_forms.owner_forms import webhook_test_form

        output.answer(webhook_test_form(result))
    elif result.is_accepted:
        output.say(f"accepted: HTTP {result.status} after {result.seconds:.1f} s")
    else:
        hint = f"; {result.hint}" if result.hint else ""
        output.say(f"not accepted: {result.reason}{hint}")
    return ExitCode.OK if result.is_accepted else ExitCode.UNREACHABLE


@command.command("retry")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option(
    "--all-dead",
    is_flag=True,
    help="Retry the dead deliveries of all webhooks, and enable all disabled ones.",
)
@pass_invocation
def retry(invocation: Invocation, *, names: tuple[str, ...], all_dead: bool) -> None:
    """Send dead deliveries again, with their original ids.

    A running gateway or worker sends them. A webhook that was disabled because its receiver
    answered 410 is enabled again.

    \b
      discovery webhooks retry chat
      discovery webhooks retry --all-dead
    """
    if bool(names) == all_dead:
        raise click.UsageError("name webhooks, or give --all-dead")
    named = None if all_dead else names
    count = invocation.run(lambda engine: engine.webhooks.retry(named))
    output = invocation.output
    if output.as_json:
        output.answer({"retried": count})
    elif count:
        output.say(f"due now: {counted(count, 'delivery', 'deliveries')}")
    else:
        output.say("nothing to do: no delivery is dead; `discovery webhooks list` shows what waits")


async def _list(engine: Engine) -> tuple[tuple[WebhookReport, ...], Diagnostic | None]:
    return await engine.webhooks.list(), await engine.webhooks.refusal()


def _show(output: Output, reports: tuple[WebhookReport, ...], now: float) -> None:
    heads = [Cell(head, "faint") for head in _HEADS]
    output.table([heads, *(_row(report, now) for report in reports)])
    dead = [
        report.name for report in reports if report.state.dead or report.condition == "disabled"
    ]
    if dead:
        output.say(f"`discovery webhooks retry {' '.join(dead)}` has what is dead sent again")
    if dropped := sum(report.state.dropped for report in reports):
        output.say(f"{counted(dropped, 'event')} dropped: too many waited")


def _row(report: WebhookReport, now: float) -> list[str | Cell]:
    state = report.state
    reason = report.problem or state.failure
    is_bad = report.condition not in ("ok", "off")
    return [
        Cell(report.name, "strong"),
        Cell(report.condition, "bad" if is_bad else "plain"),
        str(state.pending),
        str(state.dead),
        str(state.delivered),
        f"{ago(now - state.delivered_at)} ago" if state.delivered_at else "never",
        Cell(one_line(visible(reason)), "faint", is_summary=True),
    ]
