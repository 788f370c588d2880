"""Sends what is due to webhooks, as one of any number of processes that share the registry.

Each webhook is sent to by a task of its own with few requests at once, so a receiver that hangs
delays no other. A process that ends in the middle of a delivery loses it with its lease: another
one sends the same message once more.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

import anyio
import anyio.to_thread

from discovery_engine._util.tasks import open_task_group
from discovery_engine.config.files.location import catalog_key_of
from discovery_engine.errors import DiscoveryError, RegistryError
from discovery_engine.store.tables.webhook_table import address_of
from discovery_engine.store.webhooks import backoff_after

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from discovery_engine.config.settings import Settings
    from discovery_engine.config.webhook_settings import WebhookSettings
    from discovery_engine.engine.webhook_sender import Attempt, Sender
    from discovery_engine.secrets.resolver import SecretResolver
    from discovery_engine.store.registry import Registry
    from discovery_engine.store.webhooks import Delivery

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_EVERY = 2.0  # seconds between two looks at what is due
_MAX_CONCURRENT_DELIVERIES = 4  # requests to one webhook
_ROUNDS = 4  # of that many requests, before what is due is claimed again
_MARGIN = 30.0  # seconds
_LONGEST_PAUSE = 60.0  # seconds, for a webhook to which nothing can be sent


class WebhookDispatcher:
    """`settings` are the present ones, `complete` reads them if what is remembered was enough.

    `clock` is Unix time in seconds, for signatures; `margin` the seconds of a lease beyond what all
    its requests may take.
    """

    def __init__(
        self,
        store: Registry,
        settings: Callable[[], Settings],
        complete: Callable[[], Awaitable[None]],
        *,
        secrets: SecretResolver,
        clock: Callable[[], float],
        randomness: Callable[[], float] = random.random,
        margin: float = _MARGIN,
    ) -> None:
        self._store = store
        self._settings = settings
        self._complete = complete
        self._secrets = secrets
        self._clock = clock
        self._random = randomness
        self._margin = margin
        self._busy: set[str] = set()
        self._paused: dict[str, float] = {}
        """Webhooks that cannot be served now, and until when, by the clock of the event loop."""
        self._unusable: dict[str, str] = {}
        self._one_ended = anyio.Event()

    async def run(self) -> NoReturn:
        """Send what is due, for ever."""
        async with open_task_group() as tasks:
            while True:
                await self._look(tasks)
                with anyio.move_on_after(_LOOK_EVERY):
                    await self._one_ended.wait()

    async def drain(self, within: float) -> None:
        """Send what is due now, for at most so many seconds."""
        with anyio.move_on_after(within):
            async with open_task_group() as tasks:
                while await self._look(tasks) or self._busy:
                    await self._one_ended.wait()

    async def _look(self, tasks: TaskGroup) -> bool:
        """Start to send what is due; returns whether anything was."""
        self._one_ended = anyio.Event()
        if not any(webhook.enabled for webhook in self._settings().webhooks):
            return False
        try:
            await self._complete()
            settings = self._settings()
            scope = catalog_key_of(settings)
            due = await self._in_thread(lambda store: store.due_webhooks(scope))
        except DiscoveryError as error:
            logger.debug("What is due for webhooks cannot be read: %s", error)
            return False
        has_begun = False
        for webhook in settings.webhooks:
            is_paused = anyio.current_time() < self._paused.get(webhook.name, 0.0)
            if webhook.enabled and webhook.name in due - self._busy and not is_paused:
                self._busy.add(webhook.name)
                tasks.start_soon(self._serve, webhook, settings, scope)
                has_begun = True
        return has_begun

    async def _serve(self, webhook: WebhookSettings, settings: Settings, scope: str) -> None:
        pause = 0.0
        try:
            if not await self._send_all(webhook, settings, scope):
                pause = _LONGEST_PAUSE
        except RegistryError as error:
            logger.debug("Webhook %s waits for the registry: %s", webhook.name, error)
            pause = _LOOK_EVERY
        except Exception:  # one webhook must not end the others
            logger.exception("Webhook %s cannot be served", webhook.name)
            pause = _LONGEST_PAUSE
        finally:
            self._paused[webhook.name] = anyio.current_time() + pause
            self._busy.discard(webhook.name)
            self._one_ended.set()

    async def _send_all(self, webhook: WebhookSettings, settings: Settings, scope: str) -> bool:
        """Send what is due, until nothing is or the configuration is another one.

        Returns whether that can be done again at once: not without a secret, nor to a receiver
        that is gone.
        """
        # Only processes that have something to send load what sends.
        from discovery_engine._util.fetch.fetch_error import FetchError  # noqa: PLC0415
        from discovery_engine.engine.webhook_sender import (  # noqa: PLC0415
            UnusableWebhookError,
            open_sender,
            target_of,
        )

        lease = webhook.timeout * _ROUNDS + self._margin
        try:
            target = await anyio.to_thread.run_sync(target_of, webhook, settings, self._secrets)
            async with open_sender(target, clock=self._clock) as sender:
                while self._settings() is settings:
                    claimed = await self._in_thread(
                        lambda store: store.claim_deliveries(
                            scope,
                            webhook.name,
                            limit=_MAX_CONCURRENT_DELIVERIES * _ROUNDS,
                            lease=lease,
                        )
                    )
                    if not claimed:
                        break
                    if not await self._send(sender, scope, address_of(webhook), claimed):
                        return False
        except (UnusableWebhookError, FetchError) as error:
            if self._unusable.get(webhook.name) != str(error):
                self._unusable[webhook.name] = str(error)
                logger.warning("Nothing can be sent to webhook %s: %s", webhook.name, error)
            return False
        self._unusable.pop(webhook.name, None)
        return True

    async def _send(
        self, sender: Sender, scope: str, address: str, claimed: tuple[Delivery, ...]
    ) -> bool:
        """Send to one address; nothing more once its receiver is gone, and returns False then."""
        turns, is_gone = anyio.Semaphore(_MAX_CONCURRENT_DELIVERIES), anyio.Event()

        async def send(delivery: Delivery) -> None:
            async with turns:
                if is_gone.is_set():
                    return
                attempt = await sender.send(delivery.event_id, delivery.body)
                if attempt.is_gone:
                    is_gone.set()
                await self._note(self._result(scope, address, delivery, attempt), delivery)

        async with open_task_group() as tasks:
            for delivery in claimed:
                tasks.start_soon(send, delivery)
        return not is_gone.is_set()

    async def _note(self, result: Callable[[Registry], object], delivery: Delivery) -> None:
        try:
            await self._in_thread(result)
        except RegistryError as error:  # its lease ends, and it is sent once more
            logger.debug("What became of %s cannot be noted: %s", delivery.event_id, error)

    def _result(
        self, scope: str, address: str, delivery: Delivery, attempt: Attempt
    ) -> Callable[[Registry], object]:
        """Return the function that notes the outcome of an attempt in the store."""
        name, reason = delivery.webhook, attempt.reason
        if attempt.is_accepted:
            return lambda store: store.finish_delivery(delivery)
        if attempt.is_gone:
            logger.warning("Webhook %s is gone (%s), and disabled", name, reason)
            return lambda store: store.disable_webhook(scope, name, reason, address=address)
        pause = backoff_after(
            delivery.attempts, delivery.waiting, self._random, asked=attempt.retry_after
        )
        if pause is None:
            logger.warning("Webhook %s did not take %s: %s", name, delivery.event_id, reason)
        return lambda store: store.fail_delivery(delivery, reason, retry_in=pause)

    async def _in_thread(self, ask: Callable[[Registry], T]) -> T:
        return await anyio.to_thread.run_sync(ask, self._store)
