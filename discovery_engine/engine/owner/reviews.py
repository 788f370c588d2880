"""Review of new and changed definitions, which the owner accepts: `engine.review`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from discovery_engine._util.suggestions import nearest
from discovery_engine.engine.engine import Engine
from discovery_engine.engine.owner.decide import decide
from discovery_engine.errors import ToolNotFoundError
from discovery_engine.rules.rule import REFUSALS
from discovery_engine.trust.review import Review, reviews
from discovery_engine.trust.scanner import Neighbours
from discovery_engine.trust.server_identity import known_as

if TYPE_CHECKING:
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.tools.model import ServerName
    from discovery_engine.trust.decisions import Acceptance
    from discovery_engine.view.view import View


class Reviews:
    """Lists and accepts definitions that wait for review; available as `engine.review`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._store = core.state.trust_store
        self._events = core.events

    async def changes(
        self,
        servers: Iterable[str] = (),
        *,
        tools: Collection[str] = (),
        only_listed: bool = False,
    ) -> Mapping[ServerName, tuple[Review, ...]]:
        """Return the definitions that wait for review, by server.

        Servers are listed first if they never were, or not since decisions were lost.

        Args:
            servers: The names of the servers; empty for all.
            tools: The names of the tools, resources, templates and prompts; empty for all.
            only_listed: True to list no server, and use the current catalog.

        Raises:
            ServerNotFoundError: If a named server does not exist.
            ToolNotFoundError: If none of the servers has a named tool, resource or prompt.
        """
        view = self._engine.view
        names = [view.server_settings(name).name for name in servers] or _all(view)
        missing = [*view.unlisted(names), *_not_listed_since_loss(view, names)]
        if missing and not only_listed:
            await self._engine.refresh(missing)
        view = self._engine.view
        return await anyio.to_thread.run_sync(self._changes, view, names, tools)

    async def accept(self, reviews: Mapping[ServerName, Sequence[Review]]) -> int:
        """Accept reviewed definitions, by server; return their number.

        Raises:
            RegistryError: If the decision cannot be stored; nothing is accepted then.
        """
        accepted = [review.acceptance for reviewed in reviews.values() for review in reviewed]
        if accepted:
            store = partial(self._store.accept, self._engine.view.settings, accepted)
            names = [name for name, reviewed in reviews.items() if reviewed]
            await decide(self._engine, self._events, store, "accepted", names)
        return len(accepted)

    async def history(self, server: str) -> tuple[Acceptance, ...]:
        """Return the acceptances of a server's definitions, the oldest first.

        Raises:
            ServerNotFoundError: If the server is not configured.
        """
        view = self._engine.view
        key = known_as(view.server_settings(server), view.settings.path)
        return await anyio.to_thread.run_sync(self._store.history, view.settings, key)

    async def end_loss(self, *, is_forced: bool = False) -> tuple[ServerName, ...] | None:
        """Allow acceptance at first sight again after decisions were lost.

        Args:
            is_forced: True to allow it although servers were not listed since the loss.

        Returns:
            The servers that prevent it, because they were not listed since the loss; empty if it is
            allowed now, None if nothing was lost.

        Raises:
            RegistryError: If the decision cannot be stored.
        """
        view = self._engine.view
        if view.lost_at is None:
            return None
        unknown = () if is_forced else _unknown_since_loss(view)
        if not unknown:
            store = partial(self._store.acknowledge_loss, view.settings)
            await decide(self._engine, self._events, store, "loss acknowledged", ())
        return unknown

    def _changes(
        self, view: View, names: Iterable[ServerName], tools: Collection[str]
    ) -> dict[ServerName, tuple[Review, ...]]:
        upstream_names = _upstream_names(view, frozenset(names), tools)
        neighbours = Neighbours.of(entry.tool for entry in view.catalog)
        changes: dict[ServerName, tuple[Review, ...]] = {}
        for name in names:
            server, part = view.server_settings(name), view.catalog.parts.get(name)
            if part is None:
                continue
            history = self._store.history(view.settings, known_as(server, view.settings.path))
            waiting = reviews(server, part, self._store.trust, history, neighbours=neighbours)
            chosen = tuple(
                review for review in waiting if not tools or (name, review.tool) in upstream_names
            )
            if chosen:
                changes[name] = chosen
        return changes


def _all(view: View) -> list[ServerName]:
    return [server.name for server in view.settings.servers]


def _upstream_names(
    view: View, servers: Collection[ServerName], tools: Iterable[str]
) -> set[tuple[ServerName, str]]:
    """Resolve names to pairs of server and decision key.

    A tool is named by its name, its upstream name or `server:tool`.

    Raises:
        ToolNotFoundError: If none of the servers has a name; suggests the nearest names.
    """
    meanings: defaultdict[str, set[tuple[ServerName, str]]] = defaultdict(set)
    for tool in (entry.tool for entry in view.catalog if entry.tool.server in servers):
        for name in (tool.name, tool.upstream_name, str(tool.key)):
            meanings[name].add((tool.server, tool.decision_key))
    for part in (view.catalog.part(server) for server in servers):
        for offering in (entry.offering for entry in part.offerings):
            for name in (offering.identifier, offering.decision_key):
                meanings[name].add((part.server, offering.decision_key))
    for name in tools:
        if name not in meanings:
            raise ToolNotFoundError(None, name, nearest(name, meanings))
    return {meant for name in tools for meant in meanings[name]}


def _not_listed_since_loss(view: View, names: Iterable[ServerName]) -> list[ServerName]:
    """Return the connectable servers that were not listed since decisions were lost."""
    may_be_asked = view.connectable
    return [n for n in names if n in may_be_asked and not _is_listed_since_loss(view, n)]


def _unknown_since_loss(view: View) -> tuple[ServerName, ...]:
    """Return the enabled servers that were not listed since decisions were lost."""
    is_on = (name for name in _all(view) if _is_on(view, name))
    return tuple(name for name in is_on if not _is_listed_since_loss(view, name))


def _is_listed_since_loss(view: View, name: ServerName) -> bool:
    part = view.catalog.part(name)
    is_listed = part.listed_at is not None and part.failure is None
    return view.lost_at is None or (is_listed and (part.listed_at or 0.0) >= view.lost_at)


def _is_on(view: View, name: ServerName) -> bool:
    verdict = view.catalog.part(name).verdict
    return view.server_settings(name).enabled and (verdict.enabled or verdict.reason in REFUSALS)
