"""The servers of a view, each with its state: a `ServerState` with its reason and a hint.

It is merged from the settings, the catalog and the live state of the upstream. Everything that
shows a server uses this state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.catalog import DroppedTool, Failure, ServerPart
from discovery_engine.config.settings import OWN_SOURCE
from discovery_engine.errors import (
    ConfigurationError,
    ServerDisabledError,
    UntrustedServerError,
    plain_reason,
)
from discovery_engine.rules.rule import REFUSALS, WITHHELD, Verdict, describe, public_decider
from discovery_engine.tools.model import ServerName
from discovery_engine.tools.offering import OfferingKind
from discovery_engine.upstream.state import ServerState, SessionStats, StateInfo
from discovery_engine.view import notices

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog
    from discovery_engine.config.settings import ServerSettings, Settings
    from discovery_engine.rules.rule import Rule
    from discovery_engine.view.addresses import AddressBook
    from discovery_engine.view.notices import Notice

_STATE_OF_FAILURE = {
    "SERVER_NEEDS_CONFIG": ServerState.NEEDS_CONFIG,
    "SERVER_NEEDS_AUTH": ServerState.NEEDS_AUTH,
    "SERVER_UNTRUSTED": ServerState.UNTRUSTED,
}
_CODE_OF_STATE = {state: code for code, state in _STATE_OF_FAILURE.items()}
_OFF_BY_ITSELF = Verdict(enabled=False, reason="server")
_SWITCHED_OFF = Verdict(enabled=False, reason="switch")
_NOT_LISTED = (ServerState.PENDING, ServerState.STARTING)
_UNREACHABLE = (ServerState.FAILING, ServerState.CRASH_LOOPING, *_STATE_OF_FAILURE.values())
_UNHEALTHY = (ServerState.DEGRADED, *_UNREACHABLE)


class LiveStates(Mapping["ServerName", StateInfo]):
    """The live state of the servers used so far, each computed when first read.

    Reading one server does not compute the others; reading it twice returns the same value.
    """

    def __init__(
        self,
        names: Callable[[], Iterable[ServerName]],
        compute: Callable[[ServerName], StateInfo | None],
    ) -> None:
        self._names = names
        self._compute = compute
        self._states: dict[ServerName, StateInfo | None] = {}

    def __getitem__(self, name: ServerName) -> StateInfo:
        if name not in self._states:
            self._states[name] = self._compute(name)
        if (live := self._states[name]) is None:
            raise KeyError(name)
        return live

    def __iter__(self) -> Iterator[ServerName]:
        return iter([name for name in self._names() if name in self])

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Observation(Struct, frozen=True):
    """The state of one server in one running gateway."""

    server: str
    status: str
    """A `ServerState`, or one of a newer version."""
    connection: str
    """The fingerprint of how the gateway reaches it."""
    gateway: int = 0
    """The process id of the gateway."""
    reason: str = ""
    stderr: str = ""
    since: float | None = None
    """Unix time in seconds."""
    next_try: float | None = None
    """Unix time in seconds before which it is not tried again."""
    detail: str = ""
    """More of the reason, for the owner only."""


class ServerReport(Struct, frozen=True, kw_only=True):
    """A server as lists and health checks show it."""

    name: ServerName
    description: str = ""
    source: str = OWN_SOURCE
    """The place of its entry: `discovery.yaml`, `registry`, or the id of another source."""
    is_wanted: bool = True
    """True if its owner wants it to be used; a failure changes nothing about that."""
    package: str = ""
    """The package that it runs, if it was installed: `@acme/mail@1.2.3`. `engine.health` also has
    one that the command of an entry names."""
    created_at: float | None = None
    """Unix time in seconds at which it was registered; None if it stands in a file."""
    updated_at: float | None = None
    """Unix time in seconds of the last change of its registered entry or package."""
    state: ServerState
    reason: str = ""
    """The reason why it is in that state; may be empty."""
    hint: str = ""
    detail: str = ""
    """More of the reason, for the owner only: it may name files of the owner's disk."""
    stderr: str = ""
    """The last lines that its program wrote before it failed; external text."""
    tool_count: int = 0
    enabled_count: int = 0
    skill_count: int = 0
    """Visible skills."""
    withheld_count: int = 0
    """Tools, resources, templates and prompts that are quarantined until the owner has accepted
    their definitions."""
    tags: tuple[str, ...] = ()
    sandbox: str = ""
    """The confinement of its program, as it is configured; empty without a sandbox."""
    listed_at: float | None = None
    """Unix time in seconds of the last successful listing; None for never."""
    is_stale: bool = False
    """True if the newest listing failed, so that the tools are the last known ones."""
    starting_for: float | None = None
    """Seconds since the start began; None while it waits for a start slot or does not start."""
    progress: str = ""
    """The last line that its program wrote while it is starting; external text."""
    failure: Failure | None = None
    """The reason why its last listing failed."""
    dropped: tuple[DroppedTool, ...] = ()
    """Tools that it lists and that cannot be used."""
    since: float | None = None
    """Unix time in seconds since when it has been in that state; None if unknown."""
    next_try: float | None = None
    """Unix time in seconds before which it is not tried again by itself."""
    stats: SessionStats | None = None
    """Counters of this process; None if it did not use the server."""
    gateways: tuple[Observation, ...] = ()
    """Its state in the running gateways, the worst first."""

    @property
    def is_healthy(self) -> bool:
        """True if it can be used."""
        return self.state not in _UNHEALTHY

    @property
    def has_problem(self) -> bool:
        """True if the owner has something to do about it."""
        has_lost = bool(self.dropped) and self.state is not ServerState.DISABLED
        return has_lost or not self.is_healthy


