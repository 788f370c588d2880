"""Carries out steps: independent ones side by side, each as a single call would be.

After the first failure no further step is begun; those under way are not broken off, because
it would be unknown what they have done. A cancelled request cancels all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import TypeAlias

import anyio
import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.agent.results.cutting import with_documents
from discovery_engine.agent.steps.call_steps import (
    ITEM,
    CallStep,
    InvalidStepsError,
    filled,
    require_items,
)
from discovery_engine.errors import DiscoveryError

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
    """One of each call, in the order of the items; None for one that was not made or failed."""
    errors: tuple[tuple[int, DiscoveryError], ...] = ()
    """By the position of the item."""
    reason: str = ""
    """Why it was skipped."""

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
