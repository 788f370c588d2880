"""Seals the `requestState` of an unfinished call, so that clients can neither read nor change it.

    sealer = StateSealer()
    state = sealer.seal({"call": "7"}, call_identity(client, method, params), lifetime=120.0)
    sealer.unseal(state, call_identity(client, method, params))      {"call": "7"}

The cipher is AES-256-GCM. Its key is shared by the gateways of a database, or else random and known
to this process only. The identity of the call is authenticated but not contained, so a state cannot
be unsealed for another client, tool or arguments.
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
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import anyio.to_thread

from discovery_engine._util.digests import digest
from discovery_engine.errors import RegistryError
from discovery_engine.rpc.messages import RpcError
from discovery_engine.rpc.protocol import INVALID_PARAMS
from discovery_engine.store.gateway_records import SHARES_NOTHING, STATE_KEY

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from discovery_engine._util.json import JSONObject, JSONValue

logger = logging.getLogger(__name__)

SharedKey: TypeAlias = Callable[[], bytes | None]
"""Returns the key that the gateways of a database share, or None without a secret; may block."""

_VERSION = b"\x01"
_RELAYED = b"\x02"  # so that relayed content cannot be taken for a state, nor the reverse
_KEY = 32  # bytes
_NONCE = 12  # bytes
_TAG = 16  # bytes
_EXPIRY = struct.Struct(">d")  # Unix time
_MIN_SEALED_LENGTH = len(_VERSION) + _NONCE + _EXPIRY.size + _TAG
_TARGET = ("name", "uri", "arguments")  # the params that identify what is called


class InvalidStateError(RpcError):
    """A state that was not sealed for this call, has expired, or was used.

    All causes have the same message, which gives no help to someone who guesses states.
    """

    def __init__(self) -> None:
        text = (
            "Invalid or expired requestState: it belongs to another call, was changed, was used"
            " before, or is too old; send the call again without it"
        )
        super().__init__(INVALID_PARAMS, text, {"reason": "invalid_request_state"})


class OtherGatewayError(RpcError):
    """A request about a parked call or a task that another gateway has."""

    def __init__(
        self, process: str, gateway: str = "", *, is_task: bool = False, is_silent: bool = False
    ) -> None:
        """Create the error.

        Args:
            process: The other gateway's `PostgresGateways.instance`.
            gateway: The other gateway's name for people; empty if it has none.
            is_task: True for a task, False for a call.
            is_silent: True if the other gateway was asked and did not answer.
        """
        self.process = process
        self._is_task = is_task
        self._gateway = gateway
        where = f"at another gateway{f' ({gateway})' if gateway else ''}"
        where += ", which does not answer" if is_silent else ""
        text = (
            f"This call waits for its responses {where}: its server asked in the middle of it; send"
            f" the call again without requestState{'' if is_silent else ', or to that gateway'}"
        )
        if is_task:
            how = "in a moment" if is_silent else "there"
            text = (
                f"This task is {where}: send the request again {how}; a task ends with its gateway,"
                " so if that is gone, call the tool again"
            )
        super().__init__(INVALID_PARAMS, text, {"reason": "other_gateway"})

    @property
    def subject(self) -> str:
        """The subject of the request, for the beginning of a sentence."""
        return "This task" if self._is_task else "This call"

    def without_answer(self) -> OtherGatewayError:
        """Return a copy that says that the other gateway does not answer."""
        return OtherGatewayError(self.process, self._gateway, is_task=self._is_task, is_silent=True)


class StateSealer:
    """Seals states for this process, and for all gateways that share a key.

    Without a shared key, states are valid neither at other gateways nor after a restart.
    """

    def __init__(
        self,
        shared: SharedKey | None = None,
        *,
        gateway: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a sealer; `prepare` derives the shared key.

        Args:
            shared: Derives the key that all gateways share; None if there is none.
            gateway: The name of this gateway; empty if it has none.
            clock: Returns Unix time in seconds.
        """
        self.gateway = gateway
        """The name of this gateway for people; empty if it has none."""
        self._derive = shared
        self._shared: AESGCM | None = None
        self._clock = clock

    async def prepare(self) -> None:
        """Derive the shared key; if the registry is unavailable, the next call tries again."""
        if self._derive is None:
            return
        try:
            key = await anyio.to_thread.run_sync(self._derive)
        except RegistryError as error:
            logger.info("A requestState is valid at this gateway alone for now: %s", error)
            return
        self._derive = None
        if key is None:
            logger.warning("%s; set the same %s for all of them", SHARES_NOTHING, STATE_KEY)
        else:
            self._shared = _cipher_of(key)

    @property
    def is_shared(self) -> bool:
        """True if this gateway has the shared key."""
        return self._shared is not None

    @property
    def may_share(self) -> bool:
        """True if this gateway has the shared key, or may still derive it."""
        return self.is_shared or self._derive is not None

    def encrypt(self, content: bytes, about: bytes) -> bytes:
        """Encrypt content for other gateways, bound to the subject `about`.

        Raises:
            InvalidStateError: If gateways share no key (see `is_shared`).
        """
        nonce = os.urandom(_NONCE)
        return nonce + self._of_all().encrypt(nonce, content, _RELAYED + about)

    def decrypt(self, sealed: bytes, about: bytes) -> bytes:
        """Return the content that another gateway has encrypted.

        Raises:
            InvalidStateError: If it has another key or subject, or gateways share no key.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as `_cipher_of`

        try:
            return self._of_all().decrypt(sealed[:_NONCE], sealed[_NONCE:], _RELAYED + about)
        except (InvalidTag, ValueError):
            raise _refused("not encrypted by a gateway with this key") from None

    def seal(self, state: JSONObject, identity: bytes, *, lifetime: float) -> str:
        """Seal a state for the call with this identity, valid for `lifetime` seconds; base64url."""
        nonce = os.urandom(_NONCE)
        plain = _EXPIRY.pack(self._clock() + lifetime) + _json(state)
        sealed = self._ciphers[0].encrypt(nonce, plain, _VERSION + identity)
        return base64.urlsafe_b64encode(_VERSION + nonce + sealed).decode().rstrip("=")

    def unseal(self, text: str, identity: bytes) -> JSONObject:
        """Return the state that `seal` made a text of.

        Raises:
            InvalidStateError: If it was not sealed for this identity, or has expired.
        """
        sealed = _decoded(text)
        if len(sealed) < _MIN_SEALED_LENGTH or sealed[:1] != _VERSION:
            raise _refused("malformed")
        plain = self._decrypted(sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :], _VERSION + identity)
        if _EXPIRY.unpack_from(plain)[0] <= self._clock():
            raise _refused("expired")
        state: JSONObject = json.loads(plain[_EXPIRY.size :])
        return state

    def _decrypted(self, nonce: bytes, sealed: bytes, authenticated: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as `_cipher_of`

        for cipher in self._ciphers:
            with suppress(InvalidTag):
                return cipher.decrypt(nonce, sealed, authenticated)
        raise _refused("not sealed for this call with a key of this gateway")

    def _of_all(self) -> AESGCM:
        if self._shared is None:
            raise _refused("gateways share no key")
        return self._shared

    @property
    def _ciphers(self) -> list[AESGCM]:
        """The cipher that seals first, then that of states older than the shared key."""
        return [self._shared, self._own] if self._shared else [self._own]

    @cached_property
    def _own(self) -> AESGCM:
        return _cipher_of(os.urandom(_KEY))


def call_identity(client: str | None, method: str, params: JSONObject) -> bytes:
    """Return the identity that a state is bound to: the client, the target and its arguments.

    A retry has the same identity; its progress token and other members of `_meta` may differ.
    """
    target = {name: params[name] for name in _TARGET if params.get(name) not in (None, {})}
    return digest(_json([client, method, target]))


def _cipher_of(key: bytes) -> AESGCM:
    # 45 ms to import, and few calls ask anything.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    return AESGCM(key)


def _json(value: JSONValue) -> bytes:
    """Encode JSON canonically in ASCII: equal values have equal bytes, even lone surrogates."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def _decoded(text: str) -> bytes:
    """Decode canonical base64url without padding; any other text of the same bytes is refused."""
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