def error_code(state: ServerState) -> str:
    """The code of the error that a request for a server in that state raises."""
    return _CODE_OF_STATE.get(state, "SERVER_CONNECTION_ERROR")


class ConfiguredServer(Struct, frozen=True, dict=True):
    """A configured server with its part of the catalog and its live state."""

    settings: ServerSettings
    part: ServerPart
    rules: Sequence[Rule]
    """The `serverRules` of its verdict."""
    live: StateInfo | None = None
    """Its live state; None if this process did not use it."""

    @cached_property
    def info(self) -> StateInfo:
        if problem := self.settings.problem:
            return StateInfo(ServerState.NEEDS_CONFIG, problem.sentence, hint=problem.hint)
        if refused := self.refusal:
            return StateInfo(
                ServerState.UNTRUSTED, refused.reason, hint=refused.hint, detail=refused.detail
            )
        if not (verdict := self._switch).enabled:
            reason = public_decider(verdict, subject="server")
            whole = describe(verdict, self.rules, subject="server")
            return StateInfo(ServerState.DISABLED, reason, detail=whole if whole != reason else "")
        info = _merged(self.live, self.part)
        return replace(info, reason=plain_reason(self.settings.name, info.reason))

    @property
    def refusal(self) -> UntrustedServerError | None:
        """The error that forbids its start; None if it may start, or is off for another reason."""
        server, reason = self.settings, self.part.verdict.reason
        if reason not in REFUSALS or server.problem or not server.enabled:
            return None
        return UntrustedServerError(server.name, reason, self.part.verdict.detail)

    @property
    def owner_description(self) -> str:
        """The owner's description; empty while it waits for the owner's approval."""
        return "" if self.refusal else self.settings.description

    def description_with(self, instructions: str) -> str:
        """The owner's description, or else the beginning of the server's instructions."""
        if not self._is_trusted:
            return ""
        return self.owner_description or first_sentence(instructions)

    @property
    def _is_trusted(self) -> bool:
        return self.info.state is not ServerState.UNTRUSTED

    @cached_property
    def report(self) -> ServerReport:
        server, part, info = self.settings, self.part, self.info
        is_down = info.state in _UNREACHABLE and self._is_trusted
        return ServerReport(
            name=server.name,
            description=self.description_with(part.instructions),
            source=server.source,
            is_wanted=server.enabled,
            package=server.package,
            created_at=server.created_at,
            updated_at=server.updated_at,
            state=info.state,
            reason=info.reason,
            hint=info.hint,
            detail=info.detail,
            stderr=self._stderr if is_down else "",
            **tool_counts(part),
            tags=(part.verdict.tags or server.tags) if self._is_trusted else (),
            sandbox=str(server.sandbox) if server.sandbox.is_on else "",
            listed_at=part.listed_at,
            is_stale=part.is_stale,
            starting_for=self._starting_for,
            progress=self._progress,
            failure=part.failure,
            dropped=part.dropped,
        )

    @property
    def outage(self) -> Notice | None:
        """The reason why answers lack its tools; None if they do not."""
        name, part, info = self.settings.name, self.part, self.info
        if info.state in _NOT_LISTED:
            if part.listed_at is not None:
                return None
            return notices.loading(name, info.state, self._starting_for, self._progress)
        if not self.is_unavailable:
            return None
        known_at = part.listed_at if part.is_stale else None
        code = error_code(info.state)
        return notices.unavailable(
            code, name, info.state, info.reason, info.hint, known_at=known_at
        )

    @property
    def is_unlisted(self) -> bool:
        """True if it is enabled and its tools were never listed."""
        return self.part.listed_at is None and self.is_enabled

    @property
    def is_enabled(self) -> bool:
        """True if it is enabled; it may still be unreachable."""
        return self.info.state is not ServerState.DISABLED

    @property
    def is_unavailable(self) -> bool:
        """True if it cannot be used now, and an immediate retry would not help."""
        return self.info.state in _UNREACHABLE

    @property
    def is_connectable(self) -> bool:
        """True if its entry and the rules allow it to be started or reached."""
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
        if self.info.state is ServerState.DISABLED:
            info = self.info
            raise ServerDisabledError(self.settings.name, info.reason, info.detail)

    @property
    def _switch(self) -> Verdict:
        """The verdict on whether it is enabled, and by which rule or setting."""
        if self.settings.enabled:
            return self.part.verdict
        return _SWITCHED_OFF if self.settings.switch == "off" else _OFF_BY_ITSELF

    @property
    def _startup(self) -> StateInfo | None:
        """The live state while it is starting; None otherwise."""
        return self.live if self.info.state is ServerState.STARTING else None

    @property
    def _starting_for(self) -> float | None:
        return self._startup.starting_for if self._startup else None

    @property
    def _progress(self) -> str:
        return self._startup.stderr.rpartition("\n")[2] if self._startup else ""

    @property
    def _stderr(self) -> str:
        live, failure = self.live, self.part.failure
        return (live.stderr if live else "") or (failure.stderr if failure else "")


