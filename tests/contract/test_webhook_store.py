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
from discovery_engine.fleet.refresh_job import RefreshClaim, RefreshTarget
from discovery_engine.fleet.schedule import MOST_LOSSES, NAMED_FOR
from discovery_engine.registry.backends import open_registry
from discovery_engine.registry.protocols import Registry
from discovery_engine.registry.refresh_queue import ClaimedPart
from discovery_engine.registry.webhook_rows import address_of
from discovery_engine.rules.rule import Verdict
from discovery_engine.tools.model import ServerName
from discovery_engine.webhooks.delivery import Delivery
from discovery_engine.webhooks.delivery_schedule import GIVE_UP_AFTER
from tests.contract.registry_stores import back_ends, pass_time, url_of
from tests.factories import make_entry, make_part, make_server, make_settings, save_together

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


def claimed(store: Registry, name: str = "a") -> RefreshClaim:
    store.plan_refreshes(SCOPE, [RefreshTarget(ServerName(name))])
    store.hasten_refreshes(SCOPE)
    [job] = store.claim_refreshes(SCOPE, "worker", limit=1, lease=HOUR)
    return job.claim


@pytest.mark.requirement("WHK-3")
def test_servers_that_come_and_go_are_told_of_once(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a", "b"))
    store.save_settings(SCOPE, settings("a", "b"))

    assert told(store) == [("server.added", {"server": "a"}), ("server.added", {"server": "b"})]

    store.save_settings(SCOPE, settings("b"))

    assert told(store) == [("server.removed", {"server": "a"})]
    assert sent(store) == []


@pytest.mark.requirement("WHK-3", "FLT-24")
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


@pytest.mark.requirement("WHK-3", "WHK-4")
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


@pytest.mark.requirement("WHK-4")
def test_a_review_and_another_address_of_a_server_are_told_of(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))
    part = make_part("a", held_entry("one"), connection="1", instructions="Read.")
    store.save_parts(SCOPE, [part], revision=1)
    sent(store)

    store.save_parts(SCOPE, [replace(part, entries=(make_entry("one", "a"),))], revision=2)
    assert types(store) == ["tool.released"]

    other = make_part("a", "one", connection="2", instructions="Write.", listed_at=2000.0)
    store.save_parts(SCOPE, [other], revision=3)
    assert told(store) == [
        ("server.changed", {"server": "a", "changes": ["connection", "instructions"]})
    ]


@pytest.mark.requirement("WHK-4")
def test_a_message_names_no_more_than_a_hundred_tools_and_counts_all(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))
    sent(store)
    store.save_parts(SCOPE, [make_part("a", *(f"tool_{n}" for n in range(250)))], revision=1)

    [(kind, data)] = told(store)

    assert (kind, data["count"], len(data["tools"])) == ("tool.added", 250, 100)


@pytest.mark.requirement("WHK-6")
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

    store.save_parts(SCOPE, [part], revision=1, keep_newer=True)  # judged anew, not listed
    assert sent(store) == []
    store.save_parts(SCOPE, [replace(part, listed_at=3000.0)], revision=1)
    assert told(store) == [("server.recovered", {"server": "a"})]
    # A gateway that has failed all along says nothing new.
    store.save_parts(SCOPE, [failing(part, 3030.0, began=2000.0)], revision=1, keep_newer=True)
    assert sent(store) == []
    store.save_parts(SCOPE, [failing(part, 9e9)], revision=1, keep_newer=True)
    assert types(store) == ["server.failing"]


@pytest.mark.requirement("WHK-5")
@pytest.mark.parametrize("pause", ["left out", "disabled"])
def test_what_was_sent_of_a_failure_before_a_time_without_webhooks_counts_no_more(
    store: Registry, pause: str
) -> None:
    store.save_settings(SCOPE, settings("a", "b"))
    parts = [make_part("a", "one"), make_part("b", "two")]
    store.save_parts(SCOPE, parts, revision=1)
    ill = [failing(part, 2000.0) for part in parts]
    store.save_parts(SCOPE, ill, revision=1, keep_newer=True)
    assert types(store).count("server.failing") == 2

    if pause == "left out":
        store.save_settings(SCOPE, settings("a", "b", webhooks=()))
        store.save_settings(SCOPE, settings("a", "b"))
    else:
        store.disable_webhook(SCOPE, "ops", "HTTP 410", address=address_of(OPS))
        store.retry_deliveries(SCOPE)
    sent(store)
    store.save_parts(SCOPE, [replace(parts[0], listed_at=3000.0)], revision=1)
    assert sent(store) == []  # no `server.recovered` without a `server.failing`
    store.save_parts(SCOPE, [failing(parts[1], 4000.0)], revision=1, keep_newer=True)
    assert [(kind, data["server"]) for kind, data in told(store)] == [("server.failing", "b")]


