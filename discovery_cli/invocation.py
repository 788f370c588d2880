"""One run of the command line: its global options, and how it gets a view or an engine.

A reading command is answered from the stored view if possible, without an event loop. Otherwise the
engine is opened, and lists the servers that were never listed.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

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

_MAX_WAIT = 10.0  # seconds to wait for servers that were never listed, if all are relevant
_MAX_LISTED_SERVERS = 5  # servers that a sentence names before it counts the others


class Backend:
    """The source of views and engines, whose modules are imported on first use."""

    def recall(self, config: str | None, data_dir: str | None, *, frozen: bool) -> View | None:
        from discovery_engine.engine.restore import stored_view

        return stored_view(config, data_dir=data_dir, frozen=frozen)

    def open(
        self, config: str | Settings | None, data_dir: str | None, *, frozen: bool
    ) -> AbstractAsyncContextManager[Engine]:
        from discovery_engine.engine import open_engine

        return open_engine(config, data_dir=data_dir, frozen=frozen, actor="person")


class Invocation(Struct):
    """One run; global options are set as they are parsed, before or after the command."""

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
    """Headers of requests to that server, each as `NAME: VALUE`."""
    backend: Backend = Backend()
    clock: Callable[[], float] = time.time
    interrupts: Interrupts = field(default_factory=Interrupts)
    screen: Screen = field(default_factory=Screen)
    first: FirstAnswer | None = None
    """The stored first answer of `serve`; None for other commands."""
    early: EarlyStart | None = None
    """The input that `serve` has read, and maybe answered, before the engine was imported."""
    shown_notes: dict[str, None] = field(default_factory=dict)
    """The distinct warnings so far, in order."""
    at_end: ExitStack = field(default_factory=ExitStack)
    """Closed after the last output, including that of an error."""

    @property
    def output(self) -> Output:
        return Output.of_streams(
            os.environ, as_json=self.as_json, warnings=self.shown_notes, options=self.options
        )

    @property
    def only_server(self) -> str | None:
        """The name of the server that options give in place of a configuration, if any."""
        return "server" if self.program or self.address else None

    @property
    def options(self) -> str:
        """The options with which another command uses the same configuration and data folder."""
        if self.only_server:  # its data is deleted at the end of the run
            return ""
        flags = {"--config": self.config, "--data-dir": self.data_dir}
        return shlex.join(word for name, value in flags.items() if value for word in (name, value))

    def note_exposed_data(self) -> None:
        """Write a note if other users may write to the data folder."""
        from discovery_engine.config.files.data_folder import data_folder, exposed_data

        if problem := exposed_data(data_folder(self.data_dir, os.environ)):
            note = f"{problem.message}: {problem.hint}"
            self.shown_notes[note] = None
            self.output.say(f"note: {note}")

    @property
    def shares_registry(self) -> bool:
        """True if other machines may share the registry; logs, secrets and logins are their own."""
        from discovery_engine.engine.restore import names_database

        return names_database(self.config, environ=os.environ, data_dir=self.data_dir)

    def say_of_this_machine(self, subject: str) -> None:
        """Say that `subject` stays on this machine, if others share its registry."""
        if self.shares_registry:
            self.output.say(
                f"{subject} on this machine alone; others that share the registry have their own"
            )

    def view(self, concerned: Concerned | None = None, *, is_searched: bool = False) -> View:
        """Return the view to answer from, after listing relevant servers that never were.

        Args:
            concerned: Selects the relevant servers; None for all. If they are only some of all
                servers, they are waited for without a limit. Otherwise a script waits 10 s (see
                `get_to_know`), and a person may end the wait with Ctrl-C.
            is_searched: Store the search index, if none is stored.

        Raises:
            ConfigurationError: If the configuration cannot be used.
            DiscoveryError: Any error of `concerned`.
        """
        concerned = concerned or every_server
        if (view := self.remembered(concerned)) is not None:
            return view
        from discovery_cli.progress import is_watched

        max_wait = None if is_watched(self) else _MAX_WAIT
        contact = partial(
            self._first_contact, concerned=concerned, max_wait=max_wait, is_searched=is_searched
        )
        view = self.run(contact)
        self._tell_age(view, concerned(view))
        return view

    def remembered(self, concerned: Concerned) -> View | None:
        """Return the stored view; None if a relevant server must be listed first.

        Raises:
            ConfigurationError: If the configuration cannot be used.
            DiscoveryError: Any error of `concerned`.
        """
        view = self.recall()
        if view is None or view.unlisted(concerned(view)):
            return None
        self._tell_age(view, concerned(view))
        return view

    def recall(self) -> View | None:
        """Return the stored view; None if there is no valid one."""
        with logged(self.output, self.verbose, self.shown_notes):
            return self.backend.recall(self.config, self.data_dir, frozen=self.frozen)

    def observed(self, view: View) -> Mapping[ServerName, Sequence[Observation]]:
        """Return the states of servers as running gateways of this configuration report them."""
        from discovery_engine.config.files.location import scope_of
        from discovery_engine.engine.gateway_reports import observations

        return observations(_folder(self), scope_of(view.settings.path))

    def known(self) -> View:
        """Return the stored view, or else that of a new engine; no server is listed."""
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
            work: Uses the engine; its result is returned.
            with_lines: Show progress as lines where a live table is impossible.
            settings: Settings that replace the configuration.
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
        self, engine: Engine, *, concerned: Concerned, max_wait: float | None, is_searched: bool
    ) -> View:
        """Run `get_to_know` until Ctrl-C, and return a snapshot of the view so far."""
        import anyio

        servers = every_server(engine.view)
        if len(servers) == 1 or set(concerned(engine.view)) < set(servers):
            max_wait = None  # the command is about these servers in particular
        with anyio.CancelScope() as wait, self.interrupts.cutting_short(wait.cancel):
            await get_to_know(engine, concerned=concerned, max_wait=max_wait)
        if is_searched:
            # Lists nothing. An index of 100,000 tools takes a minute: the next command finds it.
            await engine.refresh(())
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
    """Join sorted names; after the first five, the number of the others is given."""
    ordered = sorted(names)
    rest = len(ordered) - _MAX_LISTED_SERVERS
    listing = ", ".join(ordered[:_MAX_LISTED_SERVERS])
    return f"{listing} and {rest} more" if rest > 0 else listing


def _aged(view: View, name: ServerName, now: float) -> float | None:
    """Return the Unix time of a server's list if it is older than `cache.ttl`, else None."""
    part = view.catalog.parts.get(name)
    if part is None or part.listed_at is None or not part.verdict.enabled:
        return None
    return part.listed_at if now - part.listed_at > view.settings.cache.ttl else None


