from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_server.http.connections import ConnectionLimits, Connections, Stage

pytestmark = pytest.mark.requirement("SRV-30")


class Held:
    """A connection as the count of them sees one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_cut_off = False
        self.transport = SimpleNamespace(abort=self.abort)

    def abort(self) -> None:
        self.is_cut_off = True


STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(Stage), st.booleans()))


@given(STEPS)
def test_there_are_never_too_many_and_nobody_is_cut_off_while_being_answered(steps: Any) -> None:
    connections = Connections(ConnectionLimits(connections=4, per_address=3))
    held: list[tuple[Held, Stage]] = []

    for address, stage, is_left in steps:
        one: Any = Held(address)
        before = [(other, at) for other, at in held if not other.is_cut_off]
        if connections.admit(one):
            connections.enter(one, stage)
            held.append((one, stage))
        else:
            rivals = [at for other, at in before if other.address == address]
            assert len(rivals) == 3 or len(before) == 4
            assert set(rivals if len(rivals) == 3 else [at for _, at in before]) == {Stage.ANSWER}
        if is_left:
            connections.remove(one)
            held = [(other, at) for other, at in held if other is not one]
        alive = [other for other, _ in held if not other.is_cut_off]
        assert len(connections) == len(alive) <= 4
        assert all(sum(o.address == a for o in alive) <= 3 for a in "ab")
        assert not any(other.is_cut_off for other, at in held if at is Stage.ANSWER)
