"""How one server fares: in one word, why, and what to do about it.

The word is folded from what the settings say of the server, what the catalog holds of it, and how
it is seen to fare at the moment. Whoever speaks of a server uses this word and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.prose import first_sentence
from discovery_engine.catalog import Failure, ServerPart
from discovery_engine.errors import (
    ConfigurationError,
    ServerDisabledError,
    UntrustedServerError,
    plain_reason,
)
from discovery_engine.rules.explanation import describe, public_decider
from discovery_engine.rules.rule import REFUSALS, WITHHELD, Verdict
from discovery_engine.tools.model import ServerName
from discovery_engine.view import notices

if TYPE_CHECKING:
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.rules.rule import Rule
    from discovery_engine.view.notices import Notice


class ServerStatus(StrEnum):
    PENDING = "pending"
    """Its tools have not been asked for yet."""
    STARTING = "starting"
    READY = "ready"
    """A session is open."""
    IDLE = "idle"
    """Its tools are known; the next call connects."""
    DEGRADED = "degraded"
    """A session is open, and not all is well with it."""
    FAILING = "failing"
    CRASH_LOOPING = "crash-looping"
    """Its program keeps ending by itself."""
    NEEDS_CONFIG = "needs_config"
    NEEDS_AUTH = "needs_auth"
    UNTRUSTED = "untrusted"
    """Its owner has not approved that it is started."""
    DISABLED = "disabled"


_STATUS_OF_FAILURE = {
    "SERVER_NEEDS_CONFIG": ServerStatus.NEEDS_CONFIG,
    "SERVER_NEEDS_AUTH": ServerStatus.NEEDS_AUTH,
    "SERVER_UNTRUSTED": ServerStatus.UNTRUSTED,
}

_OFF_BY_ITSELF = Verdict(enabled=False, reason="server")
_UNASKED = (ServerStatus.PENDING, ServerStatus.STARTING)
_OPEN = (ServerStatus.READY, ServerStatus.DEGRADED)
_DOWN = (ServerStatus.FAILING, ServerStatus.CRASH_LOOPING)
_UNREACHABLE = (*_DOWN, *_STATUS_OF_FAILURE.values())


class Live(Struct, frozen=True):
    """How a server that was asked for something fares at the moment."""

    status: ServerStatus
    reason: str = ""
    stderr: str = ""
    """The last lines of a program that failed, or that is starting."""
    seconds: float | None = None
    """For how long it has been starting; None if it waits for its turn, or does not start."""
    detail: str = ""
    """More of the reason, for the owner alone: it may quote the server."""

    @property
    def has_session(self) -> bool:
        return self.status in _OPEN

    @classmethod
    def of(cls, state: str, reason: str, stderr: str, detail: str) -> Live:
        status = ServerStatus(state)
        return cls(status, reason, stderr if status in _DOWN else "", detail=detail)


class LiveServers(Mapping["ServerName", Live]):
    """The servers that were asked for something, each looked at when it is first read.

    A reader of one server does not pay for the others; one who reads it twice sees the same.
    """

    def __init__(
        self, names: Callable[[], Iterable[ServerName]], look: Callable[[ServerName], Live | None]
    ) -> None:
        self._names = names
        self._look = look
        self._seen: dict[ServerName, Live | None] = {}

    def __getitem__(self, name: ServerName) -> Live:
        if name not in self._seen:
            self._seen[name] = self._look(name)
        if (live := self._seen[name]) is None:
            raise KeyError(name)
        return live

    def __iter__(self) -> Iterator[ServerName]:
        return iter([name for name in self._names() if name in self])

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Diagnosis(Struct, frozen=True):
    status: ServerStatus
    reason: str = ""
    """Why the status is what it is, where that is not plain."""
    hint: str = ""
    detail: str = ""
    """More of the reason, for the owner alone."""


class ServerSummary(Struct, frozen=True):
    """A server as lists show it: what it is for, how it fares, how many tools it has."""

    name: ServerName
    description: str
    status: ServerStatus
    reason: str
    """Why the status is what it is, where that is not plain; may be empty."""
    hint: str
    tool_count: int
    enabled_count: int
    tags: tuple[str, ...]
    listed_at: float | None
    """Unix time in seconds at which its tools were last listed; None for never."""
    is_stale: bool
    """The newest attempt to list failed: the tools are the last known ones."""
    withheld_count: int = 0
    """Tools that are held back until their owner has accepted what they say."""
    stderr: str = ""
    """The last lines that its program wrote before it failed; a stranger's words."""
    detail: str = ""
    """More of the reason, for the owner alone: it may name files of the owner's disk."""
    starting_for: float | None = None
    """Seconds since it was started, while it is starting; None if it waits for its turn."""
    progress: str = ""
    """The last line that its program wrote while it is starting; a stranger's words."""


