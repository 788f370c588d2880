from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from discovery_engine.config.settings import CacheSettings
from discovery_engine.runtime.cache import Cache, Caches, CacheStats
from discovery_engine.tools.model import ServerName

A, B = ServerName("a"), ServerName("b")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Maker:
    """Makes `1`, `2`, and so on, so that a test sees which answer it got."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> int:
        self.made += 1
        return self.made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def caches(clock: Clock) -> Caches:
    return Caches(CacheSettings(ttl=60.0), timer=clock)


@pytest.fixture
def make() -> Maker:
    return Maker()


def test_an_answer_is_made_once(caches: Caches, make: Maker) -> None:
    answers = [caches.details.get_or((A, "tool", "fingerprint"), make) for _ in range(3)]

    assert answers == [1, 1, 1]


def test_none_is_an_answer_like_any_other(caches: Caches) -> None:
    calls: list[str] = []

    for _ in range(2):
        assert caches.details.get_or((A,), lambda: calls.append("made")) is None

    assert calls == ["made"]


@pytest.mark.requirement("CAC-1")
def test_a_list_of_servers_lasts_for_the_configured_time(
    caches: Caches, clock: Clock, make: Maker
) -> None:
    assert caches.servers.get_or(("all",), make) == 1
    clock.now = 59.9
    assert caches.servers.get_or(("all",), make) == 1
    clock.now = 60.0
    assert caches.servers.get_or(("all",), make) == 2


@pytest.mark.requirement("CAC-2")
@pytest.mark.parametrize(
    ("asked", "lasts"),
    [
        pytest.param(10.0, 10.0, id="the upstream asks for less"),
        pytest.param(999.0, 60.0, id="the upstream asks for more than the owner allows"),
    ],
)
def test_a_summary_lasts_no_longer_than_upstream_and_owner_allow(
    caches: Caches, clock: Clock, make: Maker, asked: float, lasts: float
) -> None:
    caches.summaries.get_or((A, 1), make, ttl=asked)
    clock.now = lasts - 0.1
    assert caches.summaries.get_or((A, 1), make, ttl=asked) == 1
    clock.now = lasts
    assert caches.summaries.get_or((A, 1), make, ttl=asked) == 2


@pytest.mark.requirement("CAC-2")
def test_an_upstream_that_wants_nothing_kept_has_nothing_kept(caches: Caches, make: Maker) -> None:
    assert [caches.summaries.get_or((A,), make, ttl=0.0) for _ in range(2)] == [1, 2]


@pytest.mark.requirement("CAC-2")
def test_a_server_that_changed_loses_its_summaries_and_the_lists_it_is_in(
    caches: Caches, make: Maker
) -> None:
    for cache in (caches.servers, caches.summaries, caches.details):
        cache.get_or((A,), make)
        cache.get_or((B,), make)

    caches.drop(A)

    sizes = {name: stats.size for name, stats in caches.stats().items()}
    assert sizes == {"servers": 0, "summaries": 1, "details": 2}
    assert caches.summaries.get_or((B,), make) == 4


@pytest.mark.requirement("CAC-3")
def test_details_last_until_the_fingerprint_is_another(
    caches: Caches, clock: Clock, make: Maker
) -> None:
    assert caches.details.get_or((A, "tool", "f1"), make) == 1
    clock.now = 1e9
    assert caches.details.get_or((A, "tool", "f1"), make) == 1
    assert caches.details.get_or((A, "tool", "f2"), make) == 2


@pytest.mark.requirement("CAC-4")
def test_there_is_no_cache_of_search_results(caches: Caches) -> None:
    assert set(caches.stats()) == {"servers", "summaries", "details"}


@pytest.mark.requirement("CAC-5")
def test_hits_and_misses_are_counted_for_each_cache(caches: Caches, make: Maker) -> None:
    for _ in range(4):
        caches.details.get_or((A,), make)
    caches.summaries.get_or((A,), make)
    caches.clear()

    assert caches.stats() == {
        "servers": CacheStats(hits=0, misses=0, size=0),
        "summaries": CacheStats(hits=0, misses=1, size=0),
        "details": CacheStats(hits=3, misses=1, size=0),
    }
    assert caches.details.stats.hit_rate == 0.75
    assert caches.servers.stats.hit_rate == 0.0


@pytest.mark.requirement("CAC-5")
def test_an_answer_whose_time_is_over_is_not_counted_as_held(
    caches: Caches, clock: Clock, make: Maker
) -> None:
    caches.servers.get_or((A,), make)
    clock.now = 61.0

    assert caches.servers.stats.size == 0


@pytest.mark.requirement("CAC-6")
def test_with_caching_off_every_answer_is_made_anew(clock: Clock, make: Maker) -> None:
    caches = Caches(CacheSettings(enabled=False), timer=clock)

    for number, cache in enumerate((caches.servers, caches.summaries, caches.details)):
        assert [cache.get_or((A,), make) for _ in range(2)] == [2 * number + 1, 2 * number + 2]

    caches.drop(A)
    assert set(caches.stats().values()) == {CacheStats(hits=0, misses=0, size=0)}


def test_an_answer_that_cannot_be_made_is_tried_again(caches: Caches) -> None:
    def fail() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        caches.details.get_or((A,), fail)

    assert caches.details.get_or((A,), lambda: 1) == 1


@pytest.mark.requirement("CAC-7")
def test_the_least_lately_used_answer_makes_room(clock: Clock, make: Maker) -> None:
    cache = Cache(maxsize=2, ttl=60.0, timer=clock)
    cache.get_or(("old",), make)
    cache.get_or(("newer",), make)
    cache.get_or(("old",), make)

    cache.get_or(("newest",), make)

    assert cache.get_or(("old",), make) == 1
    assert cache.get_or(("newer",), make) == 4


class AnyUse(RuleBasedStateMachine):
    """Whatever is done with a cache, an answer is never older than its time, nor one too many."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.cache = Cache(maxsize=3, ttl=10.0, timer=self.clock)
        self.asked: Counter[str] = Counter()

    @rule(server=st.sampled_from([A, B]), number=st.integers(0, 2), ttl=st.floats(0, 20))
    def ask(self, server: ServerName, number: int, ttl: float) -> None:
        self.asked["all"] += 1
        key = (server, number)

        made_for, made_at, end = self.cache.get_or(key, self._answer(key, ttl), ttl=ttl)

        assert made_for == key
        assert made_at <= self.clock.now
        assert self.clock.now < end or made_at == self.clock.now

    @rule(seconds=st.floats(0, 15))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule(server=st.sampled_from([A, B]))
    def drop(self, server: ServerName) -> None:
        self.cache.drop(server)

    @invariant()
    def counts_add_up(self) -> None:
        stats = self.cache.stats
        assert stats.hits + stats.misses == self.asked["all"]
        assert stats.size <= 3

    def _answer(
        self, key: tuple[str, int], ttl: float
    ) -> Callable[[], tuple[tuple[str, int], float, float]]:
        now = self.clock.now
        return lambda: (key, now, now + min(ttl, 10.0))


TestAnyUse = AnyUse.TestCase
