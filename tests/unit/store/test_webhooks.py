"""When deliveries are sent, and that none is lost wherever a process ends."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.config.settings import Settings
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.engine.webhook_dispatcher import WebhookDispatcher
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.store.backends import open_registry, sqlite_url
from discovery_engine.store.registry import Registry
from discovery_engine.store.sqlite.sqlite_registry import open_sqlite
from discovery_engine.store.webhooks import GIVE_UP_AFTER, Delivery, WebhookState, backoff_after
from tests.factories import make_part, make_server, make_settings
from tests.receivers import SECRET, Receiver, receiving
from tests.servers.programs import eventually

OTHER = "whsec_" + "QUFB" * 10
ENVIRON = {"KEY": SECRET, "OLD": OTHER, "BAD": "hunter2"}
SECRETS = EnvironmentResolver(ENVIRON)


def webhook(receiver: Receiver, name: str = "ops", **fields: Any) -> WebhookSettings:
    given = {"secret": ("${KEY}",), "timeout": 60.0, **fields}
    return WebhookSettings(name, receiver.url, **given)


def settings(*webhooks: WebhookSettings, servers: int = 1) -> Settings:
    made = make_settings(*(make_server(f"s{number}") for number in range(servers)))
    return replace(made, name="ops", webhooks=webhooks)


SCOPE = catalog_key_of(settings())


def dispatcher(store: Registry, used: Settings, **options: Any) -> WebhookDispatcher:
    async def complete() -> None:
        """The settings have all."""

    given = {"randomness": lambda: 0.0, **options}
    return WebhookDispatcher(
        store, lambda: used, complete, secrets=SECRETS, clock=time.time, **given
    )


def state(store: Registry, name: str = "ops") -> WebhookState:
    return next(one for one in store.webhook_states(SCOPE) if one.name == name)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return sqlite_url(tmp_path / "registry.db")


@pytest.fixture
def store(url: str) -> Iterator[Registry]:
    with closing(open_registry(url)) as opened:
        yield opened


@pytest.mark.thorough
@pytest.mark.anyio
@pytest.mark.requirement("WHK-9")
async def test_bad_receivers_fail_in_time_and_delay_no_other(store: Registry) -> None:
    with ExitStack() as opened:
        good, hung, moved, broken, large = (opened.enter_context(receiving()) for _ in range(5))
        hung.answers.clear()
        moved.statuses, moved.location = [302], good.url
        broken.statuses = [503]
        large.body = b"x" * 10_000_000
        nobody = replace(webhook(good, "nobody"), url="http://127.0.0.1:1/hook")
        used = settings(
            webhook(hung, "hung", timeout=600.0),
            webhook(moved, "moved"),
            webhook(broken, "broken"),
            webhook(large, "large"),
            nobody,
            webhook(good, "good"),
            servers=20,
        )
        store.save_settings(SCOPE, used)

        async with open_task_group() as tasks:
            tasks.start_soon(dispatcher(store, used).run)
            await eventually(lambda: state(store, "good").delivered == 20)
            await eventually(lambda: state(store, "large").delivered == 20)
            for name in ("moved", "broken", "nobody"):
                await eventually(lambda name=name: bool(state(store, name).failure))
            await eventually(lambda: len(hung.received) == 4)
            tasks.cancel_scope.cancel()

        assert state(store, "hung").delivered == 0
        assert len(good.received) == 20
        assert state(store, "moved").failure == "HTTP 302, a redirect, which is not followed"
        assert state(store, "broken").failure == "HTTP 503"
        assert "cannot be reached" in state(store, "nobody").failure


@pytest.mark.requirement("WHK-9")
def test_attempts_go_on_for_three_days_with_pauses_that_grow() -> None:
    waiting, pauses = 0.0, []
    while (pause := backoff_after(len(pauses) + 1, waiting, lambda: 1.0)) is not None:
        pauses.append(pause)
        waiting += pause

    assert pauses[:6] == [5.0, 20.0, 80.0, 320.0, 1280.0, 5120.0]
    assert max(pauses) == 6 * 3600
    assert GIVE_UP_AFTER <= waiting <= GIVE_UP_AFTER + 6 * 3600
    assert backoff_after(3, 0.0, lambda: 0.0) == 40.0


def send_as_a_process(url: str, used: Settings) -> int:
    """A process of its own that sends for ever; returns its id."""
    if pid := os.fork():
        return pid
    try:
        with closing(open_registry(url)) as own:
            anyio.run(dispatcher(own, used, margin=0.5).run)
    finally:
        os._exit(1)


@pytest.mark.thorough
@pytest.mark.requirement("WHK-8")
def test_processes_share_the_work_and_one_that_is_killed_loses_no_event(url: str) -> None:
    with receiving() as receiver, closing(open_registry(url)) as store:
        used = settings(webhook(receiver, timeout=0.5), servers=30)
        store.save_settings(SCOPE, used)
        receiver.answers.clear()
        processes = [send_as_a_process(url, used)]
        try:
            anyio.run(eventually, lambda: len(receiver.received) >= 1)
            end(processes.pop())
            receiver.answers.set()
            processes += [send_as_a_process(url, used) for _ in range(2)]
            anyio.run(eventually, lambda: state(store).delivered == 30)
        finally:
            for process in processes:
                end(process)

        assert (state(store).pending, state(store).dead) == (0, 0)
    sent = {one.id: one.message["data"]["server"] for one in receiver.received}
    assert Counter(sent.values()) == Counter(f"s{number}" for number in range(30))
    assert len(receiver.received) > 30


def end(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


class Process:
    """One that stores and sends, and may end at any point; the file of its registry stays."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 1000.0
        self.changes = 0
        self.held: list[Delivery] = []
        self.bodies: dict[str, str] = {}
        self.delivered: list[str] = []
        self.open()
        ops = WebhookSettings("ops", "x")
        self.store.save_settings(SCOPE, replace(make_settings(make_server("a")), webhooks=(ops,)))

    def open(self) -> None:
        self.store = open_sqlite(self.path, clock=lambda: self.now)

    def change(self) -> None:
        self.changes += 1
        part = make_part("a", *(f"t{number}" for number in range(self.changes)))
        self.store.save_parts(SCOPE, [part], revision=self.changes)

    def claim(self, limit: int = 2) -> None:
        for one in self.store.claim_deliveries(SCOPE, "ops", limit=limit, lease=60.0):
            assert self.bodies.setdefault(one.event_id, one.body) == one.body
            self.held.append(one)

    def finish(self) -> None:
        if self.held and self.store.finish_delivery(one := self.held.pop(0)):
            self.delivered.append(one.event_id)

    def fail(self) -> None:
        if self.held:
            self.store.fail_delivery(self.held.pop(0), "HTTP 500", retry_in=30.0)

    def crash(self) -> None:
        self.held.clear()
        self.store.close()
        self.open()

    def wait(self) -> None:
        self.now += 45.0


STEPS = (Process.change, Process.claim, Process.finish, Process.fail, Process.crash, Process.wait)


@pytest.mark.thorough
@pytest.mark.requirement("WHK-8")
@given(steps=st.lists(st.sampled_from(STEPS), max_size=40))
@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_wherever_a_process_ends_each_event_is_delivered_under_one_id(
    steps: list[Callable[[Process], None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    process = Process(tmp_path_factory.mktemp("registry") / "registry.db")
    for step in steps:
        step(process)
    process.crash()
    process.now += 3600.0
    process.claim(1000)
    while process.held:
        process.finish()

    [state] = process.store.webhook_states(SCOPE)
    process.store.close()
    expected = process.changes + 1
    assert (state.pending, state.dead, state.delivered) == (0, 0, expected)
    assert len(process.delivered) == len(set(process.delivered)) == len(process.bodies) == expected
