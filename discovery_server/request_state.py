"""The `requestState` of an unfinished call, sealed: a client can keep it, not read or change it.

    sealer = StateSealer()
    state = sealer.seal({"call": "7"}, call_identity(client, method, params), lifetime=120.0)
    sealer.unseal(state, call_identity(client, method, params))      {"call": "7"}

AES-256-GCM under a random key that only this process has. The identity of the call is authenticated
with the state and not part of it: a state of another client, tool or arguments cannot be unsealed.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import os
import struct
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from discovery_engine._util.digests import digest
from discovery_engine.rpc.peer import RpcError
from discovery_engine.rpc.protocol import INVALID_PARAMS

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from discovery_engine._util.json import JSONObject, JSONValue

logger = logging.getLogger(__name__)

_VERSION = b"\x01"
_NONCE = 12  # bytes
_TAG = 16  # bytes
_EXPIRY = struct.Struct(">d")  # Unix time
_SHORTEST = len(_VERSION) + _NONCE + _EXPIRY.size + _TAG
_TARGET = ("name", "uri", "arguments")  # the params that say what is called


class InvalidStateError(RpcError):
    """A state that was not sealed here for this call, or is over.

    One text for every reason, so that it teaches nothing to who tries states.
    """

    def __init__(self) -> None:
        text = (
            "Invalid or expired requestState: it belongs to another call, was changed, was used"
            " before, or is too old; send the call again without it"
        )
        super().__init__(INVALID_PARAMS, text, {"reason": "invalid_request_state"})


class StateSealer:
    """Seals states with a key of this process: none is valid after a restart."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` is Unix time."""
        self._clock = clock

    def seal(self, state: JSONObject, identity: bytes, *, lifetime: float) -> str:
        """A state as text, valid for so many seconds, for the call of this identity."""
        nonce = os.urandom(_NONCE)
        plain = _EXPIRY.pack(self._clock() + lifetime) + _json(state)
        sealed = self._cipher.encrypt(nonce, plain, _VERSION + identity)
        return base64.urlsafe_b64encode(_VERSION + nonce + sealed).decode().rstrip("=")

    def unseal(self, text: str, identity: bytes) -> JSONObject:
        """The state of a call.

        Raises:
            InvalidStateError: If it was not sealed here for this identity, or is expired.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as `_cipher`

        sealed = _decoded(text)
        if len(sealed) < _SHORTEST or sealed[:1] != _VERSION:
            raise _refused("malformed")
        nonce, sealed = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        try:
            plain = self._cipher.decrypt(nonce, sealed, _VERSION + identity)
        except InvalidTag:
            raise _refused("not sealed by this process for this call") from None
        if _EXPIRY.unpack_from(plain)[0] <= self._clock():
            raise _refused("expired")
        state: JSONObject = json.loads(plain[_EXPIRY.size :])
        return state

    @cached_property
    def _cipher(self) -> AESGCM:
        # 45 ms to import, and few calls ask anything.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        return AESGCM(AESGCM.generate_key(bit_length=256))


def call_identity(client: str | None, method: str, params: JSONObject) -> bytes:
    """What a state is bound to: who calls, and what is called with which arguments.

    A retry has the same; its progress token and other members of `_meta` may differ.
    """
    target = {name: params[name] for name in _TARGET if params.get(name) not in (None, {})}
    return digest(_json([client, method, target]))


def _json(value: JSONValue) -> bytes:
    """Canonical: equal values have one form; half a surrogate pair has one, too."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def _decoded(text: str) -> bytes:
    """Strictly: of several texts that decode to the same bytes only one is accepted."""
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _refused("not base64") from None
    if base64.urlsafe_b64encode(decoded).decode().rstrip("=") != text:
        raise _refused("not canonical base64")
    return decoded


def _refused(reason: str) -> InvalidStateError:
    logger.debug("A requestState was refused: %s", reason)
    return InvalidStateError()
