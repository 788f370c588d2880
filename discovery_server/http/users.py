"""Authentication of users by the tokens of the gateway.

An address that has sent many wrong tokens must wait (see `WrongTokens`). Tokens that discovery
generated are accepted meanwhile: 256 random bits cannot be guessed, so wrong tokens from the same
address need not lock out their clients. The limit does not apply to loopback addresses, which all
users and programs of this machine share.

A refusal says how to send a token and where to find one; it never contains one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from msgspec import Struct

from discovery_server.access_token import ALL_SCOPES, NO_LIMITS, TokenLimits
from discovery_server.http.client_addresses import is_loopback, machine_of

if TYPE_CHECKING:
    from discovery_server.access_token import AccessToken
    from discovery_server.access_tokens import AccessTokens
    from discovery_server.tokens import Tokens

_CREDENTIALS = re.compile(rb"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)
_EMPTY = re.compile(rb"(bearer)?\s*", re.IGNORECASE)
_ACCESS = " (access token)"  # follows the id of the token in the name of a user


class Refusal(Struct, frozen=True):
    status: int
    error: str
    """The error code of RFC 6750; empty if the request has no token."""
    description: str
    hint: str = ""
    """What to do next."""
    retry_after: int | None = None
    """Seconds to wait, for status 429."""
    needed: str = ""
    """The scopes that the token lacks."""

    @property
    def text(self) -> str:
        """The description, followed by the hint."""
        return f"{self.description}; {self.hint}" if self.hint else self.description


class User(Struct, frozen=True):
    """The holder of a token."""

    name: str
    view: str | None = None
    """The only view that the token gives access to; None for all."""
    scopes: frozenset[str] = ALL_SCOPES
    """The scopes of the token."""
    limits: TokenLimits = NO_LIMITS
    """The servers and tools that the token is limited to."""
    principals: frozenset[str] | None = None
    """The teams and the user that the token stands for; None for the owner, who sees all."""

    @property
    def is_owner(self) -> bool:
        return "admin" in self.scopes


OWNER = User("owner")
"""The person who started the gateway."""


class Users:
    """The holders of valid tokens."""

    def __init__(self, tokens: Tokens, access: AccessTokens | None = None) -> None:
        """Create the users of `tokens`, which are fixed, and `access`, which may change."""
        self._whereabouts = tokens.whereabouts
        self._own = {
            _digest(value.encode()): User(f"token {number}")
            for number, value in enumerate(tokens.values, 1)
        }
        self._is_random = tokens.is_random
        self._access = access
        self._wrong = WrongTokens()

    def of(self, headers: list[bytes], address: str = "") -> User | Refusal:
        """Return the user that the values of the `Authorization` header identify, or a refusal.

        A wrong token counts against `address`.
        """
        if not headers:
            how = "send it as the header `Authorization: Bearer TOKEN`"  # last: logs redact it
            return Refusal(401, "", "a token is required", f"{self._whereabouts}; {how}")
        if len(headers) > 1:
            text = "there is more than one Authorization header"
            return Refusal(400, "invalid_request", text, "send one")
        if _EMPTY.fullmatch(headers[0]):  # probably an unset variable, so it counts as no attempt
            return Refusal(401, "invalid_token", "the token is empty", self._whereabouts)
        match = _CREDENTIALS.fullmatch(headers[0])
        token = match[1] if match else None
        if token and (user := self._found(token, random=True)):
            return user
        may_try = is_loopback(address) or not self._wrong.wait(address)
        if token and may_try and (user := self._found(token, random=False)):
            return user
        text = "no token of this gateway, or a revoked one"
        return self.refuse_wrong(address, Refusal(401, "invalid_token", text, self._whereabouts))

    def refuse_wrong(self, address: str, refusal: Refusal) -> Refusal:
        """Count a wrong token or code, and return `refusal`.

        If the address must wait, nothing is counted, and the status is 429.
        """
        if wait := self._wrong.wait(address):
            text = "too many wrong tokens came from this address"
            hint = "a token of `discovery token create` is looked at all the same"
            return Refusal(429, "too_many_requests", text, hint, retry_after=ceil(wait))
        self._wrong.record(address)
        return refusal

    def has(self, name: str | None) -> bool:
        """Return whether a user's token is still valid; the gateway's own tokens always are."""
        if name is None or self._access is None or not name.endswith(_ACCESS):
            return True
        return self._access.is_valid(name.removesuffix(_ACCESS))

    def mark(self, name: str) -> str:
        """Return a digest that distinguishes users of the same name at different gateways."""
        if name == OWNER.name:
            return hashlib.sha256(b"".join(self._own)).hexdigest()
        return next((digest.hex() for digest, user in self._own.items() if user.name == name), "")

    def known(self, name: str, mark: str) -> User | None:
        """Return the user that another gateway has authenticated; None if unknown here.

        `name` and `mark` are those of the other gateway; the token must still be valid.
        """
        if name.endswith(_ACCESS):
            token = self._access.valid(name.removesuffix(_ACCESS)) if self._access else None
            return _user_of(token) if token else None
        own = {user.name: user for user in (OWNER, *self._own.values())}
        is_same = hmac.compare_digest(mark.encode(), self.mark(name).encode())
        return own.get(name) if is_same else None

    def is_owner(self, name: str | None) -> bool:
        """Return whether a user also sees what is reserved for teams or other users."""
        if name is None or self._access is None or not name.endswith(_ACCESS):
            return name is not None
        return self._access.is_of_owner(name.removesuffix(_ACCESS))

    def _found(self, token: bytes, *, random: bool) -> User | Refusal | None:
        """Return the user of a token; None if unknown.

        `random` selects tokens that discovery generated, or else those that a person chose.
        """
        own = self._owner_of(token) if random is self._is_random else None
        return own or (self._holder_of(token) if random else None)

    def _owner_of(self, token: bytes) -> User | None:
        # Digests have one length and all are compared, so the time reveals nothing about a token.
        digest, owner = _digest(token), None
        for own_digest, user in self._own.items():
            if hmac.compare_digest(own_digest, digest):
                owner = user
        return owner

    def _holder_of(self, given: bytes) -> User | Refusal | None:
        token = self._access.find(given) if self._access else None
        if token is None or self._access is None:
            return None
        if self._access.is_expired(token):
            hint = "`discovery token create` makes another one"
            return Refusal(401, "invalid_token", "this token has expired", hint)
        return _user_of(token)


def _user_of(token: AccessToken) -> User:
    principals = None if "admin" in token.scopes else frozenset(token.principals)
    return User(f"{token.id}{_ACCESS}", token.view, token.scopes, token.limits, principals)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


# A rate limit on wrong tokens, by the address that sends them.
#
# An address may send ten wrong tokens at once, and then ten a minute. All addresses together may
# send a hundred; beyond that, an address gets no second attempt before its first is forgotten. So a
# token that a person chose cannot be guessed from a list of words. An address without wrong tokens
# is never blocked: clients elsewhere cannot lock it out.

AT_ONCE = 10  # wrong tokens of one address
INTERVAL = 6.0  # seconds after which one of them is forgotten
_AT_ONCE_OF_ALL = 100  # wrong tokens of all addresses
_INTERVAL_OF_ALL = 0.6  # seconds after which one of these is forgotten
MOST_ADDRESSES = 1024


class _Bucket(Struct):
    """A leaky bucket: a number of wrong tokens, which falls by one in each interval."""

    level: float = 0.0
    at: float = 0.0

    def leak(self, now: float, interval: float) -> float:
        self.level = max(0.0, self.level - (now - self.at) / interval)
        self.at = now
        return self.level


class WrongTokens:
    """Counts the wrong tokens of each address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with no wrong tokens; `clock` returns monotonic seconds."""
        self._clock = clock
        self._all = _Bucket(at=clock())
        self._addresses: OrderedDict[str, _Bucket] = OrderedDict()
        """The buckets by address, the most recently wrong one last."""

    def __len__(self) -> int:
        return len(self._addresses)

    def wait(self, host: str) -> float:
        """Return the seconds until tokens from an address are checked again; 0 if they are now."""
        if not self._addresses:  # at nearly every request: an address takes 2 us to compare
            return 0.0
        address = machine_of(host)
        bucket = self._addresses.get(address)
        if bucket is None:
            return 0.0
        now = self._clock()
        level = bucket.leak(now, INTERVAL)
        if not level:
            del self._addresses[address]
            return 0.0
        is_full = self._all.leak(now, _INTERVAL_OF_ALL) > _AT_ONCE_OF_ALL - 1
        excess = level if is_full else level - (AT_ONCE - 1)
        return max(0.0, excess * INTERVAL)

    def record(self, host: str) -> None:
        """Count a wrong token against an address."""
        address, now = machine_of(host), self._clock()
        bucket = self._addresses.setdefault(address, _Bucket(at=now))
        bucket.leak(now, INTERVAL)
        bucket.level += 1
        self._all.leak(now, _INTERVAL_OF_ALL)
        self._all.level = min(self._all.level + 1, float(_AT_ONCE_OF_ALL))
        self._addresses.move_to_end(address)
        if len(self._addresses) > MOST_ADDRESSES:
            self._addresses.popitem(last=False)
