"""A lease: what one process at a time may hold, among all that share a registry.

It has no time of its own, as clocks jump and machines sleep. Its holder renews it again and again;
who waits for it watches, by a clock of their own, whether it was renewed, and takes it if it was
not for long enough. `engine.leadership` does both.
"""

from __future__ import annotations

from msgspec import Struct


class Lease(Struct, frozen=True):
    name: str
    holder: str
    """The process that holds it, by a name that no other ever has; empty once it is released."""
    fence: int
    """One more whenever it is acquired: the higher one counts."""
    renewals: int = 0

    @property
    def is_free(self) -> bool:
        return not self.holder
