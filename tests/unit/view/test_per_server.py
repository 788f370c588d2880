from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.state import ServerState, StateInfo
from discovery_engine.view.per_server import PerServer

NAMES = tuple(ServerName(name) for name in "abcd")
LIVE = st.dictionaries(
    st.sampled_from([*NAMES, ServerName("gone")]), st.sampled_from(ServerState).map(StateInfo)
)


@given(st.lists(LIVE, min_size=1))
def test_values_are_those_of_the_last_live_states(
    states: list[dict[ServerName, StateInfo]],
) -> None:
    known: PerServer[StateInfo | None] = PerServer(NAMES)

    for live in states:
        known = known.updated(live, live.get)

        assert known.all == tuple(map(live.get, NAMES))


def test_only_what_changed_is_computed() -> None:
    computed: list[str] = []
    ready, idle = StateInfo(ServerState.READY), StateInfo(ServerState.IDLE)
    first: PerServer[None] = PerServer(NAMES).updated({NAMES[1]: ready}, computed.append)
    assert computed == list(NAMES)

    same = first.updated({NAMES[1]: ready}, computed.append)
    assert same.all is first.all
    first.updated({NAMES[1]: idle, NAMES[3]: ready}, computed.append)

    assert computed == [*NAMES, "b", "d"]