@pytest.mark.requirement("WHK-5")
def test_what_a_worker_finds_out_is_told_of_as_well(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))
    sent(store)
    for _ in range(2):
        claim = claimed(store)
        assert store.fail_refresh(claim, "TIMEOUT", "it did not answer", retry_in=HOUR)
    store.save_parts(SCOPE, [failing(make_part("a"), 2000.0)], revision=1, keep_newer=True)

    assert types(store) == ["server.failing"]

    claim = claimed(store)
    part = make_part("a", "one", listed_at=3000.0)
    assert store.save_claimed(claim, part, due_in=HOUR, revision=2) == "saved"
    again = replace(part, listed_at=4e3)
    assert store.save_claimed(claimed(store), again, due_in=HOUR, revision=2) == "unchanged"

    assert sorted(types(store)) == ["server.recovered", "tool.added"]


@pytest.mark.requirement("WHK-5", "FLT-26")
def test_a_server_that_recovers_with_a_listing_as_before_is_told_of_among_others(
    store: Registry,
) -> None:
    store.save_settings(SCOPE, settings("a", "b"))
    parts = {name: make_part(name, "one") for name in "ab"}
    store.save_parts(SCOPE, parts.values(), revision=1)
    read = store.load(SCOPE)
    store.plan_refreshes(SCOPE, [RefreshTarget(ServerName(name)) for name in parts])
    [failed] = store.claim_refreshes(SCOPE, "w", limit=1, lease=HOUR)
    assert store.fail_refresh(failed.claim, "TIMEOUT", "it did not answer", retry_in=0.0)
    sent(store)

    jobs = store.claim_refreshes(SCOPE, "w", limit=2, lease=HOUR)
    listed = [
        ClaimedPart(job.claim, replace(parts[job.server], listed_at=2e3), HOUR) for job in jobs
    ]

    assert save_together(store, listed) == ["unchanged", "unchanged"]
    assert [(kind, data["server"]) for kind, data in told(store)] == [("server.recovered", "a")]
    assert store.load(SCOPE) == read


@pytest.mark.requirement("WHK-5")
def test_a_server_with_which_workers_are_lost_is_failing(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))
    store.plan_refreshes(SCOPE, [RefreshTarget(ServerName("a"))])
    sent(store)
    for _ in range(MOST_LOSSES + 1):
        store.claim_refreshes(SCOPE, "worker", limit=1, lease=0.0)

    [(kind, data)] = told(store)

    assert (kind, data["code"]) == ("server.failing", "WORKER_LOST")


@pytest.mark.requirement("WHK-7")
def test_a_write_that_was_refused_stores_no_event(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))
    sent(store)
    lost = claimed(store)
    store.return_claims([lost])
    claimed(store)

    part = make_part("a", "one")
    assert store.save_claimed(lost, part, due_in=HOUR, revision=1) == "lost"
    assert not store.fail_refresh(lost, "TIMEOUT", "late", retry_in=HOUR)
    store.save_parts(SCOPE, [make_part("unknown", "one")], revision=1)

    assert sent(store) == []


@pytest.mark.requirement("WHK-8")
def test_a_delivery_is_claimed_by_one_process_until_its_lease_ends(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))

    assert store.due_webhooks(SCOPE) == {"ops"}
    [first] = store.claim_deliveries(SCOPE, "ops", limit=9, lease=0.0)
    [second] = store.claim_deliveries(SCOPE, "ops", limit=9, lease=HOUR)
    assert store.due_webhooks(SCOPE) == frozenset()
    assert store.claim_deliveries(SCOPE, "ops", limit=9, lease=HOUR) == ()

    assert (first.event_id, first.body) == (second.event_id, second.body)
    assert (first.attempts, second.attempts) == (1, 2)
    assert not store.finish_delivery(first)
    assert not store.fail_delivery(first, "late", retry_in=0.0)
    assert store.finish_delivery(second)
    [state] = store.webhook_states(SCOPE)
    assert (state.delivered, state.pending, state.failure) == (1, 0, "")


