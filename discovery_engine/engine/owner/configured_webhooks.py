"""The webhooks of a configuration, as their owner sees and steers them: `engine.webhooks`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.fetch.fetch_error import FetchError
from discovery_engine._util.suggestions import nearest
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.config.webhook_settings import TEST_EVENT, WebhookSettings
from discovery_engine.engine.webhook_sender import (
    Attempt,
    UnusableWebhookError,
    open_sender,
    target_of,
)
from discovery_engine.errors import WebhookNotFoundError
from discovery_engine.secrets.masking import redact_url
from discovery_engine.store.webhooks import WebhookEvent, WebhookState, stored_event

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.engine.engine import Engine
    from discovery_engine.errors import Diagnostic

Condition: TypeAlias = Literal["ok", "off", "failing", "disabled", "unusable"]


class WebhookReport(Struct, frozen=True):
    """A configured webhook, and what became of its events."""

    name: str
    url: str
    """Without what may be secret."""
    events: tuple[str, ...]
    """Types or globs of types; all if there is none."""
    servers: tuple[str, ...]
    """Patterns; all servers if there is none."""
    is_enabled: bool
    state: WebhookState
    problem: str = ""
    """The reason why nothing can be sent to it from here; empty if something can."""

    @property
    def condition(self) -> Condition:
        if not self.is_enabled:
            return "off"
        if self.state.disabled_at is not None:
            return "disabled"
        if self.problem:
            return "unusable"
        return "failing" if self.state.failure or self.state.dead else "ok"


class WebhookTest(Struct, frozen=True):
    """The outcome of a test message."""

    webhook: str
    event_id: str
    is_accepted: bool
    status: int | None
    """The HTTP status of the answer; None without one."""
    reason: str
    """The reason why it was not accepted; empty if it was."""
    hint: str
    seconds: float


class Webhooks:
    """Lists, tests and retries webhooks; available as `engine.webhooks`."""

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._store = core.store
        self._secrets = core.environment.secrets
        self._clock = core.environment.clock

    async def list(self) -> tuple[WebhookReport, ...]:
        """The configured webhooks, in the order of the configuration.

        Raises:
            RegistryError: If what waits for them cannot be read.
        """
        settings = await self._settings()
        return await anyio.to_thread.run_sync(self._reports, settings)

    async def refusal(self) -> Diagnostic | None:
        """Return why the webhooks of the file do not count; None if they do, or there are none."""
        return _refusal(await self._settings())

    async def states(self) -> tuple[WebhookState, ...]:
        """Return what waits for each webhook, by name, without a look at the configuration.

        Raises:
            RegistryError: If it cannot be read.
        """
        scope = catalog_key_of(self._engine.view.settings)
        return await anyio.to_thread.run_sync(self._store.webhook_states, scope)

    async def test(self, name: str) -> WebhookTest:
        """Send a signed message of the type `webhook.test` now; it is not stored, nor sent again.

        Args:
            name: Of the webhook, also of one that is switched off.

        Raises:
            WebhookNotFoundError: If there is no such webhook; with the nearest names.
        """
        settings = await self._settings()
        webhook = _named(settings, name)
        event = stored_event(WebhookEvent(TEST_EVENT, "", {"webhook": name}), at=self._clock())
        # A test is about no server.
        form = json.loads(event.body)
        del form["data"]["server"]
        body = json.dumps(form, separators=(",", ":"))
        began = time.monotonic()
        attempt = await self._sent(webhook, settings, event.id, body)
        return WebhookTest(
            name,
            event.id,
            attempt.is_accepted,
            attempt.status,
            attempt.reason,
            attempt.hint,
            time.monotonic() - began,
        )

    async def retry(self, names: Iterable[str] | None = None) -> int:
        """Have dead deliveries sent again, with the ids that they had; enable what was disabled.

        Args:
            names: Of which webhooks; of all with None.

        Returns:
            How many there are.

        Raises:
            WebhookNotFoundError: If a named webhook is not configured.
            RegistryError: If it cannot be kept.
        """
        settings = await self._settings()
        chosen = None if names is None else [_named(settings, name).name for name in names]
        scope = catalog_key_of(settings)
        return await anyio.to_thread.run_sync(self._store.retry_deliveries, scope, chosen)

    async def _sent(
        self, webhook: WebhookSettings, settings: Settings, event_id: str, body: str
    ) -> Attempt:
        try:
            target = await anyio.to_thread.run_sync(target_of, webhook, settings, self._secrets)
            async with open_sender(target, clock=self._clock) as sender:
                return await sender.send(event_id, body)
        except UnusableWebhookError as error:
            return Attempt(None, str(error), _UNUSABLE)
        except FetchError as error:
            return Attempt(None, error.reason, error.hint)

    def _reports(self, settings: Settings) -> tuple[WebhookReport, ...]:
        states = {
            state.name: state for state in self._store.webhook_states(catalog_key_of(settings))
        }
        return tuple(
            WebhookReport(
                webhook.name,
                redact_url(webhook.url),
                webhook.events,
                webhook.servers,
                webhook.enabled,
                states.get(webhook.name, WebhookState(webhook.name)),
                self._problem(webhook, settings),
            )
            for webhook in settings.webhooks
        )

    def _problem(self, webhook: WebhookSettings, settings: Settings) -> str:
        try:
            target_of(webhook, settings, self._secrets)
        except UnusableWebhookError as error:
            return str(error)
        return ""

    async def _settings(self) -> Settings:
        await self._engine.complete_settings()
        return self._engine.view.settings


_UNUSABLE = (
    'give the reference a value, for instance `printf whsec_%s "$(openssl rand -base64 32)" |'
    " discovery secrets set NAME`"
)


def _refusal(settings: Settings) -> Diagnostic | None:
    return next((warning for warning in settings.warnings if warning.subject == "webhooks"), None)


def _named(settings: Settings, name: str) -> WebhookSettings:
    webhooks = {webhook.name: webhook for webhook in settings.webhooks}
    if name in webhooks:
        return webhooks[name]
    raise WebhookNotFoundError(name, nearest(name, webhooks), refusal=_refusal(settings))
