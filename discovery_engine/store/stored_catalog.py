"""Snapshots of catalogs in a registry, for SQLite files and PostgreSQL."""

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

_UNKNOWN = -1  # no save has this number
# Tools that one transaction saves. A changed rule may concern more tools than one operation has
# time for: 100,000 take five seconds on a busy machine.
_TOOLS_AT_ONCE = 5_000
_SERVERS_AT_ONCE = 10_000  # servers that one transaction adds, and as many that it drops


class StoredCatalog(StoredQueue):
    """The part of a registry that stores snapshots, and the listings of workers."""

    most_scopes: ClassVar[int]
    """The most scopes that are stored."""
    _are_verdicts_news: ClassVar[bool]
    """True if other processes fetch a part even if only its verdicts are new."""

    def __init__(self) -> None:
        super().__init__()
        self._saves: dict[str, int | None] = {}
        """The number of the last save, by scope, after which this object knew its full content."""
        self._fetched: dict[str, int | None] = {}
        """The number of the save, by scope, up to which this object has read others' parts."""

    def load(self, scope: str) -> Snapshot | None:
        """Return the last snapshot of a scope; None if there is none."""
        loaded = self.read(partial(snapshot_table.load, scope=scope))
        if loaded is None:
            return None
        stored, marks = loaded
        self._saves[scope] = self._fetched[scope] = stored.saved
        if snapshot := stored.read(scope):
            self._listings.note_read(scope, snapshot.catalog.parts.values(), marks)
        return snapshot

    def load_settings(self, scope: str) -> Settings | None:
        """Return the settings of the last snapshot without reading its tools."""
        text = self.read(partial(snapshot_table.settings, scope=scope))
        return stored_settings(scope, text)

    def save_settings(self, scope: str, settings: Settings, *, keep_others: bool = False) -> None:
        """Save the settings, and name their servers as `name_servers` does.

        The saved parts of other servers are deleted unless `keep_others` is set. Servers with a job
        in the queue stay, since another process may name them. Large numbers take several
        transactions. If servers were registered or switched after these settings were read,
        existing settings are not replaced: the process that reads that change saves its own.
        No transport (command, arguments, environment, address, headers) is written.
        """
        text = settings_to_text(settings)
        names = [server.name for server in settings.servers]
        self.name_servers(scope, names)

        def change_servers(db: Connection) -> bool:
            """Add and drop servers up to the limit; return whether more remain."""
            ids = snapshot_table.servers(db, scope)
            new = [name for name in dict.fromkeys(names) if name not in ids]
            others = frozenset() if keep_others else ids.keys() - frozenset(names)
            gone = sorted(others - refresh_table.with_jobs(db, scope, others)) if others else []
            dropped = snapshot_table.drop(db, scope, gone[:_SERVERS_AT_ONCE])
            added = snapshot_table.add_servers(db, scope, new[:_SERVERS_AT_ONCE])
            self._events(db, scope).note_servers(added, dropped)
            return max(len(new), len(gone)) > _SERVERS_AT_ONCE

        def save(db: Connection) -> bool:
            if self._has_webhooks:  # else another registry has the decisions
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
        """Replace the saved parts of these servers, many of them in several transactions.

        Servers that the saved settings do not name are skipped, so that a removed server does not
        come back.

        Args:
            scope: The scope of the catalog.
            parts: The new parts.
            revision: The revision of the catalog; the saved one never decreases.
            decided: The number of the newest decision that these verdicts reflect. The last
                transaction saves it, unless another process has saved anything that this registry
                has not loaded.
            keep_newer: True for parts that are no new listing. Parts that other processes saved
                since the last `load` or `changed_parts` then stay; the next `changed_parts`
                returns them.
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
        """Return the parts that were saved since the last `load` or `changed_parts`.

        They may include parts that this registry saved itself. A registry in a file returns only
        new listings and failures.
        """
        fetched = self._fetched.get(scope) or 0
        changed = self.read(partial(snapshot_table.parts_since, scope=scope, save=fetched))
        self._fetched[scope], rows, marks = changed
        parts = stored_parts(scope, rows)
        self._listings.note_read(scope, parts, marks)
        return parts

    def forget(self, scope: str, servers: Iterable[ServerName] | None = None) -> int:
        """Delete the tools and counts of uses of servers, of the whole scope if None.

        Returns:
            The number of tools that were deleted.
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
        """Save a listing like `save_parts`, and end its claim; it is due again in `due_in` seconds.

        The listing is saved even if the saved settings, which may be older, do not name its server.

        Returns:
            `saved`; `unchanged` if the saved listing differs in its time only, so that it is not
            written and gateways fetch nothing; `lost` if the claim has ended, and nothing was
            written.
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

        # The first attempt takes no lock of the scope, for which other savers would wait.
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
        """Run `work` with the scope locked; return its result.

        It is passed whether this object knows everything that is saved of the scope.
        """

        def save(db: Connection) -> tuple[T, int | None, int | None]:
            before = snapshot_table.locked_save(db, scope)
            result = work(db, before == self._saves.get(scope))
            return result, before, snapshot_table.locked_save(db, scope)

        result, before, after = self.write(save)
        # If others have saved in between, their parts are still to be fetched.
        if before == self._fetched.get(scope):
            self._fetched[scope] = after
        self._saves[scope] = after if before == self._saves.get(scope) else _UNKNOWN
        return result
