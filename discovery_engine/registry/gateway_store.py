"""State that gateways share in a database, so that a client may use any of them.

Not only gateways may read the database, so nothing in it is of use without a secret that it does
not have: the password of the database, a token, the handle of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import anyio

    from discovery_engine.registry.relay_records import RelayNews, RelayTurn

STATE_KEY = "DISCOVERY_STATE_KEY"
"""The variable with a secret of all gateways of a database that is used without a password."""
SHARES_NOTHING = (
    "the database is used without a password, so gateways share no secret: an unfinished call is "
    "continued where it began"
)
"""The text shown where no key can be derived."""


TokenDocuments: TypeAlias = tuple[str, ...]
"""The record of each access token, as JSON, in the order in which they were made."""


class GatewayStore(Protocol):
    """Calls block; all raise `RegistryError` if the database does not answer or refuses."""

    @property
    def name(self) -> str:
        """Where the database is, without any secret."""

    @property
    def instance(self) -> str:
        """This process among those of the database: a random name that no other one ever has."""

    @property
    def changed(self) -> anyio.Event:
        """Set soon after the next change, while `Registry.changes` is followed."""

    def sealing_key(self, secret: str = "") -> bytes | None:
        """A key of 32 bytes, the same for all gateways with the same secret; None without one.

        Args:
            secret: What all gateways have, and no client; by default the password with which the
                database is used.
        """

    def access_tokens(self, scope: str) -> TokenDocuments:
        """Return the access tokens of a configuration."""

    def token_scopes(self) -> frozenset[str]:
        """The configurations that have access tokens."""

    def change_access_tokens(
        self, scope: str, change: Callable[[TokenDocuments], TokenDocuments]
    ) -> None:
        """Keep what `change` makes of them, or nothing if it raises; no other process writes then.

        What it adds comes last.
        """

    def result(self, key: bytes) -> bytes | None:
        """Return the result kept under a key; None if there is none, or not any more."""

    def keep_result(
        self, key: bytes, result: bytes, *, lifetime: float, instead_of: Collection[bytes] = ()
    ) -> None:
        """Keep it for so many seconds of the database's clock; others, by their keys, no longer."""

    @property
    def relayed(self) -> anyio.Event:
        """Set soon after the next relayed request, or answer, for `instance`; as `changed`."""

    def take_turn(self, turn: RelayTurn) -> RelayNews:
        """Write the turn of `instance`, then return the news for it."""
