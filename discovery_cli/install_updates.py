"""Updates of installed servers, one after the other; one that fails holds up no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from discovery_cli.exit_codes import ExitCode, exit_code
from discovery_cli.install_output import progress_of, say_started, update_lines
from discovery_cli.install_questions import NO_TERMINAL, answers, is_agreed
from discovery_engine._util.quantities import counted
from discovery_engine.errors import DiscoveryError
from discovery_engine.json_forms.error_form import next_step
from discovery_engine.json_forms.install_form import update_form

if TYPE_CHECKING:
    from discovery_cli.invocation import Invocation
    from discovery_engine._util.json import JSONObject
    from discovery_engine.installer.installer import Installer
    from discovery_engine.installer.plan import UpdatePlan

    Given = Mapping[str, Sequence[str]]


class UpdateRun:
    """The updates of servers, with the outcome of each."""

    def __init__(self, invocation: Invocation, *, yes: bool, asks: bool, check: bool) -> None:
        """`asks` is whether a person is asked, and `check` whether nothing is changed."""
        self._invocation = invocation
        self._output = invocation.output
        self._yes = yes
        self._asks = asks
        self._check = check
        self._plans: list[UpdatePlan] = []
        self._done: list[str] = []
        self._failures: dict[str, DiscoveryError] = {}

    async def update(
        self, installer: Installer, plan: UpdatePlan, given: Given, hidden: Given
    ) -> None:
        """Show an update, and do it if its owner agrees; what fails is reported.

        `given` are the values that it was planned with, and `hidden` those that are secret.
        """
        self._plans.append(plan)
        self._show(plan)
        if plan.problem:
            self._failures[plan.name] = plan.problem
            return
        if self._check or plan.is_empty:
            return
        try:
            await self._update(installer, plan, given, hidden)
        except DiscoveryError as error:
            self._failures[plan.name] = error
            if not self._output.as_json:
                self._output.say(f"{plan.name} was not updated: {error.message}")
                self._output.say(next_step(error))

    async def _update(
        self, installer: Installer, plan: UpdatePlan, given: Given, hidden: Given
    ) -> None:
        if self._asks and plan.missing:
            typed = await answers(plan.missing)
            plan = await installer.plan_update(
                plan.name,
                values={**given, **typed.values},
                secrets={**hidden, **typed.secrets},
            )
            self._plans[-1] = plan
            self._show(plan)
        plan.require_ready()
        if is_agreed(f"Update {plan.name!r} as shown?", yes=self._yes, asks=self._asks):
            done = await installer.update(plan, on_progress=progress_of(self._invocation))
            if done.problem and not self._output.as_json:
                say_started(self._output, done)
            self._done.append(plan.name)

    def report(self) -> ExitCode:
        """Say what was done; returns the exit code."""
        waiting = [
            plan
            for plan in self._plans
            if not plan.is_empty and plan.name not in {*self._done, *self._failures}
        ]
        if self._output.as_json:
            self._output.answer({"servers": [self._form(plan) for plan in self._plans]})
        else:
            self._say(has_no_terminal=bool(waiting) and not (self._check or self._asks))
        if self._failures:
            return exit_code(next(iter(self._failures.values())))
        if not waiting:
            return ExitCode.OK
        return ExitCode.CHANGES if self._check else ExitCode.DISABLED

    def _show(self, plan: UpdatePlan) -> None:
        for line in update_lines(plan) if not self._output.as_json else ():
            self._output.line(line)

    def _say(self, *, has_no_terminal: bool) -> None:
        output = self._output
        if not self._plans:
            output.say("no server was installed from the marketplace")
        if self._done:
            count = counted(len(self._done), "server")
            output.say(f"updated {count}; `discovery marketplace rollback SERVER` goes back")
        if self._failures:
            count = counted(len(self._failures), "server")
            output.say(f"{count} not updated: {', '.join(self._failures)}")
        if has_no_terminal:
            output.say(NO_TERMINAL)

    def _form(self, plan: UpdatePlan) -> JSONObject:
        failure = self._failures.get(plan.name)
        return update_form(plan, is_done=plan.name in self._done, failure=failure)
