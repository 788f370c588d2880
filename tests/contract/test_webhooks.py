"""Webhooks as their owner and their receivers see them: specs/webhooks.md."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine import ConfigurationError, load_settings
from discovery_engine.errors import WebhookNotFoundError
from tests.api_server import serving
from tests.contract.discovery import Discovery
from tests.engines import Folder
from tests.factories import make_definition
from tests.forked import Preloaded
from tests.receivers import SECRET, Receiver, receiving
from tests.rows import rows
from tests.servers.programs import eventually
from tests.store.registry_stores import back_ends, url_of
from tests.store.test_workers import Machines

PAGE = Path(__file__).parents[2] / "specs" / "webhooks.md"
OTHER = "whsec_" + "QUFB" * 10


def section(receiver: Receiver, **fields: Any) -> dict[str, Any]:
    return {"ops": {"url": receiver.url, "secret": "${HOOK_KEY}", **fields}}


@pytest.fixture(params=back_ends("sqlite", "postgresql"))
def machines(request: pytest.FixtureRequest, tmp_path: Path) -> Machines:
    url = "" if request.param == "sqlite" else url_of(request.param, request, tmp_path)
    return Machines(tmp_path, url, {"HOOK_KEY": SECRET, "OLD_KEY": OTHER})


@pytest.mark.anyio
@pytest.mark.requirement("WHK-3", "WHK-8")
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
            await machines.work()
            states = await gateway.webhooks.states()

    events = {one.id: one.message["type"] for one in receiver.received}  # each at least once
    assert sorted(events.values()) == ["server.added", "tool.added", "tool.changed", "tool.held"]
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
@pytest.mark.requirement("WHK-1", "WHK-8")
async def test_an_event_is_sent_again_under_its_id_and_the_example_of_the_page_verifies_it(
    tmp_path: Path,
) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    is_genuine: Callable[[str, dict[str, str], bytes], bool] = names["is_genuine"]
    machines = Machines(tmp_path, "", {"HOOK_KEY": SECRET, "OLD_KEY": OTHER})
    with receiving() as receiver:
        receiver.statuses = [500, 204]
        secrets = ["${HOOK_KEY}", "${OLD_KEY}"]
        machines.write(webhooks=section(receiver, secret=secrets, events="server.added"))
        async with machines.gateway():
            await eventually(lambda: len(receiver.received) == 2)

        first, second = receiver.received
    assert first.id == second.id
    assert first.body == second.body
    assert first.message["data"] == {"server": "told"}
    headers, body = first.headers, first.body
    assert is_genuine(SECRET, headers, body)
    assert is_genuine(OTHER, headers, body)
    assert not is_genuine("whsec_" + "QkJC" * 10, headers, body)
    assert not is_genuine(SECRET, headers, body + b" ")
    assert not is_genuine(SECRET, {**headers, "webhook-id": "msg_2"}, body)
    old = {**headers, "webhook-timestamp": str(int(time.time()) - 3600)}
    assert not is_genuine(SECRET, old, body)


@pytest.mark.anyio
@pytest.mark.requirement("WHK-5")
async def test_a_worker_that_works_once_sends_what_it_found_out(machines: Machines) -> None:
    with receiving() as receiver:
        broken = {"command": "false"}
        machines.write(servers={"broken": broken}, webhooks=section(receiver, events="server.f*"))
        await machines.work()

    [message] = [one.message for one in receiver.received]
    assert message["type"] == "server.failing"
    assert message["data"]["server"] == "broken"
    assert "exited" in message["data"]["message"]


@pytest.mark.anyio
@pytest.mark.requirement("WHK-9", "WHK-16")
async def test_a_receiver_that_is_gone_is_sent_nothing_more_until_its_webhook_is_retried(
    tmp_path: Path, forked: Preloaded
) -> None:
    folder = Folder(tmp_path)
    home = Discovery(tmp_path, forked)
    machines = Machines(tmp_path, "", {"HOOK_KEY": SECRET})
    with receiving() as receiver:
        receiver.statuses = [410]
        machines.write(webhooks=section(receiver, events="server.*", secret="${file:key}"))
        without = home("webhooks", "list")
        (tmp_path / "key").write_text(SECRET, "utf-8")
        await machines.work()
        shown, as_json = home("webhooks", "list"), home("webhooks", "list", "--json")
        sick = home("doctor")
        async with folder.open() as engine, serving(engine, folder) as api:
            await engine.complete_settings()
            [answer] = (await api.get("/webhooks"))["webhooks"]
            metrics = await api.ask("/../metrics")
            refused = await api.ask("/webhooks", "POST", json={"action": "test"})
            receiver.statuses = [200]
            tested = await api.ask("/webhooks", "POST", json={"action": "test"})
            unknown = await api.ask("/webhooks", "POST", json={"action": "test", "names": ["op"]})
            with pytest.raises(WebhookNotFoundError):
                await engine.webhooks.retry(["op"])
        unclear, misspelt = home("webhooks", "retry"), home("webhooks", "retry", "op")
        retried = home("webhooks", "retry", "ops")
        await machines.work()
        well = home("webhooks", "list")

    assert without.code == shown.code == as_json.code == 7
    assert "HTTP 410" in shown.out
    assert "`discovery webhooks retry ops`" in shown.err
    assert as_json.json["webhooks"][0]["dead"] == answer["dead"] == 1
    assert "webhook ops" in sick.out
    assert 'discovery_webhook_deliveries{state="dead",webhook="ops"} 1.0' in metrics.text
    accepted = [one.json()["tests"][0]["accepted"] for one in (refused, tested)]
    assert accepted == [False, True]
    assert (unknown.status_code, unclear.code, misspelt.code) == (404, 2, 2)
    assert "did you mean 'ops'?" in misspelt.err
    assert "due now: 1 delivery" in retried.err
    assert receiver.types == ["server.added", "webhook.test", "webhook.test", "server.added"]
    assert well.code == 0


@pytest.mark.anyio
@pytest.mark.requirement("WHK-2", "WHK-16")
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


@pytest.mark.anyio
@pytest.mark.requirement("WHK-14")
async def test_a_name_that_leads_into_ones_own_network_is_not_connected_to(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def resolve(*_: object, **__: object) -> list[object]:
        return [(2, 1, 6, "", ("127.0.0.1", 80))]

    attempts = []
    with receiving() as receiver:
        port = receiver.url.rpartition(":")[2].partition("/")[0]
        for fields in (
            {"url": f"https://hooks.example.com:{port}"},
            {"url": f"http://hooks.example.com:{port}", "private": True},
        ):
            folder.write(webhooks=section(receiver, **fields))
            async with folder.open(environ={"HOOK_KEY": SECRET}) as engine:
                with monkeypatch.context() as patched:
                    patched.setattr(anyio, "getaddrinfo", resolve)
                    attempts.append(await engine.webhooks.test("ops"))
        guarded, private = attempts

    assert not guarded.is_accepted
    assert "leads to this machine itself" in guarded.reason
    assert private.is_accepted
    assert len(receiver.received) == 1


def problem(tmp_path: Path, entry: str) -> str:
    file = tmp_path / "discovery.yaml"
    file.write_text(f"webhooks:\n  ops: {entry}\n", "utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_settings(file)
    return str(caught.value)


@pytest.mark.requirement("WHK-2")
@rows("secret", ["whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB", "${KEY:-whsec_QUFB}", "whsec_${KEY}"])
def test_a_literal_secret_is_refused_and_not_repeated(tmp_path: Path, secret: str) -> None:
    message = problem(tmp_path, f"{{url: 'https://a.example', secret: '{secret}'}}")

    assert "webhooks.ops.secret" in message
    assert "must be a reference" in message
    assert "QUFB" not in message


@pytest.mark.requirement("WHK-14")
@rows(
    ("entry", "expected"),
    [
        ("{url: 'ftp://a.example', secret: '${KEY}'}", "must be an http:// or https:// address"),
        ("{url: 'https://169.254.169.254/latest', secret: '${KEY}'}", "never connected to"),
        ("{url: 'http://a.example', secret: '${KEY}'}", "`private: true`"),
        ("{url: 'https://a.example', secret: '${A}', events: tool.add}", "'tool.added'"),
    ],
)
def test_a_mistake_names_its_place_and_what_is_expected(
    tmp_path: Path, entry: str, expected: str
) -> None:
    message = problem(tmp_path, entry)

    assert "webhooks.ops" in message
    assert expected in message