class ToolCounts(TypedDict):
    """The fields of a report that depend on what is shown of a server."""

    tool_count: int
    enabled_count: int
    skill_count: int
    withheld_count: int


def tool_counts(part: ServerPart) -> ToolCounts:
    withheld = part.held_back(WITHHELD) + part.offerings_held_back(WITHHELD)
    return {
        "tool_count": len(part.entries),
        "enabled_count": part.visible_count,
        "skill_count": sum(entry.is_visible for entry in part.of_kind(OfferingKind.SKILL)),
        "withheld_count": withheld,
    }


def _merged(live: StateInfo | None, part: ServerPart) -> StateInfo:
    """The state of a server that may be used, from the catalog and the live state."""
    if failure := part.failure:  # it counts until a listing succeeds, also while it is retried
        return _merged_failure(failure, live)
    if live and live.state is not ServerState.IDLE:
        return StateInfo(live.state, live.reason, detail=live.detail, hint=live.hint)
    state = ServerState.IDLE if part.listed_at else ServerState.PENDING
    return StateInfo(state, live.reason, detail=live.detail) if live else StateInfo(state)


def _merged_failure(failure: Failure, live: StateInfo | None) -> StateInfo:
    """The state of a server whose last listing failed."""
    reason, detail = failure.message, failure.detail
    if live and live.reason:
        reason, detail = live.reason, live.detail
    if live and live.state.is_open:
        return StateInfo(ServerState.DEGRADED, reason, hint=failure.hint, detail=detail)
    state = _STATE_OF_FAILURE.get(failure.code, ServerState.FAILING)
    if live and live.state.is_down and state is ServerState.FAILING:
        return StateInfo(live.state, reason, hint=failure.hint, detail=detail)
    return StateInfo(state, failure.message, hint=failure.hint, detail=failure.detail)


