"""One run of the command line: its global options, and the source of its answer.

A reading command asks for a view: the remembered one if it can answer, which loads no event loop
and no MCP SDK; otherwise the engine is opened and lists the servers that were not listed yet.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct, field

from discovery_cli.interrupts import Interrupts
from discovery_cli.log_output import logged
from discovery_cli.output import Output
from discovery_cli.terminal_input import Screen
from discovery_engine._util.quantities import ago

if TYPE_CHECKING:
    from pathlib import Path

    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import Engine
    from discovery_engine.engine.first_answer import EarlyStart, FirstAnswer
    from discovery_engine.secrets.owner_secrets import OwnerSecrets
    from discovery_engine.secrets.stored_secret_resolver import StoredSecretResolver
    from discovery_engine.store.call_log.log_database import LogDatabase
    from discovery_engine.store.call_log.log_reader import LogReader
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import Observation
    from discovery_engine.view.view import View

T = TypeVar("T")
Concerned = Callable[["View"], Iterable["ServerName"]]

_MAX_WAIT = 10.0  # seconds for servers that were never listed, when all are needed
_MAX_LISTED_SERVERS = 5  # servers that a sentence names before it counts the others


class Backend(Protocol):
    """The source of answers; tests replace it."""

    def recall(self, config: str | None, data_dir: str | None, *, frozen: bool) -> View | None: ...

    def open(
        self, config: str | Settings | None, data_dir: str | None, *, frozen: bool
    ) -> AbstractAsyncContextManager[Engine]: ...


class EngineBackend:
    """The engine; its modules are imported when they are first needed."""

    def recall(self, config: str | None, data_dir: str | None, *, frozen: bool) -> View | None:
        from discovery_engine.engine.restore import stored_view

        return stored_view(config, data_dir=data_dir, frozen=frozen)

    def open(
        self, config: str | Settings | None, data_dir: str | None, *, frozen: bool
    ) -> AbstractAsyncContextManager[Engine]:
        from discovery_engine.engine import open_engine

        return open_engine(config, data_dir=data_dir, frozen=frozen, actor="person")


class Invocation(Struct):
    """One run. Its options are set while arguments are parsed, before and after a command."""

    config: str | None = None
    data_dir: str | None = None
    verbose: int = 0
    no_progress: bool = False
    frozen: bool = False
    as_json: bool = False
    program: str | None = None
    """The command that starts the one server of this run."""
    address: str | None = None
    """The URL of the one server of this run."""
    headers: Sequence[str] = ()
    """Each `NAME: VALUE`, for requests to it."""
    backend: Backend = EngineBackend()
    clock: Callable[[], float] = time.time
    interrupts: Interrupts = field(default_factory=Interrupts)
    screen: Screen = field(default_factory=Screen)
    first: FirstAnswer | None = None
    """Where `serve` remembers its first answer; None for other commands."""
    early: EarlyStart | None = None
    """The input that `serve` has read, and perhaps answered, before the engine was loaded."""
    shown_notes: dict[str, None] = field(default_factory=dict)
    """The distinct warnings of the library so far, in order."""
    at_end: ExitStack = field(default_factory=ExitStack)
    """Closed after the last output, also that of an error."""

    @property
    def output(self) -> Output:
        return Output.of_streams(
            os.environ, as_json=self.as_json, warnings=self.shown_notes, options=self.options
        )

    @property
    def only_server(self) -> str | None:
        """The name of the server that was given in place of a configuration."""
        return "server" if self.program or self.address else None

    @property
    def options(self) -> str:
        """The options of another command about the same configuration and data."""
        if self.only_server:  # these are gone at the end of the run
            return ""
        flags = {"--config": self.config, "--data-dir": self.data_dir}
        return shlex.join(word for name, value in flags.items() if value for word in (name, value))

    def note_exposed_data(self) -> None:
        """Say that others may write to the data folder, if they may."""
        from discovery_engine.config.files.data_folder import data_folder, exposed_data

        if problem := exposed_data(data_folder(self.data_dir, os.environ)):
            note = f"{problem.message}: {problem.hint}"
            self.shown_notes[note] = None
            self.output.say(f"note: {note}")

    def view(self, concerned: Concerned | None = None) -> View:
        """The view to answer from; relevant servers that were never listed are listed first.

        Args:
            concerned: Which servers matter; all of them if None. Those are waited for however long
                they take. But where all matter, a person who sees what is waited for can cut it
                short, and a script is answered without a slow one at first (see `get_to_know`).

        Raises:
            DiscoveryError: What `concerned` raises, and ConfigurationError.
        """
        concerned = concerned or every_server
        if (view := self.remembered(concerned)) is not None:
            return view
        from discovery_cli.progress import is_watched

        max_wait = None if is_watched(self) else _MAX_WAIT
        view = self.run(partial(self._first_contact, concerned=concerned, max_wait=max_wait))
        self._tell_age(view, concerned(view))
        return view

    def remembered(self, concerned: Concerned) -> View | None:
        """The view of the registry; None if a relevant server must be listed first.

        Raises:
            DiscoveryError: What `concerned` raises, and ConfigurationError.
        """
        view = self.recall()
        if view is None or view.unlisted(concerned(view)):
            return None
        self._tell_age(view, concerned(view))
        return view

    def recall(self) -> View | None:
        """The view of the last run, if it is still valid."""
        with logged(self.output, self.verbose, self.shown_notes):
            return self.backend.recall(self.config, self.data_dir, frozen=self.frozen)

    def observed(self, view: View) -> Mapping[ServerName, Sequence[Observation]]:
        """The states of servers that running gateways of this configuration have observed."""
        from discovery_engine.config.files.location import scope_of
        from discovery_engine.engine.gateway_reports import observations

        return observations(_folder(self), scope_of(view.settings.path))

    def known(self) -> View:
        """The known view; no server is listed."""
        view = self.recall()
        return view if view is not None else self.run(view_of)

    def run(
        self,
        work: Callable[[Engine], Awaitable[T]],
        *,
        with_lines: bool = False,
        settings: Settings | None = None,
    ) -> T:
        """Run `work` with an open engine, and show the progress of connecting on stderr.

        Args:
            work: What to do.
            with_lines: Show progress as lines where no moving display can be shown, too.
            settings: Those of the engine, in place of what the configuration has.
        """
        from discovery_cli.progress import shown

        async def main() -> T:
            async with (
                self.backend.open(
                    settings or self.config, self.data_dir, frozen=self.frozen
                ) as engine,
                shown(engine, self, with_lines=with_lines),
            ):
                return await work(engine)

        with logged(self.output, self.verbose, self.shown_notes):
            return self.interrupts.run(main)

    async def _first_contact(
        self, engine: Engine, *, concerned: Concerned, max_wait: float | None
    ) -> View:
        """Like `get_to_know`; Ctrl-C ends it, and the answer is given without the others."""
        import anyio

        servers = every_server(engine.view)
        if len(servers) == 1 or set(concerned(engine.view)) < set(servers):
            max_wait = None  # the question is about these servers
        with anyio.CancelScope() as wait, self.interrupts.cutting_short(wait.cancel):
            await get_to_know(engine, concerned=concerned, max_wait=max_wait)
        return engine.view.snapshot()

    def _tell_age(self, view: View, names: Iterable[ServerName]) -> None:
        now = self.clock()
        aged = {name: listed for name in names if (listed := _aged(view, name, now))}
        if aged:
            since = ago(now - min(aged.values()))
            whose = named(aged)
            self.output.say(f"as listed {since} ago ({whose}); `discovery refresh` lists again")


def every_server(view: View) -> list[ServerName]:
    return [server.name for server in view.settings.servers]


def named(names: Iterable[str]) -> str:
    """Names as text: the first few, and the number of the others."""
    ordered = sorted(names)
    rest = len(ordered) - _MAX_LISTED_SERVERS
    listing = ", ".join(ordered[:_MAX_LISTED_SERVERS])
    return f"{listing} and {rest} more" if rest > 0 else listing


def _aged(view: View, name: ServerName, now: float) -> float | None:
    """When a server was listed, if its list is older than its time to live."""
    part = view.catalog.parts.get(name)
    if part is None or part.listed_at is None or not part.verdict.enabled:
        return None
    return part.listed_at if now - part.listed_at > view.settings.cache.ttl else None


async def get_to_know(
    engine: Engine, *, concerned: Concerned, max_wait: float | None = None
) -> View:
    """The view once those of the servers that matter were asked that never were.

    Those that have been starting for longer than `max_wait` are waited for only if no other was
    asked. The next question asks them alone, so that each is known after the second one: a program
    that a command leaves is ended with it, and its start begins anew.
    """
    if names := engine.view.unlisted(concerned(engine.view)):
        report = await engine.refresh(names, max_wait=max_wait)
        if set(report.starting) == set(names):
            await engine.refresh(report.starting)
    return engine.view


async def view_of(engine: Engine) -> View:
    return engine.view


def log_reader(invocation: Invocation) -> LogReader:
    """Reads what is logged of the configuration of this run."""
    from discovery_engine.store.call_log.log_reader import LogReader

    return LogReader(*_log_place(invocation))


def log_database(invocation: Invocation) -> LogDatabase:
    """Changes what is logged of the configuration of this run."""
    from discovery_engine.store.call_log.log_database import LogDatabase

    return LogDatabase(*_log_place(invocation))


def _log_place(invocation: Invocation) -> tuple[Path, str]:
    from discovery_engine.config.files.location import locate, scope_of

    return _folder(invocation), scope_of(locate(invocation.config).path)


def owner_secrets(invocation: Invocation) -> OwnerSecrets:
    from discovery_engine.secrets.encrypted_store import EncryptedStore
    from discovery_engine.secrets.owner_secrets import OwnerSecrets

    return OwnerSecrets(EncryptedStore(_folder(invocation), os.environ))


def stored_values(invocation: Invocation) -> StoredSecretResolver:
    """The values of references, of stored secrets too; these are decrypted when one is needed."""
    from discovery_engine.secrets.stored_secret_resolver import StoredSecretResolver

    return StoredSecretResolver(os.environ, _folder(invocation))


def _folder(invocation: Invocation) -> Path:
    from discovery_engine.engine.restore import registry_path

    return registry_path(invocation.data_dir, os.environ).parent
