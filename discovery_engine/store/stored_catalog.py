"""Snapshots of a registry, in a file and in a database alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from discovery_engine._util.batches import batches
from discovery_engine.config.files.location import decision_scope
from discovery_engine.store.codec import is_same_listing, part_to_row, settings_to_text
from discovery_engine.store.snapshot import stored_parts, stored_settings
from discovery_engine.store.stored_queue import StoredQueue
from discovery_engine.store.tables import (
    decision_table,
    refresh_table,
    snapshot_table,
    webhook_table,
)

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.config.settings import Settings
    from discovery_engine.store.refresh_job import RefreshClaim, SaveOutcome
    from discovery_engine.store.saved_listings import SaveMark
    from discovery_engine.store.snapshot import Snapshot
    from discovery_engine.store.statements import Connection
    from discovery_engine.tools.model import ServerName

T = TypeVar("T")

_UNKNOWN = -1  # the number of no save
# Tools that are saved at once. All that a changed rule concerns may be more than can be saved in
# the time of an operation: 100,000 take five seconds on a busy machine.
_TOOLS_AT_ONCE = 5_000
_SERVERS_AT_ONCE = 10_000  # that are added, and dropped


class StoredCatalog(StoredQueue):
    """The part of a registry that keeps snapshots, and what workers list under a claim."""

    most_scopes: ClassVar[int]
    _are_verdicts_news: ClassVar[bool]
    """True if other processes fetch a part of which only the verdicts are new."""

    def __init__(self) -> None:
        super().__init__()
        self._saves: dict[str, int | None] = {}
        """The last save of each scope after which this object knew all that is saved of it."""
        self._fetched: dict[str, int | None] = {}
        """The save of each scope up to which this object knows what others saved of servers."""

    def load(self, scope: str) -> Snapshot | None:
        """The last snapshot of a scope; None if there is none."""
        loaded = self.read(partial(snapshot_table.load, scope=scope))
        if loaded is None:
            return None
        stored, marks = loaded
        self._saves[scope] = self._fetched[scope] = stored.saved
        if snapshot := stored.read(scope):
            self._listings.note_read(scope, snapshot.catalog.parts.values(), marks)
        return snapshot

    def load_settings(self, scope: str) -> Settings | None:
        """The settings of the last snapshot, without a look at its tools."""
        text = self.read(partial(snapshot_table.settings, scope=scope))
        return stored_settings(scope, text)

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        """Save the settings, and name their servers as `name_servers` does.

        Of servers that they do not name, and that have no job, what is saved is dropped, unless
        `keep_others`: those with a job another process may name. Many are added and dropped in
        several transactions. Nothing is saved in place of other settings if servers were registered
        or switched since these were read: who reads that saves again.
        No transport (command, arguments, environment, address, headers) is written.
        """
        text = settings_to_text(settings)
        names = [server.name for server in settings.servers]
        self.name_servers(scope, names)

        def change_servers(db: Connection) -> bool:
            """Add and drop servers, no more than a transaction may; returns if there are more."""
            ids = snapshot_table.servers(db, scope)
            new = [name for name in dict.fromkeys(names) if name not in ids]
            others = frozenset() if keep_others else ids.keys() - frozenset(names)
            gone = sorted(others - refresh_table.with_jobs(db, scope, others)) if others else []
            dropped = snapshot_table.drop(db, scope, gone[:_SERVERS_AT_ONCE])
            added = snapshot_table.add_servers(db, scope, new[:_SERVERS_AT_ONCE])
            self._events(db, scope).note_servers(added, dropped)
            return max(len(new), len(gone)) > _SERVERS_AT_ONCE

        def save(db: Connection) -> bool:
            if self._has_webhooks:  # else the decisions are elsewhere
                mark = decision_table.mark(db, decision_scope(settings))
                is_saved = snapshot_table.settings(db, scope) is not None
                if is_saved and mark != settings.registered:
                    return False
                webhook_table.replace_all(db, scope, settings.webhooks, keep_others=keep_others)
            snapshot_table.save_settings(db, scope, text, self.most_scopes)
            return change_servers(db)

        is_more = self._save(scope, lambda db, _: save(db))
        while is_more:
            is_more = self._save(scope, lambda db, _: change_servers(db))

    def save_parts(
        self,
        scope: str,
        parts: Iterable[ServerPart],
        *,
        revision: int,
        decided: int | None = None,
        keep_newer: bool = False,
    ) -> None:
        """Replace what is saved of these servers; of many in several transactions.

        A server that the saved settings do not name is skipped: what was removed from the
        configuration meanwhile must not come back. The saved revision never decreases. `decided` is
        saved as that of the snapshot, unless another process has saved something since this
        registry last loaded or saved it; with the last of these transactions.

        With `keep_newer`, for parts that are no new listing, a server stays as another machine has
        saved it since this registry last loaded or asked for changes; these come with the next
        `changed_parts`.
        """
        new = {part.server: part for part in parts}.values()
        some = [*batches(new, lambda part: len(part.entries), most=_TOOLS_AT_ONCE)]
        for batch in some[:-1]:
            self._save_parts(scope, batch, revision, None, keep_newer=keep_newer)
        last = some[-1] if some else []
        self._save_parts(scope, last, revision, decided, keep_newer=keep_newer)

    def _save_parts(
        self,
        scope: str,
        parts: Sequence[ServerPart],
        revision: int,
        decided: int | None,
        *,
        keep_newer: bool,
    ) -> None:
        rows = {part.server: part_to_row(part) for part in parts}
        are_news = self._are_verdicts_news or not keep_newer
        news = [part.server for part in parts if are_news or part.failure]

        def save(db: Connection, is_known: bool) -> None:  # noqa: FBT001 - called by `_save`
            events = self._events(db, scope)
            events.note_health(parts, are_new_listings=not keep_newer)
            if keep_newer:
                fetched = self._fetched.get(scope) or 0
                for name in snapshot_table.servers_since(db, scope, fetched):
                    rows.pop(name, None)
            events.note_listings(part for part in parts if part.server in rows)
            judged = decided if is_known else None
            saved = [name for name in news if name in rows]
            snapshot_table.save_parts(db, scope, rows, revision, judged, news=saved)
            if rows:
                self._announce(db)

        self._save(scope, save)

    def changed_parts(self, scope: str) -> tuple[ServerPart, ...]:
        """Return what other processes saved of servers since this registry last loaded or asked.

        It may include parts that this registry saved itself. A registry that is a file returns only
        new listings and failures.
        """
        fetched = self._fetched.get(scope) or 0
        changed = self.read(partial(snapshot_table.parts_since, scope=scope, save=fetched))
        self._fetched[scope], rows, marks = changed
        parts = stored_parts(scope, rows)
        self._listings.note_read(scope, parts, marks)
        return parts

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        """Drop the tools of servers (all of the scope with None), and how often they were used.

        Returns how many tools were dropped.
        """
        names = None if servers is None else frozenset(servers)
        return self.write(partial(snapshot_table.forget, scope=scope, names=names))

    def save_claimed(
        self,
        claim: RefreshClaim,
        part: ServerPart,
        *,
        due_in: float,
        revision: int,
        decided: int | None = None,
    ) -> SaveOutcome:
        """Save the server like `save_parts`, and end the claim: due again in `due_in` seconds.

        `lost`, and nothing is written, if the claim is not valid any more. The listing is kept even
        if the saved settings, which may be those of an older configuration, do not name the server.

        A listing that is as it is saved already, but for its time, is `unchanged`: nothing of it is
        written, and no gateway has anything to fetch.
        """
        row = part_to_row(part)
        mark: SaveMark | None = None

        def end_unchanged(db: Connection) -> SaveOutcome:
            nonlocal mark
            stored = snapshot_table.compared_row(db, claim.scope, part.server)
            if not (stored and is_same_listing(stored[1], row)):
                return "saved"
            mark = stored[0]
            return "unchanged" if self._succeed(db, claim, part, due_in) else "lost"

        # First without the lock of the scope, which is written, and which savers wait for.
        outcome = self.write(end_unchanged)

        def save(db: Connection, is_known: bool) -> None:  # noqa: FBT001 - called by `_save`
            nonlocal outcome, mark
            outcome = end_unchanged(db) if refresh_table.is_held(db, claim) else "lost"
            if outcome == "saved":
                judged = decided if is_known else None
                rows = {part.server: row}
                events = self._events(db, claim.scope)
                events.note_servers(snapshot_table.add_servers(db, claim.scope, rows), ())
                events.note_listings([part])
                marks = snapshot_table.save_parts(
                    db, claim.scope, rows, revision, judged, news=[part.server]
                )
                mark = marks.get(part.server)
                self._succeed(db, claim, part, due_in)
                self._announce(db)

        if outcome == "saved":
            self._save(claim.scope, save)
        if mark:
            self._listings.note(claim.scope, part, mark)
        return outcome

    def _save(self, scope: str, work: Callable[[Connection, bool], T]) -> T:
        """Save with `work`, which is given whether all that is saved of the scope is known."""

        def save(db: Connection) -> tuple[T, int | None, int | None]:
            before = snapshot_table.locked_save(db, scope)
            result = work(db, before == self._saves.get(scope))
            return result, before, snapshot_table.locked_save(db, scope)

        result, before, after = self.write(save)
        # What others have saved since must be fetched still, and is not known until then.
        if before == self._fetched.get(scope):
            self._fetched[scope] = after
        self._saves[scope] = after if before == self._saves.get(scope) else _UNKNOWN
        return result
