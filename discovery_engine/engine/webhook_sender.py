"""Sends messages to one webhook: signed, without redirects, and never into another network."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_engine._util.fetch.fetch_error import FetchError
from discovery_engine._util.fetch.fetcher import Fetcher, open_fetcher
from discovery_engine._util.retry_after import retry_after
from discovery_engine.config.syntax import is_secure_address
from discovery_engine.secrets.references import MalformedReferenceError, UnsetReference
from discovery_engine.secrets.resolver import SecretResolver, resolve

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.config.webhook_settings import WebhookSettings

_GONE = 410
_SUCCESS = range(200, 300)
_REDIRECTS = range(300, 400)


class UnusableWebhookError(Exception):
    """Nothing can be sent to a webhook as it is configured. The message holds no secret."""


class Target(Struct, frozen=True):
    """The address of a webhook's messages, with the key that signs them."""

    url: str
    keys: tuple[bytes, ...]
    is_private: bool
    timeout: float


class Attempt(Struct, frozen=True):
    """The outcome of sending one message."""

    status: int | None
    """The status of the answer; None without one."""
    reason: str
    """The reason why it was not accepted; empty if it was."""
    hint: str = ""
    retry_after: float | None = None
    """Seconds that the receiver asks to be left alone; None if it asks for nothing."""

    @property
    def is_accepted(self) -> bool:
        return not self.reason

    @property
    def is_gone(self) -> bool:
        """The receiver says that it wants nothing more, ever."""
        return self.status == _GONE


def target_of(webhook: WebhookSettings, settings: Settings, secrets: SecretResolver) -> Target:
    """Return the target of a webhook by the references' current values; it may read files.

    Raises:
        UnusableWebhookError: If a reference has no value, or one that cannot be used.
    """
    folder = os.path.dirname(settings.path or "") or None  # noqa: PTH120 - "" must stay ""
    try:
        url = resolve(webhook.url, secrets, base_dir=folder)
        texts = [resolve(text, secrets, base_dir=folder) for text in webhook.secret]
    except (UnsetReference, MalformedReferenceError) as error:
        raise UnusableWebhookError(str(error)) from error
    if not (webhook.private or is_secure_address(url)):
        raise UnusableWebhookError("its address is neither https:// nor http:// of this machine")
    try:
        keys = tuple(map(_key_of_secret, texts))
    except SecretFormatError as error:
        raise UnusableWebhookError(f"its secret {error}") from error
    return Target(url, keys, webhook.private, webhook.timeout)


class Sender:
    """Made by `open_sender`."""

    def __init__(self, target: Target, fetcher: Fetcher, clock: Callable[[], float]) -> None:
        self._target = target
        self._fetcher = fetcher
        self._clock = clock

    async def send(self, event_id: str, body: str) -> Attempt:
        content = body.encode()
        headers = _signed_headers(event_id, content, self._target.keys, at=self._clock())
        headers = {**headers, "content-type": "application/json"}
        try:
            answer = await self._fetcher.post(
                self._target.url, content, headers=headers, within=self._target.timeout
            )
        except FetchError as error:
            return Attempt(None, error.reason, error.hint)
        status = answer.status
        if status in _SUCCESS:
            return Attempt(status, "")
        if status in _REDIRECTS:
            hint = "write the address that it redirects to"
            return Attempt(status, f"HTTP {status}, a redirect, which is not followed", hint)
        pause = retry_after(answer.headers.get("retry-after", ""))
        return Attempt(status, f"HTTP {status}", "the log of the receiver may say why", pause)


@asynccontextmanager
async def open_sender(target: Target, *, clock: Callable[[], float]) -> AsyncGenerator[Sender]:
    """Yield what sends to a target; `clock` is Unix time in seconds.

    Raises:
        FetchError: If its address is none of the web.
    """
    async with open_fetcher(target.url, is_private=target.is_private) as fetcher:
        yield Sender(target, fetcher, clock)


_PREFIX = "whsec_"
_MIN_KEY_BYTES, _MAX_KEY_BYTES = 24, 64  # bytes of a secret


class SecretFormatError(ValueError):
    """A secret that cannot sign. The message never holds it."""


def _key_of_secret(secret: str) -> bytes:
    """The key that a secret holds.

    Raises:
        SecretFormatError: If it is no `whsec_` with base64 of 24 to 64 bytes.
    """
    encoded = secret.strip().removeprefix(_PREFIX)
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.strip().startswith(_PREFIX) or not _MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES:
        raise SecretFormatError(
            f"is not `{_PREFIX}` and base64 of {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES} random bytes"
        )
    return key


def _signed_headers(
    event_id: str, body: bytes, keys: Iterable[bytes], *, at: float
) -> Mapping[str, str]:
    """The headers that sign a message sent at Unix time `at`, with one signature for each key."""
    timestamp = str(int(at))
    content = b".".join((event_id.encode(), timestamp.encode(), body))
    signatures = (base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in keys)
    return {
        "webhook-id": event_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