async def get_to_know(
    engine: Engine, *, concerned: Concerned, max_wait: float | None = None
) -> View:
    """List the relevant servers that were never listed, and return the view.

    Servers that are still starting after `max_wait` seconds are left out, unless all of them are:
    then they are waited for. So a second command lists the servers that the first one left out,
    although their programs, which end with a command, have to start again.
    """
    if names := engine.view.unlisted(concerned(engine.view)):
        report = await engine.refresh(names, max_wait=max_wait)
        if set(report.starting) == set(names):
            await engine.refresh(report.starting)
    return engine.view


async def view_of(engine: Engine) -> View:
    return engine.view


def log_reader(invocation: Invocation) -> LogReader:
    """Return a reader of the call log of this run's configuration."""
    from discovery_engine.store.call_log.log_reader import LogReader

    return LogReader(*_log_place(invocation))


def log_database(invocation: Invocation) -> LogDatabase:
    """Return the writable call log of this run's configuration."""
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
    """Return a resolver of references, which decrypts the stored secrets on first use."""
    from discovery_engine.secrets.stored_secret_resolver import StoredSecretResolver

    return StoredSecretResolver(os.environ, _folder(invocation))


def _folder(invocation: Invocation) -> Path:
    from discovery_engine.engine.restore import registry_path

    return registry_path(invocation.data_dir, os.environ).parent
