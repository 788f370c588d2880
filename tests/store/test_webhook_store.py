"""What every back-end of the registry promises to webhooks: which events are stored, and how."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.catalog import Entry, Failure, ServerPart
from discovery_engine.config.settings import Settings
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.rules.rule import Verdict
from discovery_engine.store.backends import open_registry
from discovery_engine.store.refresh_job import ClaimedPart, RefreshTarget
from discovery_engine.store.registry import Registry
from discovery_engine.store.schedule import NAMED_FOR
from discovery_engine.store.webhooks import Delivery
from discovery_engine.tools.model import ServerName
from tests.factories import make_entry, make_part, make_server, make_settings, save_together
from tests.store.registry_stores import back_ends, pass_time, url_of

SCOPE = "/home/someone/discovery.yaml"
HOUR = 3600.0
OPS = WebhookSettings("ops", "https://ops.example.com/hook", ("${OPS}",))


def settings(*names: str, webhooks: tuple[WebhookSettings, ...] = (OPS,)) -> Settings:
    return replace(make_settings(*map(make_server, names)), webhooks=webhooks)


def sent(store: Registry, webhook: str = "ops", *, limit: int = 1000) -> list[Delivery]:
    """Claim and finish everything that is due."""
    found = store.claim_deliveries(SCOPE, webhook, limit=limit, lease=HOUR)
    assert all(store.finish_delivery(one) for one in found)
    return sorted(found, key=lambda one: one.id)


def told(store: Registry, webhook: str = "ops") -> list[tuple[str, JSONObject]]:
    messages = [json.loads(one.body) for one in sent(store, webhook)]
    return [(one["type"], one["data"]) for one in messages]


def types(store: Registry, webhook: str = "ops") -> list[str]:
    return [kind for kind, _ in told(store, webhook)]


def held_entry(name: str, server: str = "a", **fields: str) -> Entry:
    entry = make_entry(name, server, **fields)
    return replace(entry, verdict=Verdict(enabled=False, reason="changed"))


def failing(part: ServerPart, at: float, *, began: float | None = None) -> ServerPart:
    failure = Failure("UPSTREAM_UNAVAILABLE", "it exited with code 1", "", at, began)
    return replace(part, failure=failure)


@pytest.mark.requirement("WHK-3", "FLT-21")
def test_a_server_that_workers_list_is_removed_once_no_process_names_it(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a", "b"))
    store.plan_refreshes(SCOPE, [RefreshTarget(ServerName("a"))])
    store.save_parts(SCOPE, [make_part("a", "one")], revision=1)
    sent(store)

    store.save_settings(SCOPE, settings("b"))  # as while a configuration is rolled out
    store.save_settings(SCOPE, settings("a", "b"))
    store.save_settings(SCOPE, settings("b"))
    assert told(store) == []

    pass_time(store, NAMED_FOR)
    store.name_servers(SCOPE, ["b"])
    assert told(store) == [("server.removed", {"server": "a"})]


@pytest.mark.requirement("WHK-3")
def test_a_listing_is_one_event_for_each_kind_of_change(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))
    sent(store)
    store.save_parts(SCOPE, [make_part("a", "one", "two", "three")], revision=1)

    tools = [{"name": name, "held": False} for name in ("one", "three", "two")]
    assert told(store) == [("tool.added", {"server": "a", "count": 3, "tools": tools})]

    changed = make_part(
        "a", make_entry("one", "a", description="Another"), held_entry("four"), "three",
        listed_at=2000.0, connection="other",
    )  # fmt: skip
    store.save_parts(SCOPE, [changed], revision=2)

    found = dict(told(store))
    assert found == {
        "tool.added": {"server": "a", "count": 1, "tools": [{"name": "four", "held": True}]},
        "tool.changed": {"server": "a", "count": 1, "tools": [{"name": "one", "held": False}]},
        "tool.removed": {"server": "a", "count": 1, "tools": [{"name": "two", "held": False}]},
        "tool.held": {"server": "a", "count": 1, "tools": [{"name": "four", "held": True}]},
    }

    store.save_parts(SCOPE, [replace(changed, listed_at=3000.0)], revision=3)
    assert sent(store) == []


@pytest.mark.requirement("WHK-3")
def test_a_webhook_gets_what_it_is_for(store: Registry) -> None:
    failures = WebhookSettings("failures", "https://x.example", events=("server.f*", "tool.held"))
    few = WebhookSettings("few", "https://x.example", servers=("g*", "!github"))
    off = WebhookSettings("off", "https://x.example", enabled=False)
    store.save_settings(SCOPE, settings("github", "gitlab", webhooks=(failures, few, off)))
    parts = [make_part(name, "one") for name in ("github", "gitlab")]
    store.save_parts(SCOPE, parts, revision=1)
    store.save_parts(SCOPE, [failing(parts[0], 2000.0)], revision=1, keep_newer=True)

    assert types(store, "failures") == ["server.failing"]
    assert [data["server"] for _, data in told(store, "few")] == ["gitlab", "gitlab"]
    assert [state.name for state in store.webhook_states(SCOPE)] == ["failures", "few"]


@pytest.mark.requirement("WHK-5")
def test_a_failure_is_told_of_once_until_the_server_is_well_again(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))
    part = make_part("a", "one")
    store.save_parts(SCOPE, [part], revision=1)
    sent(store)

    store.save_parts(SCOPE, [failing(part, 2000.0)], revision=1, keep_newer=True)
    store.save_parts(SCOPE, [failing(part, 2030.0, began=2000.0)], revision=1, keep_newer=True)
    store.save_parts(SCOPE, [failing(part, 2031.0)], revision=1, keep_newer=True)

    [(kind, data)] = told(store)
    assert kind == "server.failing"
    assert data == {
        "server": "a",
        "code": "UPSTREAM_UNAVAILABLE",
        "message": "it exited with code 1",
        "since": "1970-01-01T00:33:20Z",
    }

    store.save_parts(SCOPE, [part], revision=1, keep_newer=True)  # judged again, not listed
    assert sent(store) == []
    store.save_parts(SCOPE, [replace(part, listed_at=3000.0)], revision=1)
    assert told(store) == [("server.recovered", {"server": "a"})]
    # A gateway that has failed all along says nothing new.
    store.save_parts(SCOPE, [failing(part, 3030.0, began=2000.0)], revision=1, keep_newer=True)
    assert sent(store) == []
    store.save_parts(SCOPE, [failing(part, 9e9)], revision=1, keep_newer=True)
    assert types(store) == ["server.failing"]


@pytest.mark.requirement("WHK-5", "FLT-8")
def test_a_server_that_recovers_with_a_listing_as_before_is_told_of_among_others(
    store: Registry,
) -> None:
    store.save_settings(SCOPE, settings("a", "b"))
    parts = {name: make_part(name, "one") for name in "ab"}
    store.save_parts(SCOPE, parts.values(), revision=1)
    store.plan_refreshes(SCOPE, [RefreshTarget(ServerName(name)) for name in parts])
    [failed] = store.claim_refreshes(SCOPE, "w", limit=1, lease=HOUR)
    assert store.fail_refresh(failed.claim, "TIMEOUT", "it did not answer", retry_in=0.0)
    sent(store)

    jobs = store.claim_refreshes(SCOPE, "w", limit=2, lease=HOUR)
    listed = [
        ClaimedPart(job.claim, replace(parts[job.server], listed_at=2e3), HOUR) for job in jobs
    ]

    assert sorted(save_together(store, listed)) == ["saved", "unchanged"]
    assert [(kind, data["server"]) for kind, data in told(store)] == [("server.recovered", "a")]
    snapshot = store.load(SCOPE)
    assert snapshot
    assert not any(part.failure for part in snapshot.catalog.parts.values())


@pytest.mark.requirement("WHK-3")
@pytest.mark.parametrize("back_end", back_ends("sqlite", "postgresql"))
def test_gateways_that_save_the_same_listing_at_once_store_its_events_once(
    back_end: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = url_of(back_end, request, tmp_path)
    part = make_part("a", "one", "two")
    with ExitStack() as opened, ThreadPoolExecutor(6) as threads:
        stores = [opened.enter_context(closing(open_registry(url))) for _ in range(6)]

        list(threads.map(lambda one: one.save_settings(SCOPE, settings("a")), stores))
        list(threads.map(lambda one: one.save_parts(SCOPE, [part], revision=1), stores))

        def fail(store: Registry) -> None:
            store.save_parts(SCOPE, [failing(part, 2000.0)], revision=1, keep_newer=True)

        list(threads.map(fail, stores))

        assert Counter(types(stores[0])) == Counter(
            {"server.added": 1, "tool.added": 1, "server.failing": 1}
        )
