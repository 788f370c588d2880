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
    from discovery_engine.store.fleet.refresh_job import RefreshJob


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
        """True if events are stored for it."""
        return not (self.has_left or self.is_disabled)

    @property
    def settings(self) -> WebhookSettings:
        return msgspec.json.decode(self.definition, type=WebhookSettings)


def definition_of(webhook: WebhookSettings) -> str:
    """Return the stored form of a webhook, without anything that may be secret."""
    return msgspec.json.encode(webhook.without_secrets()).decode()


def address_of(webhook: WebhookSettings) -> str:
    return blake2b(webhook.url.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class WebhookChanges(Struct, frozen=True):
    """The changes that bring the stored webhooks of a scope in line with its settings."""

    gone: tuple[WebhookRow, ...]
    new: tuple[WebhookSettings, ...]
    """The webhooks to be stored, or stored in another form."""

    def __bool__(self) -> bool:
        return bool(self.gone or self.new)


def webhook_changes(
    known: Iterable[WebhookRow], webhooks: Iterable[WebhookSettings], *, keep_others: bool
) -> WebhookChanges:
    """Compare the stored webhooks with the settings; those left out or switched off are gone.

    Their deliveries are kept for a while: a gateway with an older configuration may still send
    them, or this one once the webhooks are back. With `keep_others` none is gone.
    """
    rows = {row.name: row for row in known}
    settings = {webhook.name: webhook for webhook in webhooks if webhook.enabled}
    names = rows.keys() if keep_others else settings.keys()
    gone = (row for row in rows.values() if row.name not in names and not row.has_left)
    new = (
        webhook for webhook in settings.values() if not _is_stored(webhook, rows.get(webhook.name))
    )
    return WebhookChanges(tuple(gone), tuple(new))


def _is_stored(webhook: WebhookSettings, row: WebhookRow | None) -> bool:
    if row is None or row.has_left:
        return False
    return (row.definition, row.address) == (definition_of(webhook), address_of(webhook))


def is_first(before: Iterable[WebhookRow], after: Iterable[WebhookRow]) -> bool:
    """Return whether a webhook is active in `after`, while none was in `before`.

    The noted health of servers is then of an earlier time.
    """
    return any(row.is_active for row in after) and not any(row.is_active for row in before)


class NoEvents:
    """In place of a `webhook_writer.WebhookWriter`, where a scope has no webhook."""

    def note_servers(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """Servers that the settings name since now, or do not name any more."""

    def note_listings(self, parts: Iterable[ServerPart]) -> None:
        """To be called before they are saved."""

    def note_health(self, parts: Iterable[ServerPart], *, are_new_listings: bool) -> None:
        """Note what a gateway found; a failure of a server that is failing already is no event."""

    def note_jobs(self, steps: Iterable[tuple[RefreshJob, RefreshJob]]) -> None:
        """Note what a worker found out: jobs before and after a step."""

    def note_lost(self, jobs: Iterable[RefreshJob]) -> None:
        """Jobs that are dead because workers were lost with them."""