class ServerView(Struct, frozen=True, dict=True):
    """One server of a view: all that can be said of it."""

    settings: ServerSettings
    part: ServerPart
    rules: Sequence[Rule]
    """The `serverRules` that its verdict was made with."""
    live: Live | None = None
    """How it fares; None if this process asked it for nothing."""

    @cached_property
    def diagnosis(self) -> Diagnosis:
        if problem := self.settings.problem:
            return Diagnosis(ServerStatus.NEEDS_CONFIG, problem.sentence, problem.hint)
        if refused := self.refusal:
            return Diagnosis(ServerStatus.UNTRUSTED, refused.reason, refused.hint, refused.detail)
        if not (verdict := self._switch).enabled:
            reason = public_decider(verdict, subject="server")
            whole = describe(verdict, self.rules, subject="server")
            return Diagnosis(ServerStatus.DISABLED, reason, detail=whole if whole != reason else "")
        found = _seen_and_known(self.live, self.part)
        return replace(found, reason=plain_reason(self.settings.name, found.reason))

    @property
    def refusal(self) -> UntrustedServerError | None:
        """Why it must not be started; None if that is not what keeps it off."""
        server, reason = self.settings, self.part.verdict.reason
        if reason not in REFUSALS or server.problem or not server.enabled:
            return None
        return UntrustedServerError(server.name, reason, self.part.verdict.detail)

    @property
    def owner_description(self) -> str:
        """What the owner says it is for; empty while it waits for the owner's approval."""
        return "" if self.refusal else self.settings.description

    @property
    def summary(self) -> ServerSummary:
        server, part = self.settings, self.part
        found = self.diagnosis
        is_trusted = found.status is not ServerStatus.UNTRUSTED
        is_down = found.status in _UNREACHABLE and is_trusted
        description = self.owner_description or first_sentence(part.instructions)
        return ServerSummary(
            name=server.name,
            description=description if is_trusted else "",
            status=found.status,
            reason=found.reason,
            hint=found.hint,
            tool_count=len(part.entries),
            enabled_count=part.visible_count,
            tags=(part.verdict.tags or server.tags) if is_trusted else (),
            listed_at=part.listed_at,
            is_stale=part.is_stale,
            withheld_count=part.held_back(WITHHELD),
            stderr=self._last_words if is_down else "",
            detail=found.detail,
            starting_for=self._starting_for,
            progress=self._progress,
        )

    @property
    def outage(self) -> Notice | None:
        """That an answer cannot speak for it, and why; None if one can."""
        name, part, found = self.settings.name, self.part, self.diagnosis
        if found.status in _UNASKED:
            if part.listed_at is not None:
                return None
            return notices.loading(name, found.status, self._starting_for, self._progress)
        if not self.is_unavailable:
            return None
        known_at = part.listed_at if part.is_stale else None
        return notices.unavailable(name, found.status, found.reason, found.hint, known_at=known_at)

    @property
    def is_unheard(self) -> bool:
        """Whether it may be used, and has never listed its tools."""
        return self.part.listed_at is None and self.is_enabled

    @property
    def is_enabled(self) -> bool:
        """Whether it may be used, whether or not it can be."""
        return self.diagnosis.status is not ServerStatus.DISABLED

    @property
    def is_unavailable(self) -> bool:
        """Whether it cannot be asked, and asking it again at once would not help."""
        return self.diagnosis.status in _UNREACHABLE

    @property
    def is_connectable(self) -> bool:
        """Whether it may be started or reached, as far as its entry and the rules go."""
        return self.settings.problem is None and self.part.verdict.enabled

    def require_connectable(self) -> None:
        """Check that it may be started or reached.

        Raises:
            ConfigurationError: If its entry cannot be used.
            ServerDisabledError, UntrustedServerError: As `require_enabled`.
        """
        if self.settings.problem:
            raise ConfigurationError([self.settings.problem])
        self.require_enabled()

    def require_enabled(self) -> None:
        """Check that it may be used.

        Raises:
            ServerDisabledError: If it is switched off.
            UntrustedServerError: If it must not be started.
        """
        if refused := self.refusal:
            raise refused
        if self.diagnosis.status is ServerStatus.DISABLED:
            found = self.diagnosis
            raise ServerDisabledError(self.settings.name, found.reason, found.detail)

    @property
    def _switch(self) -> Verdict:
        """Whether it is switched on, and by what."""
        return self.part.verdict if self.settings.enabled else _OFF_BY_ITSELF

    @property
    def _start(self) -> Live | None:
        """How far it is with starting; None if it is not starting."""
        return self.live if self.diagnosis.status is ServerStatus.STARTING else None

    @property
    def _starting_for(self) -> float | None:
        return self._start.seconds if self._start else None

    @property
    def _progress(self) -> str:
        return self._start.stderr.rpartition("\n")[2] if self._start else ""

    @property
    def _last_words(self) -> str:
        live, failure = self.live, self.part.failure
        return (live.stderr if live else "") or (failure.stderr if failure else "")


def _seen_and_known(live: Live | None, part: ServerPart) -> Diagnosis:
    """Of a server that may be asked."""
    if failure := part.failure:  # one that is tried again has not mended yet
        return _after_failure(failure, live)
    if live and live.status is not ServerStatus.IDLE:
        return Diagnosis(live.status, live.reason, detail=live.detail)
    status = ServerStatus.IDLE if part.listed_at else ServerStatus.PENDING
    return Diagnosis(status, live.reason, detail=live.detail) if live else Diagnosis(status)


def _after_failure(failure: Failure, live: Live | None) -> Diagnosis:
    """Of a server whose tools could not be listed."""
    reason, detail = failure.message, failure.detail
    if live and live.reason:
        reason, detail = live.reason, live.detail
    if live and live.status in _OPEN:
        return Diagnosis(ServerStatus.DEGRADED, reason, failure.hint, detail)
    status = _STATUS_OF_FAILURE.get(failure.code, ServerStatus.FAILING)
    if live and live.status in _DOWN and status is ServerStatus.FAILING:
        return Diagnosis(live.status, reason, failure.hint, detail)
    return Diagnosis(status, failure.message, failure.hint, failure.detail)