_ABOUT_ITSELF = lazy_pattern(
    r"^audience\b|\b(these|this|the following) (instructions?|document|guide|text)\b", re.IGNORECASE
)
_RULES = frozenset("-=*_ ")  # a line of these alone is a rule
_MARKS = ("- ", "* ", "+ ", "> ")
_FENCES = ("```", "~~~")
_WIDE_ENDS = "\u3002\uff01\uff1f"  # of Chinese and Japanese, which put no blank behind them
_ENDS = ".!?" + _WIDE_ENDS
_MIN_SENTENCE_LENGTH = 12  # characters; a shorter sentence is an abbreviation, or incomplete


def first_sentence(text: str) -> str:
    """The first sentence of `text` that is prose; its first heading if all are headings.

    A paragraph about the text itself is passed over, for the heading above it or what follows.
    Empty if it holds no words at all.
    """
    first = ""
    rest: Sequence[str] = text.splitlines()
    while rest:
        heading, paragraph, rest = _first_paragraph(rest)
        sentence = _cut(paragraph)
        first = first or sentence
        if heading or (sentence and not _ABOUT_ITSELF.search(sentence)):
            return heading if _ABOUT_ITSELF.search(sentence) else sentence or heading
    return first


def _first_paragraph(lines: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """The first heading, the first paragraph of prose on one line, and the lines behind it."""
    heading, is_code = "", False
    paragraph: list[str] = []
    for number, line in enumerate(lines):
        plain = line.strip()
        if plain.startswith(_FENCES):
            is_code = not is_code
            plain = ""
        if paragraph and _underlines(plain):
            heading, paragraph = heading or " ".join(paragraph), []
        elif is_code or not plain or _is_drawn(plain):
            if paragraph:
                return heading, " ".join(paragraph), lines[number:]
        elif plain.startswith("#"):
            if paragraph:
                return heading, " ".join(paragraph), lines[number:]
            heading = heading or plain.strip("# ")
        else:
            paragraph.append(_unmarked(plain))
    return heading, " ".join(paragraph), ()


def _underlines(line: str) -> bool:
    """Return whether a line makes a heading of the line above."""
    return len(line) > 1 and set(line) in ({"="}, {"-"})


def _is_drawn(line: str) -> bool:
    """A rule, a comment, an image or a table: nothing to read aloud."""
    return set(line) <= _RULES or line.startswith(("<!--", "![", "[![", "|"))


def _unmarked(line: str) -> str:
    """A line without the marks of a list, a quotation or emphasis."""
    while line.startswith(_MARKS):
        line = line[2:].lstrip()
    return line.replace("**", "").replace("__", "")


def _cut(paragraph: str) -> str:
    """Up to the first end of a sentence."""
    for index, character in enumerate(paragraph):
        if character not in _ENDS or index < _MIN_SENTENCE_LENGTH:
            continue
        following = paragraph[index + 1 : index + 3]
        if character in _WIDE_ENDS or not following.strip() or _begins_anew(following):
            return paragraph[: index + 1]
    return paragraph


def _begins_anew(following: str) -> bool:
    """Return whether a blank and then no small letter follow: `e.g. this` goes on."""
    return following[:1] == " " and not following[1:].islower()


T = TypeVar("T")


class ServerMemo(Struct):
    """Values computed from the servers, so that an answer looks only at servers that changed."""

    configured: dict[ServerName, ConfiguredServer] = {}
    """Each as of its last live state."""
    reports: PerServer[ServerReport] | None = None
    outages: PerServer[Notice | None] | None = None
    scoped: tuple[Sequence[ServerReport], tuple[ServerReport, ...]] = ((), ())
    """The reports of all servers, and those of a scope that were made of them."""


class ConfiguredServers(Struct, frozen=True):
    settings: Settings
    catalog: Catalog
    addresses: AddressBook
    live: Mapping[ServerName, StateInfo]
    memo: ServerMemo
    whole: ConfiguredServers | None = None
    """The servers of the view of which this is a scope. Only tool counts, and descriptions that
    name hidden things, are different within it."""

    def __iter__(self) -> Iterator[ConfiguredServer]:
        """Yield every configured server, in the order of the settings."""
        return map(self.get, self.settings.by_name)

    def get(self, name: ServerName) -> ConfiguredServer:
        """The server of exactly that name; all of it, also within a scope."""
        if self.whole:
            return self.whole.get(name)
        configured, live = self.memo.configured, self.live.get(name)
        server = configured.get(name)
        if server is None or server.live != live:
            settings, rules = self.settings.by_name[name], self.settings.server_rules
            server = ConfiguredServer(settings, self.catalog.part(name), rules, live)
            configured[name] = server
        return server

    def find(self, name: str) -> ConfiguredServer:
        """The server of that name, or of a unique one in another case.

        Raises:
            ServerNotFoundError: With the nearest names.
        """
        return self.get(self.addresses.server(name))

    def report(self, name: ServerName) -> ServerReport:
        """The server of exactly that name."""
        return self._counted(self.get(name).report)

    def reports(self) -> tuple[ServerReport, ...]:
        """Return the reports of all servers, in the order of names."""
        if self.whole:
            return self._scoped_reports(self.whole.reports())
        reports = self.memo.reports = self._for_all(_report, self.memo.reports)
        return reports.all

    def outages(self, only: ServerName | None) -> list[Notice]:
        """Notices about servers in scope whose tools are missing or stale."""
        if only:
            return [notice] if (notice := self.get(only).outage) else []
        if self.whole:
            names = self.settings.by_name
            return [notice for notice in self.whole.outages(None) if notice.server in names]
        outages = self.memo.outages = self._for_all(_outage, self.memo.outages)
        return [notice for notice in outages.all if notice]

    def _scoped_reports(self, everything: tuple[ServerReport, ...]) -> tuple[ServerReport, ...]:
        before, earlier_reports = self.memo.scoped
        if everything is before:
            return earlier_reports
        names = self.settings.by_name
        unchanged = zip(
            (report for report in before if report.name in names), earlier_reports, strict=True
        )
        reused = {id(report): scoped for report, scoped in unchanged}
        reports = tuple(
            reused.get(id(report)) or self._counted(report)
            for report in everything
            if report.name in names
        )
        self.memo.scoped = everything, reports
        return reports

    def _counted(self, report: ServerReport) -> ServerReport:
        """The report with what a scope shows of the server."""
        part = self.catalog.part(report.name)
        if not self.whole or part is self.whole.catalog.part(report.name):
            return report
        description = self.get(report.name).description_with(part.instructions)
        return replace(report, description=description, **tool_counts(part))

    def _for_all(
        self, compute: Callable[[ConfiguredServer], T], states: PerServer[T] | None
    ) -> PerServer[T]:
        states = states or PerServer(tuple(sorted(self.settings.by_name)))
        return states.updated(self.live, lambda name: compute(self.get(name)))


def _report(server: ConfiguredServer) -> ServerReport:
    return server.report


def _outage(server: ConfiguredServer) -> Notice | None:
    return server.outage


# With 1,500 servers, computing what an answer needs of all of them took 100 ms each time.


class PerServer(Struct, Generic[T], frozen=True):
    names: tuple[ServerName, ...]
    """The configured servers, in the order of names."""
    live: Mapping[ServerName, StateInfo] | None = None
    """The live states that the values were computed from; None before that."""
    values: Mapping[ServerName, T] = {}
    all: tuple[T, ...] = ()
    """The values in the order of names; the same tuple as long as no live state changes."""

    def updated(
        self, live: Mapping[ServerName, StateInfo], compute: Callable[[ServerName], T]
    ) -> PerServer[T]:
        """The values as of `live`, which has the servers used so far; only they can change."""
        now = dict(live)
        if now == self.live:
            return self
        changed = self.names if self.live is None else _changed(self.live, now, self.values)
        values = {**self.values, **{name: compute(name) for name in changed}}
        return PerServer(self.names, now, values, tuple(values.values()))


def _changed(
    before: Mapping[ServerName, StateInfo],
    now: Mapping[ServerName, StateInfo],
    configured: Mapping[ServerName, object],
) -> list[ServerName]:
    used = {**before, **now}
    return [n for n in used if n in configured and before.get(n) != now.get(n)]
