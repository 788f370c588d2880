"""Registered servers joined to settings, and recalled with what is remembered of these."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.config.serve_settings import SandboxSettings
from discovery_engine.config.settings import Settings
from discovery_engine.engine.registered_servers import RegisteredServers, recalled
from discovery_engine.store.codec import settings_from_text, settings_to_text
from discovery_engine.store.memory import MemoryRegistry
from discovery_engine.store.server_records import PackagePin, RegisteredServer
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


@given(
    settings=files, registered=st.lists(records, unique_by=lambda one: one.name), wanted=switches
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
        assert server in found.servers if server.is_registered else server.name in found.by_name
    assert list(found.by_name) == list(joined.by_name)


@pytest.mark.requirement("OWN-10", "OWN-13")
@given(
    settings=files, registered=st.lists(records, unique_by=lambda one: one.name), wanted=switches
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


@pytest.mark.requirement("SCP-12")
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
