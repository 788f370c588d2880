"""What a process reads of decisions, after each decision of anybody."""

from __future__ import annotations

import pytest

from discovery_engine.config.files.location import decision_scope
from discovery_engine.engine.trust_store import TrustStore
from discovery_engine.secrets.resolver import EnvironmentResolver
from discovery_engine.store.memory import MemoryRegistry
from discovery_engine.trust.decisions import Acceptance, AcceptedTools
from tests.factories import make_settings

SETTINGS = make_settings("a", "b", "c", name="team", path="/etc/discovery.yaml")
SCOPE = decision_scope(SETTINGS)


class CountingRegistry(MemoryRegistry):
    """Counts the servers whose acceptances are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_servers: list[str] = []

    def accepted(self, scope: str, server: str) -> AcceptedTools:
        self.read_servers.append(server)
        return super().accepted(scope, server)


@pytest.fixture
def store() -> CountingRegistry:
    return CountingRegistry()


@pytest.fixture
def trust(store: CountingRegistry) -> TrustStore:
    return TrustStore(store, secrets=EnvironmentResolver({}), environ={}, clock=lambda: 1.0)


def read_all(trust: TrustStore) -> dict[str, AcceptedTools]:
    trust.trust = trust.load(SETTINGS)
    return {server.name: trust.trust.accepted(server) for server in SETTINGS.servers}


def acceptance(server: str, meaning: str = "1") -> Acceptance:
    return Acceptance(server, "x", meaning, f"f{meaning}", "{}")


@pytest.mark.requirement("FLT-2")
def test_a_decision_has_only_its_server_read_again(
    store: CountingRegistry, trust: TrustStore
) -> None:
    store.accept(SCOPE, map(acceptance, "abc"), at=1.0)
    read_all(trust)
    store.accept(SCOPE, [acceptance("b", "2")], at=2.0)
    store.read_servers.clear()

    accepted = read_all(trust)

    assert store.read_servers == ["b"]
    assert accepted["b"] == {"x": {"1", "f1", "2", "f2"}}


@pytest.mark.requirement("FLT-30")
def test_what_this_process_accepts_hides_no_decision_that_was_made_before_it(
    store: CountingRegistry, trust: TrustStore
) -> None:
    read_all(trust)
    store.accept(SCOPE, [acceptance("b"), acceptance("c")], at=1.0)
    trust.accept(SETTINGS, [acceptance("a")])

    assert {name for name, tools in read_all(trust).items() if tools} == {"a", "b", "c"}


@pytest.mark.requirement("TRU-19")
def test_after_a_loss_all_is_read_again(store: CountingRegistry, trust: TrustStore) -> None:
    store.accept(SCOPE, map(acceptance, "abc"), at=1.0)
    read_all(trust)
    store.take_over("name:other", SCOPE, at=2.0)

    assert not any(read_all(trust).values())
