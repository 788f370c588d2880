"""Signatures of messages, as https://www.standardwebhooks.com specifies them."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable, Mapping

_PREFIX = "whsec_"
_MIN_KEY_BYTES, _MAX_KEY_BYTES = 24, 64  # bytes of a secret


class SecretFormatError(ValueError):
    """A secret that cannot sign. The message never holds it."""


def key_of_secret(secret: str) -> bytes:
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


def signed_headers(
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