@pytest.mark.requirement("WHK-9")
def test_a_delivery_that_fails_is_due_again_or_dead_until_it_is_retried(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))
    [first] = store.claim_deliveries(SCOPE, "ops", limit=9, lease=HOUR)
    assert store.fail_delivery(first, "HTTP 500", retry_in=0.0)
    [second] = store.claim_deliveries(SCOPE, "ops", limit=9, lease=HOUR)
    assert store.fail_delivery(second, "HTTP 502", retry_in=None)

    [state] = store.webhook_states(SCOPE)
    assert (state.pending, state.dead, state.failure) == (0, 1, "HTTP 502")
    assert store.due_webhooks(SCOPE) == frozenset()
    assert store.retry_deliveries(SCOPE, ["other"]) == 0
    assert store.retry_deliveries(SCOPE) == 1
    [third] = store.claim_deliveries(SCOPE, "ops", limit=9, lease=HOUR)
    assert (third.event_id, third.attempts) == (first.event_id, 1)
    assert not store.finish_delivery(second)


@pytest.mark.requirement("WHK-10")
def test_a_webhook_that_is_gone_stores_nothing_until_it_is_retried_or_moved(
    store: Registry,
) -> None:
    store.save_settings(SCOPE, settings("a"))
    [claim] = store.claim_deliveries(SCOPE, "ops", limit=9, lease=HOUR)

    assert store.disable_webhook(SCOPE, "ops", "HTTP 410", address=address_of(OPS)) == 1
    assert not store.finish_delivery(claim)
    store.save_settings(SCOPE, settings("a", "b"))
    [state] = store.webhook_states(SCOPE)
    assert (state.pending, state.dead, state.failure) == (0, 1, "HTTP 410")
    assert state.disabled_at is not None

    assert store.retry_deliveries(SCOPE, ["ops"]) == 1
    store.save_settings(SCOPE, settings("a", "b", "c"))
    assert [data["server"] for _, data in told(store)] == ["a", "c"]

    store.disable_webhook(SCOPE, "ops", "HTTP 410", address=address_of(OPS))
    moved = replace(OPS, url="https://new.example.com/hook")
    store.save_settings(SCOPE, settings("a", webhooks=(moved,)))
    assert types(store) == ["server.removed", "server.removed"]


@pytest.mark.requirement("WHK-10")
def test_that_an_earlier_address_is_gone_says_nothing_of_the_present_one(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))
    moved = replace(OPS, url="https://new.example.com/hook")
    store.save_settings(SCOPE, settings("a", webhooks=(moved,)))

    assert store.disable_webhook(SCOPE, "ops", "HTTP 410", address=address_of(OPS)) == 0

    [state] = store.webhook_states(SCOPE)
    assert (state.pending, state.dead, state.disabled_at, state.failure) == (1, 0, None, "")


@pytest.mark.requirement("WHK-11")
def test_of_too_many_deliveries_the_oldest_are_dropped_and_counted(
    store: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("postgres.webhook_queries", "sqlite.webhook_table", "memory_webhooks"):
        monkeypatch.setattr(f"discovery_engine.registry.{module}.MOST_STORED", 3)
    store.save_settings(SCOPE, settings("a", "b", "c", "d", "e"))

    [state] = store.webhook_states(SCOPE)
    assert (state.pending, state.dropped) == (3, 2)
    assert [data["server"] for _, data in told(store)] == ["c", "d", "e"]


@pytest.mark.requirement("WHK-12")
def test_what_waits_for_a_webhook_outlives_a_configuration_without_it(store: Registry) -> None:
    store.save_settings(SCOPE, settings("a"))
    store.save_settings(SCOPE, settings("a", "b", webhooks=()))

    assert store.webhook_states(SCOPE) == ()
    assert told(store) == [("server.added", {"server": "a"})]

    store.save_settings(SCOPE, settings("a", "b", "c"))
    assert told(store) == [("server.added", {"server": "c"})]


@pytest.mark.requirement("WHK-12")
def test_what_waits_for_a_webhook_that_was_left_out_is_dropped_after_three_days(
    store: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out = settings("a", webhooks=())
    store.save_settings(SCOPE, settings("a"))
    store.save_settings(SCOPE, left_out)
    for module in ("postgres.webhook_queries", "sqlite.webhook_table", "memory_webhooks"):
        monkeypatch.setattr(f"discovery_engine.registry.{module}.GIVE_UP_AFTER", -1.0)

    store.save_settings(SCOPE, left_out)  # by any start of a gateway

    assert GIVE_UP_AFTER == 3 * 24 * HOUR
    assert store.claim_deliveries(SCOPE, "ops", limit=9, lease=HOUR) == ()


@pytest.mark.requirement("WHK-7")
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
