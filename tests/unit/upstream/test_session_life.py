"""One server's life in any order of events, beside a model of what its caller is told."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from discovery_engine.config.settings import ServerSettings, Timeouts
from discovery_engine.errors import (
    OutcomeUnknownError,
    UnavailableError,
    UpstreamError,
    UpstreamTimeoutError,
)
from discovery_engine.upstream.history import Breaker, Policy, RetryLater
from discovery_engine.upstream.state import ServerState
from tests.servers.programs import eventually, fault_server, is_running, upstreams

SERVER = fault_server("obeys", program="wire_server.py")
IN_A_HURRY = replace(SERVER, timeouts=Timeouts(call=0.2))


class SessionLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.nonce = 0
        self.pids: set[int] = set()
        self.model = Breaker(clock=lambda: self.now, random=lambda: 0.0)
        self._running = start_blocking_portal()
        self.portal = self._running.__enter__()
        policy = Policy(clock=lambda: self.now, random=lambda: 0.0)
        self._opening = self.portal.wrap_async_context_manager(upstreams(policy=policy))
        self.opened = self._opening.__enter__()

    def teardown(self) -> None:
        self._opening.__exit__(None, None, None)
        self._running.__exit__(None, None, None)
        anyio.run(eventually, lambda: not any(map(is_running, self.pids)))

    def ask(self, tool: str, server: ServerSettings = SERVER, **arguments: Any) -> Any:
        async def ask() -> Any:
            with anyio.fail_after(60):
                return await self.opened.call(server, tool, arguments)

        try:
            return self.portal.call(ask)
        except UpstreamError as error:
            return error

    def may_try(self) -> bool:
        try:
            with self.model.attempt():
                return True
        except RetryLater:
            return False

    def seen(self) -> Any:
        """The condition, for code that runs in the loop."""
        return self.opened.states().get(SERVER.name)

    @rule()
    def a_tool_answers(self) -> None:
        self.nonce += 1
        allowed = self.may_try()

        answer = self.ask("echo", nonce=self.nonce)

        if allowed:
            assert json.loads(answer["content"][0]["text"]) == {"nonce": self.nonce}
            self.model.record_success()
        else:
            assert isinstance(answer, UnavailableError)
            assert "next try in" in answer.reason

    @rule()
    def a_tool_kills_the_server(self) -> None:
        allowed = self.may_try()

        error = self.ask("crash")

        if allowed:
            assert isinstance(error, OutcomeUnknownError)
            self.model.record_failure(exited=True)
        else:
            assert isinstance(error, UnavailableError)

    @rule()
    def a_tool_takes_too_long(self) -> None:
        allowed = self.may_try()

        error = self.ask("hang", IN_A_HURRY)

        assert isinstance(error, UpstreamTimeoutError if allowed else UnavailableError)

    @rule()
    def somebody_kills_the_idle_server(self) -> None:
        pid = self.condition.stats.pid if self.condition else None
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.portal.call(eventually, lambda: self.seen().stats.pid != pid)

    @rule()
    def the_session_is_closed(self) -> None:
        self.portal.call(self.opened.close, SERVER.name)

    @rule()
    def somebody_insists(self) -> None:
        self.portal.call(self.opened.reset_backoff, SERVER.name)
        if self.condition:
            self.model.reset_backoff()

    @rule(seconds=st.sampled_from([0.5, 5, 60, 200]))
    def time_goes_by(self, seconds: float) -> None:
        self.now += seconds

    @property
    def condition(self) -> Any:
        return self.portal.call(self.seen)

    @invariant()
    def what_is_shown_is_what_happened(self) -> None:
        if (condition := self.condition) is None:
            return
        if condition.stats.pid:
            self.pids.add(condition.stats.pid)
        assert condition.stats.users == condition.stats.queued == 0
        assert (condition.next_try or 0.0) == self.model.wait
        assert (condition.state is ServerState.CRASH_LOOPING) == self.model.is_crash_looping
        if self.model.failures and not self.model.is_crash_looping:
            assert condition.state in {ServerState.FAILING, ServerState.DEGRADED}


def test_a_session_lives_as_the_model_says() -> None:
    run_state_machine_as_test(
        SessionLife,
        settings=settings(
            max_examples=8,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
