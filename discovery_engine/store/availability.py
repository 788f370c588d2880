"""The availability of a database, and the times at which it is tried again."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from msgspec import Struct

from discovery_engine.errors import RegistryError

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 1.0  # seconds after a failure in which nothing is tried
_LONGEST_PAUSE = 30.0
_GROWTH = 2.0


class RegistryHealth(Struct, frozen=True):
    """The health of a registry that is not a file of this machine."""

    error: RegistryError | None
    """The reason why it does not answer; None if it does."""
    since: float | None
    """Unix time in seconds at which it was first found not to answer."""
    waiting: int
    """Writes that wait until it answers."""
    dropped: int
    """Writes that did not fit, or that it refused."""
    set_aside: int = 0
    """Writes that it did not make in time, although it answers: they are tried again."""


class Availability:
    """One caller at a time tries a database that failed; the others go on without it.

    Args:
        name: Of the database.
        clock: Seconds from any beginning.
        jitter: A factor, so that gateways do not all return at once.
    """

    def __init__(
        self,
        name: str,
        clock: Callable[[], float],
        jitter: Callable[[], float] = lambda: random.uniform(0.5, 1.0),  # noqa: S311 - no secret
    ) -> None:
        self._name = name
        self._clock = clock
        self._jitter = jitter
        self._turn = threading.Lock()
        self._pause = 0.0
        self._retry_at = 0.0
        self.error: RegistryError | None = None
        """The reason why the database did not answer last; None while it does."""
        self.since: float | None = None
        """Unix time in seconds of the first failure since it answered; None while it does."""

    def may_try(self) -> bool:
        """Return whether to use the database now; after a failure, one caller per pause may."""
        with self._turn:
            if self.error is None:
                return True
            if self._clock() < self._retry_at:
                return False
            self._retry_at = self._clock() + self._pause
            return True

    @property
    def is_due(self) -> bool:
        """True if the next use would try the database."""
        return self.error is None or self._clock() >= self._retry_at

    def retry_now(self) -> None:
        with self._turn:
            self._retry_at = 0.0

    def failed(self, error: RegistryError) -> None:
        with self._turn:
            is_first = self.error is None
            if is_first:
                self.since = time.time()
            self.error = error
            longer = max(self._pause * _GROWTH, _FIRST_PAUSE)
            self._pause = min(longer, _LONGEST_PAUSE)
            self._retry_at = self._clock() + self._pause * self._jitter()
        if is_first:
            next_step = f". {error.hint[0].upper()}{error.hint[1:]}" if error.hint else ""
            text = "%s; until it answers, what was last known is used%s."
            logger.warning(text, error.message, next_step)

    def answered(self) -> bool:
        """Note that the database answers; returns whether it had failed before."""
        with self._turn:
            was_out = self.error is not None
            self.error, self.since, self._pause = None, None, 0.0
        if was_out:
            logger.warning("the database %s answers again", self._name)
        return was_out
