"""`execute_steps`: checks the steps, carries them out, and answers with their outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.agent.caller import Caller
from discovery_engine.agent.execution import LONGEST_START, call_tool
from discovery_engine.agent.first_listing import wait_for_first_listing
from discovery_engine.agent.meta_arguments import MetaArguments
from discovery_engine.agent.render.calls import result_text
from discovery_engine.agent.render.result import ANSWER
from discovery_engine.agent.results.json_cutting import json_text
from discovery_engine.agent.results.presentation import shortened
from discovery_engine.agent.results.query import PathQuery, QueryError
from discovery_engine.agent.results.selection import part_of, structure
from discovery_engine.agent.results.shape import shape
from discovery_engine.agent.steps.call_steps import CallStep, read_steps
from discovery_engine.agent.steps.step_runner import StepOutcome, StepRunner, StepStatus
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
    await wait_for_first_listing(engine, None)
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

    async def call(step: CallStep, given: JSONObject) -> JSONObject:
        # Progress of several tools side by side would not grow.
        return await call_tool(engine, step.server, step.tool, given, Caller(client))

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
    tokens = engine.settings.server.max_result_tokens
    return shortened(result, tokens, engine.results, caller.client_id) if tokens else result


def _shown(outcome: StepOutcome) -> JSONObject:
    summary: JSONObject = {"status": outcome.status.value}
    if outcome.reason:
        summary["reason"] = outcome.reason
    results = [result for result in outcome.results if result is not None]
    good = [result for result in results if not result.get("isError")]
    errors = [_error_text(error) for _, error in outcome.errors]
    errors += [result_text(result) for result in results if result.get("isError")]
    if outcome.step.items is not None:
        summary |= {"succeeded": len(good), "failed": len(errors), "of": len(outcome.results)}
    if errors:
        summary["error"] = errors[0]
    if good and (select := outcome.step.select):
        summary |= _selected(outcome.step, select, good)
    elif good:
        summary["shape"] = shape(_value(good[0]))
    return summary


def _selected(step: CallStep, select: PathQuery, results: Sequence[JSONObject]) -> JSONObject:
    """The part of each result; where nothing was selected, why, and the shape of the first such."""
    parts: list[JSONValue] = []
    missed: JSONObject = {}
    for result in results:
        part, why = None, f"nothing is at {select.expression}"
        try:
            part = part_of(result, _value(result), select)
        except QueryError as error:
            why = error.message
        parts.append(part)
        if part is None:
            missed = missed or {"note": why, "shape": shape(_value(result))}
    if step.items is not None:
        return {"selected": parts, **missed}
    return missed or {"selected": parts[0]}


def _value(result: JSONObject) -> JSONValue:
    """Return the value that is selected from, or whose shape is described."""
    _, value = structure(result)
    return result_text(result) if value is None else value


def _error_text(error: DiscoveryError) -> str:
    return f"{error.code}: {error.message}" + (f" ({error.hint})" if error.hint else "")
