"""What only the owner does, through the library: each verb stores, applies and publishes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from discovery_engine import Engine, ServerState, open_engine
from discovery_engine.events import TrustChanged
from tests.engines import Folder, heard, summary
from tests.factories import make_definition
from tests.told import Told

pytestmark = pytest.mark.anyio

TOOL = make_definition("mail", "Send a mail.")
CHANGED = make_definition("mail", "Send a mail to everybody.")


@pytest.fixture
def told(folder: Folder) -> Told:
    return Told.beside(folder.path, TOOL)


@pytest.fixture
def discovered(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Opens engines whose configuration is discovered, not named."""
    monkeypatch.chdir(folder.path)
    environ = {**os.environ, "XDG_CONFIG_HOME": str(folder.path / "home")}
    environ.pop("DISCOVERY_CONFIG", None)
    return lambda: open_engine(data_dir=folder.data, environ=environ)


def status(engine: Engine) -> ServerState:
    return summary(engine.view, "told").state


@pytest.mark.requirement("LIB-80")
async def test_an_approval_is_stored_applied_and_published(
    folder: Folder, told: Told, discovered: Callable[[], Any]
) -> None:
    folder.write(told.server())
    async with discovered() as engine:
        assert status(engine) is ServerState.UNTRUSTED
        with engine.subscribe() as events:
            await engine.trust.approve(await engine.trust.candidates(["told"]))

            assert await heard(events, TrustChanged) == TrustChanged("approved", ("told",))
        assert status(engine) is ServerState.PENDING
        assert await engine.trust.candidates() == ()

        async with discovered() as other:
            assert status(other) is ServerState.PENDING


@pytest.mark.requirement("LIB-80")
async def test_an_acceptance_is_stored_applied_and_published(folder: Folder, told: Told) -> None:
    folder.write(told.server())
    async with folder.open() as engine:
        await engine.refresh()
        told.says(CHANGED)
        await engine.refresh()
        assert engine.view.search("mail").hits == ()

        waiting = await engine.review.changes()
        with engine.subscribe() as events:
            assert await engine.review.accept(waiting) == 1

            assert await heard(events, TrustChanged) == TrustChanged("accepted", ("told",))
        assert [hit.entry.tool.name for hit in engine.view.search("mail").hits] == ["mail"]
        assert await engine.review.changes() == {}
        history = await engine.review.history("told")
        assert ["everybody" in one.definition for one in history if one.tool] == [False, True]


@pytest.mark.requirement("LIB-80")
async def test_what_is_accepted_is_what_was_shown(folder: Folder, told: Told) -> None:
    folder.write(told.server())
    async with folder.open() as engine:
        await engine.refresh()
        told.says(CHANGED)
        await engine.refresh()
        shown = await engine.review.changes()
        told.says(make_definition("mail", "Send a mail to the attacker."))
        await engine.refresh()

        await engine.review.accept(shown)

        assert engine.view.search("mail").hits == ()
