"""`execute_steps`: checks the steps, carries them out, and answers with their outcomes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.agent.answer_rendering import ANSWER, result_text
from discovery_engine.agent.call_steps import (
    ITEM,
    CallStep,
    InvalidStepsError,
    filled,
    read_steps,
    require_items,
)
from discovery_engine.agent.cutting import json_text, with_documents
from discovery_engine.agent.execution import (
    LONGEST_START,
    call_tool,
    cut,
    error_text,
    part_of,
    result_value,
)
from discovery_engine.agent.meta_arguments import Caller, MetaArguments
from discovery_engine.agent.result_query import PathQuery, QueryError, shape
from discovery_engine.errors import DiscoveryError
from discovery_engine.rpc.client import AskedClient
from discovery_engine.rpc.json_codec import encode_finite

if TYPE_CHECKING:
    from discovery_engine.engine import ScopedEngine


async def execute_steps(
    engine: ScopedEngine, arguments: MetaArguments, caller: Caller
) -> JSONObject:
    steps = read_steps(arguments.value("steps"))
    goes_on = arguments.flag("continueOnError")
    await engine.wait_first_listed(None)
    for step in steps:
        await _check(engine, step)
    done = 0

    async def report(outcome: StepOutcome) -> None:
        nonlocal done
        done += 1
        if caller.on_progress is not None:
            message = f"{outcome.step.id} {outcome.status.value}"
            await caller.on_progress(float(done), float(len(steps)), message)

    # A client cannot continue one step of several, so it is asked instead.
    client = AskedClient(caller.client) if caller.client else None
    # Progress of several tools side by side would not grow.
    caller_of_step = Caller(client, on_call=caller.on_call)

    async def call(step: CallStep, arguments: JSONObject) -> JSONObject:
        return await call_tool(engine, step.server, step.tool, arguments, caller_of_step)

    outcomes = await StepRunner(steps, call, goes_on=goes_on, on_done=report).run()
    return await anyio.to_thread.run_sync(partial(_answer, engine, outcomes, caller))


async def _check(engine: ScopedEngine, step: CallStep) -> None:
    """A tool that may not be called, or known arguments that do not fit, stop all steps."""
    try:
        entry = await engine.details(step.server, step.tool, max_wait=LONGEST_START)
        if step.is_fixed:
            await engine.preview(entry.tool.server, entry.tool.name, step.arguments)
    except DiscoveryError as error:
        raise error.with_hint(f"this is step {step.id}; nothing was sent") from error


def _answer(engine: ScopedEngine, outcomes: Sequence[StepOutcome], caller: Caller) -> JSONObject:
    whole = {outcome.step.id: outcome.value for outcome in outcomes if outcome.results}
    data, handle = encode_finite(whole)[:-1], None
    summaries = {outcome.step.id: _shown(outcome) for outcome in outcomes}
    selected = {
        outcome.step.id
        for outcome in outcomes
        if outcome.step.select and "note" not in summaries[outcome.step.id]
    }
    if whole.keys() - selected:
        handle = engine.results.put(data, owner=caller.client_id, path="@")
    failed = [outcome.step.id for outcome in outcomes if outcome.status is StepStatus.FAILED]
    content = [{"type": "text", "text": json_text(summaries)}]
    if handle:
        note = f'Note: the results are kept: read_result {{"handle": "{handle}"}}, by step'
        content.append({"type": "text", "text": note})
    fields: JSONObject = {"steps": summaries, "failed": failed, "handle": handle}
    result: JSONObject = {
        "content": content,
        "isError": bool(failed),
        "_meta": {ANSWER: fields},
    }
    return cut(engine, result, engine.settings.server.max_result_tokens, caller)


def _shown(outcome: StepOutcome) -> JSONObject:
    summary: JSONObject = {"status": outcome.status.value}
    if outcome.reason:
        summary["reason"] = outcome.reason
    results = [result for result in outcome.results if result is not None]
    good = [result for result in results if not result.get("isError")]
    errors = [error_text(error) for _, error in outcome.errors]
    errors += [result_text(result) for result in results if result.get("isError")]
    if outcome.step.items is not None:
        summary |= {"succeeded": len(good), "failed": len(errors), "of": len(outcome.results)}
    if errors:
        summary["error"] = errors[0]
    if good and (select := outcome.step.select):
        summary |= _selected(outcome.step, select, good)
    elif good:
        summary["shape"] = shape(result_value(good[0]))
    return summary


def _selected(step: CallStep, select: PathQuery, results: Sequence[JSONObject]) -> JSONObject:
    """The part of each result; where nothing was selected, why, and the shape of the first such."""
    parts: list[JSONValue] = []
    missed: JSONObject = {}
    for result in results:
        part, why = None, f"nothing is at {select.expression}"
        try:
            part = part_of(result, result_value(result), select)
        except QueryError as error:
            why = error.message
        parts.append(part)
        if part is None:
            missed = missed or {"note": why, "shape": shape(result_value(result))}
    if step.items is not None:
        return {"selected": parts, **missed}
    return missed or {"selected": parts[0]}


# After the first failure no further step is begun; those under way are not broken off, because
# it would be unknown what they have done. A cancelled request cancels all of them.

AT_ONCE = 10
"""Calls of one request."""

Call: TypeAlias = Callable[[CallStep, JSONObject], Awaitable[JSONObject]]
"""One call of a step's tool, with its arguments filled in."""
OnDone: TypeAlias = Callable[["StepOutcome"], Awaitable[None]]


