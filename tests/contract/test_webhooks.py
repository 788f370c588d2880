"""Webhooks as their owner has them, in processes, commands and the API: specs/webhooks.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.engine import Engine
from discovery_engine.errors import WebhookNotFoundError
from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.runtime.refresh_worker import WorkerOptions
from discovery_engine.webhooks.delivery import Delivery
from discovery_engine.webhooks.message_signature import key_of_secret, signed_headers
from tests.api_server import serving
from tests.contract.discovery import Discovery
from tests.contract.registry_stores import back_ends, url_of
from tests.contract.test_webhook_store import SCOPE
from tests.contract.test_webhook_store import settings as webhook_settings
from tests.contract.test_workers import Machines
from tests.engines import Folder, good
from tests.factories import make_definition, make_part
from tests.forked import Preloaded
from tests.receivers import SECRET, Receiver, receiving
from tests.servers.programs import eventually

PAGE = Path(__file__).parents[2] / "specs" / "webhooks.md"


def section(receiver: Receiver, **fields: Any) -> dict[str, Any]:
    return {"ops": {"url": receiver.url, "secret": "${HOOK_KEY}", **fields}}


@pytest.fixture(params=back_ends("sqlite", "postgresql"))
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Machines:
    url = "" if request.param == "sqlite" else url_of(request.param, request, tmp_path)
    return Machines(tmp_path, url, {"HOOK_KEY": SECRET})


@pytest.mark.anyio
@pytest.mark.requirement("WHK-3", "WHK-4", "WHK-15")
async def test_a_program_is_told_once_of_what_several_gateways_and_a_worker_find_out(
    machines: Machines,
) -> None:
    with receiving() as receiver:
        machines.write(webhooks=section(receiver))
        async with machines.gateway() as gateway, machines.gateway("other"):
            await eventually(lambda: "tool.added" in receiver.types)
            machines.told.says(make_definition("ping", "Another meaning."))
            await gateway.refresh()
            await eventually(lambda: "tool.held" in receiver.types)
            async with machines.open("worker", worker=True) as worker:
                await worker.work(WorkerOptions(is_once=True), lambda _: None)
            states = await gateway.webhooks.states()

    assert sorted(receiver.types) == ["server.added", "tool.added", "tool.changed", "tool.held"]
    held = next(one for one in receiver.received if one.message["type"] == "tool.held")
    assert held.is_signed_with(SECRET)
    assert held.message["data"] == {
        "server": "told",
        "count": 1,
        "tools": [{"name": "ping", "held": True}],
    }
    assert states[0].delivered == 4
    assert "meaning" not in "".join(one.body.decode() for one in receiver.received)


@pytest.mark.anyio
@pytest.mark.requirement("WHK-5", "WHK-8")
async def test_a_worker_that_works_once_sends_what_it_found_out(machines: Machines) -> None:
    with receiving() as receiver:
        broken = {"command": "false"}
        machines.write(servers={"broken": broken}, webhooks=section(receiver, events="server.f*"))
        await machines.work()

    [message] = [one.message for one in receiver.received]
    assert message["type"] == "server.failing"
    assert message["data"]["server"] == "broken"
    assert "exited" in message["data"]["message"]


def failing(engine: Engine) -> None:
    """One delivery of the webhook is dead."""
    store, scope = engine._core.store, catalog_key_of(engine.settings)
    [delivery] = store.claim_deliveries(scope, "ops", limit=1, lease=600)
    store.fail_delivery(delivery, "HTTP 500", retry_in=None)


@pytest.mark.anyio
@pytest.mark.requirement("WHK-16", "WHK-17", "WHK-18")
async def test_webhooks_are_in_the_library_the_api_and_the_metrics(folder: Folder) -> None:
    with receiving() as receiver:
        folder.write(good("a"), webhooks=section(receiver))
        environ = {"HOOK_KEY": SECRET}
        async with folder.open(environ=environ) as engine, serving(engine, folder) as api:
            await engine.complete_settings()
            failing(engine)
            shown = (await api.get("/webhooks"))["webhooks"]
            metrics = await api.ask("/../metrics")
            tested = await api.ask("/webhooks/test", "POST", json={"name": "ops"})
            unknown = await api.ask("/webhooks/test", "POST", json={"name": "op"})
            retried = await api.ask("/webhooks/retry", "POST", json={})
            [report] = await engine.webhooks.list()
            with pytest.raises(WebhookNotFoundError):
                await engine.webhooks.retry(["op"])

    assert (shown[0]["condition"], shown[0]["dead"], shown[0]["failure"]) == (
        "failing",
        1,
        "HTTP 500",
    )
    assert 'discovery_webhook_deliveries{state="dead",webhook="ops"} 1.0' in metrics.text
    assert 'discovery_webhook_delivered_total{webhook="ops"} 0.0' in metrics.text
    assert tested.json()["accepted"]
    assert receiver.types == ["webhook.test"]
    assert receiver.received[0].is_signed_with(SECRET)
    assert unknown.status_code == 404
    assert "did you mean 'ops'?" in unknown.text
    assert retried.json() == {"retried": 1}
    assert (report.state.pending, report.state.dead) == (1, 0)


@pytest.mark.thorough
@pytest.mark.anyio
@pytest.mark.requirement("WHK-16", "WHK-17")
async def test_the_commands_show_test_and_retry(tmp_path: Path, forked: Preloaded) -> None:
    folder = Folder(tmp_path)
    folder.write()
    home = Discovery(tmp_path, forked)
    assert "no webhook is configured" in home("webhooks", "list").err
    quiet = home("doctor")
    with receiving() as receiver:
        folder.write(good("a"), webhooks=section(receiver, secret="${file:key}"))
        without = home("webhooks", "list")
        (tmp_path / "key").write_text(SECRET, "utf-8")
        async with folder.open(environ=home.environ) as engine:
            await engine.complete_settings()
            failing(engine)

        shown, as_json = home("webhooks", "list"), home("webhooks", "list", "--json")
        sick = home("doctor")
        tested = home("webhooks", "test", "ops")
        receiver.statuses = [403]
        refused = home("webhooks", "test", "ops")
        unclear, unknown = home("webhooks", "retry"), home("webhooks", "retry", "op")
        retried = home("webhooks", "retry", "ops")
        again = home("webhooks", "retry", "--all-dead", "--json")
        waiting = home("doctor")

    assert not any("webhook" in line for line in quiet.out.splitlines())
    assert "✗  webhook ops" in sick.out
    assert "1 delivery given up: HTTP 500 [WEBHOOK_UNDELIVERED]" in sick.out
    assert "!  webhook ops" in waiting.out
    assert "1 event waits: HTTP 500 [WEBHOOK_FAILING]" in waiting.out
    assert without.code == shown.code == as_json.code == 7
    assert "${file:key}" in without.out
    assert "HTTP 500" in shown.out
    assert "`discovery webhooks retry ops`" in shown.err
    assert as_json.json["webhooks"][0]["dead"] == 1
    assert (tested.code, refused.code) == (0, 5)
    assert "accepted: HTTP 200" in tested.err
    assert "not accepted: HTTP 403" in refused.err
    assert unclear.code == unknown.code == 2
    assert "did you mean 'ops'?" in unknown.err
    assert "due now: 1 delivery" in retried.err
    assert again.json["retried"] == 0
    assert home("webhooks", "list").code == 0


@pytest.mark.anyio
@pytest.mark.requirement("WHK-16")
async def test_webhooks_of_a_file_that_is_not_trusted_are_said_to_be_ignored(
    tmp_path: Path, forked: Preloaded
) -> None:
    folder = Folder(tmp_path)
    with receiving() as receiver:
        folder.write(webhooks=section(receiver))
        home = Discovery(tmp_path, forked)
        (tmp_path / "discovery.yaml").chmod(0o666)
        shown, as_json = home("webhooks", "list"), home("webhooks", "list", "--json")
        tested = home("webhooks", "test", "ops")
        async with folder.open() as engine, serving(engine, folder) as api:
            answer = await api.get("/webhooks")

    assert shown.code == as_json.code == 7
    assert "webhooks: is ignored, because this file is not trusted" in shown.err
    assert as_json.json["refusal"]["code"] == answer["refusal"]["code"] == "CONFIG_RESTRICTED"
    assert answer["webhooks"] == []
    assert "webhooks: is ignored" in tested.err
    assert receiver.received == []


@pytest.mark.requirement("WHK-1")
def test_the_example_of_the_page_verifies_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    is_genuine: Callable[[str, dict[str, str], bytes], bool] = names["is_genuine"]
    at = 1_700_000_000.0
    monkeypatch.setattr("time.time", lambda: at + 60)
    body = b'{"type":"webhook.test"}'
    other = "whsec_" + "QUFB" * 10
    keys = [key_of_secret(other), key_of_secret(SECRET)]
    headers = dict(signed_headers("msg_1", body, keys, at=at))

    assert is_genuine(SECRET, headers, body)
    assert is_genuine(other, headers, body)
    assert not is_genuine("whsec_" + "QkJC" * 10, headers, body)
    assert not is_genuine(SECRET, headers, body + b" ")
    assert not is_genuine(SECRET, {**headers, "webhook-id": "msg_2"}, body)
    old = dict(signed_headers("msg_1", body, keys, at=at - 3600))
    assert not is_genuine(SECRET, old, body)


@pytest.mark.requirement("WHK-1")
def test_a_signature_is_the_one_of_the_specification() -> None:
    # The example of the specification's own libraries.
    key = key_of_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'

    headers = signed_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", body, [key], at=1614265330)

    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


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
        self.store.save_settings(SCOPE, webhook_settings("a", webhooks=(ops,)))

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
@pytest.mark.requirement("WHK-7", "WHK-8", "WHK-9")
@given(steps=st.lists(st.sampled_from(STEPS), max_size=40))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
