"""Events on their way to real receivers, sent by real processes: specs/webhooks.md."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.config.settings import Settings
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.registry.backends import open_registry
from discovery_engine.registry.protocols import Registry
from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.runtime.webhook_dispatcher import WebhookDispatcher
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.webhooks.delivery import WebhookState
from discovery_engine.webhooks.delivery_schedule import GIVE_UP_AFTER, backoff_after
from discovery_engine.webhooks.sender import UnusableWebhookError, open_sender, target_of
from tests.contract.registry_stores import back_ends, url_of
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


@pytest.fixture(params=back_ends("sqlite", "postgresql"))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[Registry]:
    with closing(open_registry(url)) as opened:
        yield opened


@pytest.mark.anyio
@pytest.mark.requirement("WHK-1", "WHK-8")
async def test_an_event_arrives_signed_with_each_secret_and_is_sent_again_under_its_id(
    store: Registry,
) -> None:
    with receiving() as receiver:
        receiver.statuses = [500, 204]
        used = settings(webhook(receiver, secret=("${KEY}", "${OLD}")))
        store.save_settings(SCOPE, used)

        async with open_task_group() as tasks:
            tasks.start_soon(dispatcher(store, used).run)
            await eventually(lambda: state(store).delivered == 1)
            tasks.cancel_scope.cancel()

        first, second = receiver.received
    assert first.id == second.id
    assert re.fullmatch(r"msg_[0-9a-f]{32}", first.id)
    assert first.body == second.body
    assert first.headers["content-type"] == "application/json"
    for one in receiver.received:
        assert one.is_signed_with(SECRET)
        assert one.is_signed_with(OTHER)
        assert abs(int(one.headers["webhook-timestamp"]) - time.time()) < 600
        assert not one._replace(body=one.body + b" ").is_signed_with(SECRET)
    message = first.message
    assert (message["type"], message["data"]) == ("server.added", {"server": "s0"})
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", message["timestamp"])


@pytest.mark.thorough
@pytest.mark.anyio
@pytest.mark.requirement("WHK-9", "WHK-13")
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


@pytest.mark.thorough
@pytest.mark.anyio
@pytest.mark.requirement("WHK-9")
async def test_a_receiver_that_hangs_costs_the_attempt_its_time_limit(store: Registry) -> None:
    with receiving() as receiver:
        receiver.answers.clear()
        used = settings(webhook(receiver, timeout=0.2))
        store.save_settings(SCOPE, used)

        async with open_task_group() as tasks:
            tasks.start_soon(dispatcher(store, used).run)
            await eventually(lambda: bool(state(store).failure))
            receiver.answers.set()
            await eventually(lambda: state(store).delivered == 1)
            tasks.cancel_scope.cancel()

    assert set(receiver.ids) == {receiver.ids[0]}


@pytest.mark.anyio
@pytest.mark.requirement("WHK-10")
async def test_a_receiver_that_is_gone_disables_its_webhook(store: Registry) -> None:
    with receiving() as receiver:
        receiver.statuses = [410]
        used = settings(webhook(receiver), servers=3)
        store.save_settings(SCOPE, used)

        await dispatcher(store, used).drain(60.0)

        found = state(store)
        assert found.disabled_at is not None
        assert (found.pending, found.dead, found.failure) == (0, 3, "HTTP 410")
        store.retry_deliveries(SCOPE)
        receiver.statuses = [200]
        await dispatcher(store, used).drain(60.0)
        assert state(store).delivered == 3


@pytest.mark.anyio
@pytest.mark.requirement("WHK-10")
async def test_a_receiver_that_is_gone_is_sent_nothing_of_what_was_claimed_for_it(
    store: Registry,
) -> None:
    with receiving() as receiver:
        receiver.statuses = [410]
        used = settings(webhook(receiver), servers=16)
        store.save_settings(SCOPE, used)

        await dispatcher(store, used).drain(60.0)

        assert len(receiver.received) <= 4  # those that were under way
        assert state(store).dead == 16


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


@pytest.mark.anyio
@pytest.mark.requirement("WHK-9")
async def test_a_receiver_that_asks_to_wait_is_left_alone_for_that_long(tmp_path: Path) -> None:
    now = [1_000_000.0]
    with (
        receiving() as receiver,
        open_sqlite(tmp_path / "registry.db", clock=lambda: now[0]) as store,
    ):
        receiver.statuses, receiver.retry_after = [503], "600"
        used = settings(webhook(receiver))
        store.save_settings(SCOPE, used)
        await dispatcher(store, used).drain(60.0)
        now[0] += 599
        is_due_early = bool(store.due_webhooks(SCOPE))
        now[0] += 2
        is_due_then = bool(store.due_webhooks(SCOPE))

    assert (len(receiver.received), is_due_early, is_due_then) == (1, False, True)
    assert backoff_after(1, 0.0, lambda: 1.0, asked=1.0) == 5.0
    assert backoff_after(1, 0.0, lambda: 1.0, asked=86_400.0) == 6 * 3600


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


@pytest.mark.anyio
@pytest.mark.requirement("WHK-2")
async def test_without_a_value_for_its_secret_nothing_is_sent_and_nothing_is_lost(
    store: Registry,
) -> None:
    with receiving() as receiver:
        for secret, reason in {"${NONE}": "is not set", "${BAD}": "is not `whsec_`"}.items():
            unusable = webhook(receiver, secret=(secret,))
            with pytest.raises(UnusableWebhookError, match=reason) as caught:
                target_of(unusable, settings(), SECRETS)
            assert "hunter2" not in str(caught.value)
        used = settings(unusable)
        store.save_settings(SCOPE, used)
        with anyio.fail_after(60):
            await dispatcher(store, used).drain(600.0)  # which does not wait for a value

        assert receiver.received == []
        assert state(store).pending == 1


@pytest.mark.anyio
@pytest.mark.requirement("WHK-14")
async def test_a_name_that_leads_into_ones_own_network_is_not_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def resolve(*_: object, **__: object) -> list[object]:
        return [(2, 1, 6, "", ("127.0.0.1", 80))]

    with receiving() as receiver:
        monkeypatch.setattr(anyio, "getaddrinfo", resolve)
        port = receiver.url.rpartition(":")[2]
        named = WebhookSettings("ops", f"https://hooks.example.com:{port}", ("${KEY}",))
        target = target_of(named, settings(), SECRETS)
        async with open_sender(target, clock=time.time) as sender:
            attempt = await sender.send("msg_1", "{}")

        assert "leads to this machine itself" in attempt.reason
        assert receiver.received == []
        own = replace(named, url=f"http://hooks.example.com:{port}", private=True)
        async with open_sender(target_of(own, settings(), SECRETS), clock=time.time) as sender:
            assert (await sender.send("msg_1", "{}")).is_accepted

    plain = replace(named, url="http://hooks.example.com/")
    with pytest.raises(UnusableWebhookError, match="neither https"):
        target_of(plain, settings(), SECRETS)


@pytest.mark.requirement("WHK-7")
def test_what_is_stored_outlives_the_process_that_stored_it(url: str) -> None:
    with receiving() as receiver:
        used = settings(webhook(receiver))
        if (pid := os.fork()) == 0:
            own = open_registry(url)
            own.save_settings(SCOPE, used)
            own.save_parts(SCOPE, [make_part("s0", "one")], revision=1)
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        with closing(open_registry(url)) as store:
            anyio.run(dispatcher(store, used).drain, 60.0)

    assert sorted(receiver.types) == ["server.added", "tool.added"]