class StepStatus(Enum):
    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


class StepOutcome(Struct, frozen=True):
    step: CallStep
    status: StepStatus
    results: tuple[JSONObject | None, ...] = ()
    """The result of each call, in the order of the items; None if it was not made or failed."""
    errors: tuple[tuple[int, DiscoveryError], ...] = ()
    """The errors of calls, each with the position of its item."""
    reason: str = ""
    """The reason why it was skipped; empty if it was not."""

    @property
    def value(self) -> JSONValue:
        """The value that references of later steps read."""
        if self.step.items is None:
            return with_documents(self.results[0] or {}) if self.results else None
        return {"results": [with_documents(result or {}) for result in self.results]}


class StepRunner:
    """Carries out one list of steps, once."""

    def __init__(
        self, steps: Sequence[CallStep], call: Call, *, goes_on: bool, on_done: OnDone
    ) -> None:
        """`goes_on` after a failure with the steps that do not need the failed one."""
        self._steps = steps
        self._call = call
        self._goes_on = goes_on
        self._on_done = on_done
        self._outcomes: dict[str, StepOutcome] = {}
        self._finished = {step.id: anyio.Event() for step in steps}
        self._limiter = anyio.CapacityLimiter(AT_ONCE)
        self._failed: str | None = None

    async def run(self) -> list[StepOutcome]:
        """The outcomes in the order of the steps."""
        async with anyio.create_task_group() as tasks:
            for step in self._steps:
                tasks.start_soon(self._run, step)
        return [self._outcomes[step.id] for step in self._steps]

    async def _run(self, step: CallStep) -> None:
        for source in step.sources:
            await self._finished[source].wait()
        outcome = await self._outcome(step)
        self._outcomes[step.id] = outcome
        if outcome.status is StepStatus.FAILED and self._failed is None:
            self._failed = step.id
        self._finished[step.id].set()
        await self._on_done(outcome)

    async def _outcome(self, step: CallStep) -> StepOutcome:
        broken = [s for s in step.sources if self._outcomes[s].status is not StepStatus.OK]
        if broken:
            return StepOutcome(step, StepStatus.SKIPPED, reason=f"{min(broken)} has no result")
        try:
            # Choosing parts of large results takes a while, so it is done in threads.
            each = await anyio.to_thread.run_sync(self._inputs, step)
        except DiscoveryError as error:
            return StepOutcome(step, StepStatus.FAILED, errors=((0, error),))
        return await self._calls(step, each)

    def _inputs(self, step: CallStep) -> list[dict[str, JSONValue]]:
        """Return the values that the references of each call of a step read."""
        sources = {source: self._outcomes[source].value for source in step.sources}
        if step.items is None:
            return [sources]
        items = filled(step.items, sources)
        if not isinstance(items, list):
            raise InvalidStepsError(f"`forEach` of step {step.id!r} is no list")
        require_items(items, step.id)
        return [{**sources, ITEM: item} for item in items]

    async def _calls(self, step: CallStep, each: Sequence[dict[str, JSONValue]]) -> StepOutcome:
        results: list[JSONObject | None] = [None] * len(each)
        errors: dict[int, DiscoveryError] = {}
        begun, is_broken = 0, False

        async def call(at: int) -> None:
            nonlocal begun, is_broken
            async with self._limiter:
                if (self._failed is not None or is_broken) and not self._goes_on:
                    return
                begun += 1
                try:
                    result = await self._call(step, await _filled(step, each[at]))
                except DiscoveryError as error:
                    errors[at], is_broken = error, True
                else:
                    results[at] = result
                    is_broken = is_broken or bool(result.get("isError"))

        async with anyio.create_task_group() as tasks:
            for at in range(len(each)):
                tasks.start_soon(call, at)
        if each and not begun:
            return StepOutcome(step, StepStatus.SKIPPED, reason=f"{self._failed} failed")
        status = StepStatus.FAILED if is_broken or begun < len(each) else StepStatus.OK
        return StepOutcome(step, status, tuple(results), tuple(sorted(errors.items())))


async def _filled(step: CallStep, sources: dict[str, JSONValue]) -> JSONObject:
    if step.is_fixed:
        return step.arguments
    arguments: JSONObject = await anyio.to_thread.run_sync(filled, step.arguments, sources)
    return arguments
