"""Webhooks as they are stored, and what becomes of them with other settings.

Loaded by every start, so it imports nothing that only events need.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from discovery_engine._util.digests import blake2b
from discovery_engine.config.webhook_settings import WebhookSettings

if TYPE_CHECKING:
    from discovery_engine.catalog import ServerPart
    from discovery_engine.fleet.refresh_job import RefreshJob


class WebhookRow(Struct, frozen=True):
    """A webhook as it is stored; `id` is the back-end's."""

    id: int
    name: str
    definition: str
    address: str
    """Digest of its address as written: with another one it is enabled again."""
    has_left: bool
    """The saved settings do not name it any more."""
    is_disabled: bool
    """Its receiver said that it is gone."""

    @property
    def is_active(self) -> bool:
        """Whether events are stored for it."""
        return not (self.has_left or self.is_disabled)

    @property
    def settings(self) -> WebhookSettings:
        return msgspec.json.decode(self.definition, type=WebhookSettings)


def definition_of(webhook: WebhookSettings) -> str:
    """What is stored of a webhook: nothing that may be secret."""
    return msgspec.json.encode(webhook.without_secrets()).decode()


def address_of(webhook: WebhookSettings) -> str:
    return blake2b(webhook.url.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class WebhookChanges(Struct, frozen=True):
    """What is to be written so that the webhooks of a scope are those of its settings."""

    gone: tuple[WebhookRow, ...]
    new: tuple[WebhookSettings, ...]
    """Those that are to be stored, or stored in another form."""

    def __bool__(self) -> bool:
        return bool(self.gone or self.new)


def webhook_changes(
    known: Iterable[WebhookRow], webhooks: Iterable[WebhookSettings], *, keep_others: bool
) -> WebhookChanges:
    """Those that are left out or switched off are gone; what waits for them waits on for a while.

    A gateway with an older configuration may send it still, or this one once they are back. With
    `keep_others` none is gone.
    """
    rows = {row.name: row for row in known}
    wanted = {one.name: one for one in webhooks if one.enabled}
    kept = rows.keys() if keep_others else wanted.keys()
    gone = (row for row in rows.values() if row.name not in kept and not row.has_left)
    new = (one for one in wanted.values() if not _is_stored(one, rows.get(one.name)))
    return WebhookChanges(tuple(gone), tuple(new))


def _is_stored(webhook: WebhookSettings, row: WebhookRow | None) -> bool:
    if row is None or row.has_left:
        return False
    return (row.definition, row.address) == (definition_of(webhook), address_of(webhook))


def is_first(before: Iterable[WebhookRow], after: Iterable[WebhookRow]) -> bool:
    """Whether events are stored since now, and were for no webhook.

    What was noted of the health of servers is then of an earlier time.
    """
    return any(row.is_active for row in after) and not any(row.is_active for row in before)


class NoEvents:
    """In place of a `webhook_writer.WebhookWriter`, where a scope has no webhook."""

    def note_servers(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """Servers that the settings name since now, or do not name any more."""

    def note_listings(self, parts: Iterable[ServerPart]) -> None:
        """To be called before they are saved."""

    def note_health(self, parts: Iterable[ServerPart], *, are_new_listings: bool) -> None:
        """What a gateway found out; a failure of a server that is failing already is no event."""

    def note_jobs(self, steps: Iterable[tuple[RefreshJob, RefreshJob]]) -> None:
        """What a worker found out: jobs before and after a step."""

    def note_lost(self, jobs: Iterable[RefreshJob]) -> None:
        """Jobs that are dead because workers were lost with them."""
