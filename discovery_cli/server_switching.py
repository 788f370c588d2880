"""The code that `enable` and `disable` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from discovery_cli.exit_codes import ExitCode
from discovery_cli.invocation import Invocation
from discovery_cli.server_changes import place_of, say_obstacle, show_copy, show_diff

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.engine import Engine
    from discovery_engine.owner.server_plans import ServerPlan
    from discovery_engine.view.status import ServerReport

Place: TypeAlias = Literal["file", "registry"]

_STATUS = {
    (True, True): "activated",
    (True, False): "already_active",
    (False, True): "deactivated",
    (False, False): "not_active",
}


def switch(
    invocation: Invocation, server: str, *, is_wanted: bool, to: Place | None, dry_run: bool
) -> ExitCode:
    """Switch a server on or off, and report what became of it."""
    from discovery_engine.json_forms.server_plan_form import copy_form

    output = invocation.output

    async def plan_and_apply(engine: Engine) -> tuple[ServerPlan, ServerReport, bool]:
        plan = await engine.servers.plan_switch(server, is_wanted=is_wanted, to=to)
        if not dry_run:
            await engine.servers.apply(plan)
        return plan, engine.view.server(plan.name), bool(engine.view.settings.registry.url)

    plan, report, has_database = invocation.run(plan_and_apply)
    if output.as_json:
        form = _form(plan, report, is_wanted=is_wanted, dry_run=dry_run)
        output.answer(form | copy_form(plan))
        return ExitCode.OK
    word = "on" if is_wanted else "off"
    show_copy(output, plan)
    if dry_run:
        if not plan.original:
            show_diff(output, plan)
        output.say(f"{place_of(plan)} was not changed")
    elif plan.is_empty:
        output.say(f"{plan.name} is {word} already")
    else:
        output.say(f"{plan.name} is switched {word}, in {place_of(plan)}")
        if has_database and plan.where == "file":
            for_all = "" if is_wanted else "; `--to registry` switches it off on all of them"
            output.say(
                f"the files of other machines that share the database are as before{for_all}"
            )
    if is_wanted and not dry_run:
        say_obstacle(output, report)
    return ExitCode.OK


def _form(plan: ServerPlan, report: ServerReport, *, is_wanted: bool, dry_run: bool) -> JSONObject:
    return {
        "name": plan.name,
        "status": _STATUS[is_wanted, not plan.is_empty],
        "where": plan.where,
        "path": str(plan.edit.path) if plan.edit else None,
        "written": not plan.is_empty and not dry_run,
        "diff": plan.diff,
        "wanted": report.is_wanted,
        "state": str(report.state),
        "reason": report.reason,
        "hint": report.hint,
    }
