from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery_server.gateway import Gateway
from discovery_server.http.sessions import IDLE_LIFE, Session, Sessions
from tests.unit.server.fakes import make_engine

pytestmark = pytest.mark.anyio

GATEWAY = Gateway(make_engine())


class Table:
    """Sessions with a clock, and which of them have ended."""

    def __init__(self, limit: int = 9) -> None:
        self.now = 0.0
        self.ended: list[str] = []
        self.on_end: Callable[[], None] = lambda: None
        self.sessions = Sessions(limit, self._end, lambda: self.now)

    async def open(self, user: str | None = None, *, now: float | None = None) -> Session:
        self.now = self.now if now is None else now
        session = Session(GATEWAY, user)
        with self.sessions.opened(session):
            pass
        await self.sessions.end_excess(session)
        return session

    def use(self, session: Session) -> None:
        with self.sessions.used(session):
            pass

    def _end(self, session_id: str) -> None:
        self.ended.append(session_id)
        self.on_end()

    def is_open(self, session: Session) -> bool:
        return self.sessions.find(session.id, GATEWAY, session.user) is session


@pytest.mark.requirement("SRV-33")
async def test_what_nobody_has_used_for_long_ends_with_the_next_opening() -> None:
    table = Table()
    first, second = await table.open(now=0), await table.open(now=1)
    table.now = IDLE_LIFE
    table.use(first)

    await table.open(now=IDLE_LIFE + 2)

    assert table.ended == [second.id]
    assert table.is_open(first)


@pytest.mark.requirement("SRV-33")
@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=40))
async def test_there_are_never_too_many_and_the_greediest_user_loses_first(
    steps: list[tuple[str, bool]],
) -> None:
    table = Table(limit=4)
    open_: list[Session] = []

    for user, is_used in steps:
        counts = Counter(one.user for one in open_) + Counter([user])
        session = await table.open(user, now=table.now + 1)
        lost = [one for one in open_ if not table.is_open(one)]
        assert all(counts[one.user] == max(counts.values()) for one in lost)
        open_ = [one for one in [*open_, session] if table.is_open(one)]
        assert len(table.sessions) == len(open_) <= 4
        if is_used:
            table.use(session)
