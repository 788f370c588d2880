"""Registered servers joined to settings, and recalled with what is remembered of these."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.config.sandbox_settings import SandboxSettings
from discovery_engine.config.settings import Settings
from discovery_engine.owner.server_plans import NewServer, plan_registrations
from discovery_engine.registry.codec import settings_from_text, settings_to_text
from discovery_engine.registry.memory import MemoryRegistry
from discovery_engine.registry.server_records import PackagePin, RegisteredServer
from discovery_engine.runtime.registered_servers import (
    RegisteredServers,
    Registrations,
    recalled,
    registrations,
)
from discovery_engine.runtime.trust_store import TrustStore
from discovery_engine.secrets.resolver import EnvironmentResolver
from tests.factories import make_server, make_settings
from tests.rows import rows

PATH = "/home/someone/discovery.yaml"
NAMES = ("a", "b", "A", "c.d")

entries = st.sampled_from(
    [
        {"command": "npx", "args": ["-y", "one@1.0.0"], "env": {"KEY": "${secret:a/KEY}"}},
        {"command": "uvx", "sandbox": {"kind": "none"}, "timeouts": {"connect": 5.0}},
        {"url": "https://x.example/mcp", "headers": {"X": "${Y}"}, "tags": ["t"]},
        {"command": "a-mcp-server"},
        {"colour": "red"},
    ]
)
records = st.builds(
    RegisteredServer,
    st.sampled_from(NAMES),
    entries,
    package=st.sampled_from([None, PackagePin("npm", "one", "1.0.0")]),
    created_at=st.floats(0, 1e9),
)
switches = st.dictionaries(
    st.sampled_from(["a", "b", *(f"registry:{name}" for name in NAMES)]), st.booleans()
)
files = st.builds(
    lambda servers, sandbox, *, found: replace(
        make_settings(*map(make_server, servers), path=PATH, is_untrusted_origin=found),
        server=replace(Settings().server, sandbox=sandbox),
    ),
    st.lists(st.sampled_from(["a", "b", "x"]), unique=True),
    st.sampled_from([SandboxSettings("none"), SandboxSettings("auto")]),
    found=st.booleans(),
)


@pytest.mark.requirement("OWN-34")
@given(
    settings=files,
    registered=st.lists(records, unique_by=lambda one: one.name),
    wanted=switches,
)
def test_what_is_recalled_is_what_was_joined(
    settings: Settings, registered: list[RegisteredServer], wanted: dict[str, bool]
) -> None:
    store = MemoryRegistry()
    store.save_servers(PATH, registered)
    store.set_switches(PATH, wanted, at=1.0)
    joined = RegisteredServers(store, {}).join(settings)

    stored = settings_from_text(settings_to_text(joined))
    found = recalled(stored, store)

    assert found is not None
    for server in joined.servers:
        kept = found.by_name[server.name]
        is_same = kept == server if server.is_registered else kept.transport is None
        assert is_same
    assert list(found.by_name) == list(joined.by_name)


@pytest.mark.requirement("OWN-11", "OWN-14")
@given(
    settings=files,
    registered=st.lists(records, unique_by=lambda one: one.name),
    wanted=switches,
)
def test_nothing_registered_changes_a_server_of_the_file_but_a_switch_that_disables_it(
    settings: Settings, registered: list[RegisteredServer], wanted: dict[str, bool]
) -> None:
    off = make_server("off", enabled=False)
    settings = replace(settings, servers=(*settings.servers, off))
    store = MemoryRegistry()
    store.save_servers(PATH, registered)
    store.set_switches(PATH, {**wanted, "off": True}, at=1.0)

    joined = RegisteredServers(store, {}).join(settings)

    for server in settings.servers:
        after = joined.by_name[server.name]
        is_off = wanted.get(server.name) is False and server.enabled
        changed = replace(server, enabled=False, switch="off") if is_off else server
        assert replace(after, transport=None) == replace(changed, transport=None)
    assert all(server.is_untrusted_origin for server in joined.servers if server.is_registered)
    assert RegisteredServers(store, {}).join(joined) is not None


def test_without_anything_registered_settings_are_as_they_were() -> None:
    settings = make_settings("a", path=PATH)

    assert RegisteredServers(MemoryRegistry(), {}).join(settings) is settings


def test_another_mark_is_noticed_and_a_registry_that_fails_keeps_what_was_read() -> None:
    store = MemoryRegistry()
    known = RegisteredServers(store, {})
    settings = make_settings("a", path=PATH)
    assert known.is_current(settings)

    store.save_servers(PATH, [RegisteredServer("b", {"command": "b"})])
    assert not known.is_current(settings)
    joined = known.join(settings)
    assert known.is_current(joined)
    assert recalled(settings, store) is None
    assert registrations(store, settings).servers.keys() == {"b"}


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called."""
    count = 0

    def profile(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.thorough
@pytest.mark.requirement("OWN-23")
def test_the_work_for_many_servers_grows_with_their_number(tmp_path: Path) -> None:
    settings = make_settings(path=PATH)
    environ = {"PATH": str(tmp_path)}

    def work(number: int) -> tuple[int, int]:
        servers = [
            NewServer(RegisteredServer(f"s{n}", {"command": "npx", "args": [f"p{n}@1"]}))
            for n in range(number)
        ]
        store = MemoryRegistry()

        def plan_and_save() -> None:
            found = plan_registrations(settings, Registrations(), servers, environ)
            store.save_servers(PATH, [plan.saved for plan in found.plans.values() if plan.saved])

        def open_again() -> None:
            joined = RegisteredServers(store, environ).join(settings)
            secrets = EnvironmentResolver(environ)
            trust = TrustStore(store, secrets=secrets, environ=environ, clock=lambda: 1.0)
            assert len(trust.load(joined).refused) == number

        return calls_of(plan_and_save), calls_of(open_again)

    work(10)  # what is imported and compiled once
    small, large = work(50), work(400)

    assert large[0] < 12 * small[0]
    assert large[1] < 12 * small[1]


@pytest.mark.requirement("SCP-13")
@rows("entry", [{"visibleTo": ["team:a"]}, {"visibleTo": "a"}, {}])
def test_an_entry_that_cannot_be_used_is_reserved_if_it_has_principals(
    entry: dict[str, Any],
) -> None:
    store, settings = MemoryRegistry(), make_settings(path=PATH)
    store.save_servers(PATH, [RegisteredServer("a", {"colour": "red", **entry})])

    joined = RegisteredServers(store, {}).join(settings)

    assert joined.servers[0].problem
    assert joined.reserves is bool(entry)
    assert joined.principals == frozenset()
