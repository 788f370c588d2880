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
from discovery_engine.agent.results.query import QueryError
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
    asked = AskedClient(caller.client) if caller.client else None

    async def call(step: CallStep, given: JSONObject) -> JSONObject:
        # Progress of several tools side by side would not grow.
        return await call_tool(engine, step.server, step.tool, given, Caller(asked))

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
    if any(outcome.results and outcome.step.select is None for outcome in outcomes):
        handle = engine.results.put(data, owner=caller.client_id, path="@")
    shown = {outcome.step.id: _shown(outcome) for outcome in outcomes}
    failed = [one.step.id for one in outcomes if one.status is not StepStatus.OK]
    content = [{"type": "text", "text": json_text(shown)}]
    if handle:
        note = f'Note: the results are kept: read_result {{"handle": "{handle}"}}, by step'
        content.append({"type": "text", "text": note})
    fields: JSONObject = {"steps": shown, "failed": failed, "handle": handle}
    result: JSONObject = {
        "content": content,
        "isError": bool(failed),
        "_meta": {ANSWER: fields},
    }
    tokens = engine.settings.server.max_result_tokens
    return shortened(result, tokens, engine.results, caller.client_id) if tokens else result


def _shown(outcome: StepOutcome) -> JSONObject:
    shown: JSONObject = {"status": outcome.status.value}
    if outcome.reason:
        shown["reason"] = outcome.reason
    made = [result for result in outcome.results if result is not None]
    if outcome.step.items is not None:
        shown |= {"calls": len(made) + len(outcome.errors), "of": len(outcome.results)}
    errors = [_error_text(error) for _, error in outcome.errors]
    errors += [result_text(result) for result in made if result.get("isError")]
    if errors:
        shown["error"] = errors[0]
    parts = [_part(outcome.step, result) for result in made if not result.get("isError")]
    if parts:
        name = "shape" if outcome.step.select is None else "selected"
        shown[name] = parts[0] if outcome.step.items is None or name == "shape" else parts
    return shown


def _part(step: CallStep, result: JSONObject) -> JSONValue:
    """What was selected of a result; its shape if nothing was."""
    _, value = structure(result)
    if step.select is None:
        return shape(result_text(result) if value is None else value)
    try:
        return part_of(result, result_text(result) if value is None else value, step.select)
    except QueryError as error:
        return {"error": error.message}


def _error_text(error: DiscoveryError) -> str:
    return f"{error.code}: {error.message}" + (f" ({error.hint})" if error.hint else "")
