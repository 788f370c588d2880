"""Installs, updates, rolls back and removes servers of the marketplace: `engine.installer`.

    plan = await engine.installer.plan_install("io.github.acme/files", values={"folder": "~/notes"})
    print(plan.argv, plan.missing, plan.warnings)
    await engine.installer.install(plan)

Each operation is atomic: it records beforehand what it may add, and cleans up afterwards.
"""

from __future__ import annotations

import shlex
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import anyio
import anyio.to_thread
from msgspec.structs import replace

from discovery_engine.config.serialization import serialize_server
from discovery_engine.engine.engine import Engine
from discovery_engine.engine.owner.server_plans import ServerPlan
from discovery_engine.errors import (
    DiscoveryError,
    NotFoundError,
    NotInstalledError,
    PackageManagerError,
)
from discovery_engine.events import (
    InstallFailed,
    InstallProgressed,
    ServerInstalled,
    ServerUninstalled,
)
from discovery_engine.marketplace.entry import Input
from discovery_engine.marketplace.installer.bundles import unpack_bundle
from discovery_engine.marketplace.installer.offered_inputs import (
    AskedInput,
    GivenValues,
    is_secret_input,
)
from discovery_engine.marketplace.installer.packages import require_same
from discovery_engine.marketplace.installer.plan import (
    InstalledChange,
    UpdatePlan,
    differences,
    merged_entry,
)
from discovery_engine.marketplace.installer.planner import (
    Choices,
    Planner,
    default_name,
    same_offer,
)
from discovery_engine.store.install_records import (
    BegunWork,
    Grants,
    InstalledServer,
    InstalledVersion,
    InstallRecords,
    Place,
    place_of,
    record_scopes,
    remove_folder,
)
from discovery_engine.tools.model import ServerName
from discovery_engine.upstream.connection import stored_secrets, written_fields
from discovery_engine.upstream.stdio.environment import missing_variables
from discovery_engine.upstream.stdio.sandbox import sandboxes

if TYPE_CHECKING:
    from discovery_engine.catalog import Failure
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.marketplace.entry import MarketplaceEntry
    from discovery_engine.marketplace.entry_details import EntryDetails
    from discovery_engine.marketplace.installer.plan import InstallPlan
    from discovery_engine.store.server_records import PackagePin

OnProgress: TypeAlias = Callable[[str], None]
"""Called with a short description of each step."""


def _silent(_: str) -> None:
    """Ignore progress."""


class Installer:
    """Plans and performs installations; available as `engine.installer`."""

    def __init__(
        self, engine: Engine, core: EngineCore, find: Callable[[str, str], Awaitable[EntryDetails]]
    ) -> None:
        """Make an installer; `find` returns the details of an entry by its name and a version.

        An empty version stands for that of the entry.
        """
        self._engine = engine
        self._find = find
        self._planner = Planner(core.environment.variables, core.environment.data)
        self._work = InstallationWork(engine, core.environment.data)
        self._publish = core.events.publish

    async def plan_install(
        self,
        name: str,
        *,
        server: str = "",
        offer: str = "",
        version: str = "",
        values: GivenValues | None = None,
        secrets: GivenValues | None = None,
        grants: Grants | None = None,
        to: Place | None = None,
    ) -> InstallPlan:
        """Plan the installation of an entry: what it would run and write. Nothing is changed.

        Args:
            name: The name of the entry.
            server: The name for the server; empty for a short form of the entry's name.
            offer: A package type (`npm`), `remote`, or the identifier of a package; empty for the
                first offer that can run here.
            version: The version of the package; empty for that of the entry.
            values: The inputs of the server by key. Inputs declared as secret are stored during the
                installation; a value may be a `${reference}`.
            secrets: More inputs, which are stored as secrets even if not declared as such, and are
                never read as references.
            grants: The resources that the sandbox of the server permits.
            to: The place for the entry; None for the configuration file, or without one the
                registry.

        Raises:
            NotFoundError: If there is no such entry, package or version.
            ConfigurationError: If a server of that name exists.
            InstallRefusedError: If the entry demands something unsafe, or cannot run here.
            InvalidInputError: If a value is invalid.
            PackageManagerError: If a package manager is missing or fails.
            PackageChangedError: If the hash of the package differs from that of the entry.
        """
        details = await self._find(name, version)
        choices = Choices(
            server,
            offer,
            version,
            values=values or {},
            secrets=secrets or {},
            grants=grants or Grants(),
        )
        where = await self._require_free(details.entry, server, to)
        plan = await self._planner.plan(details.entry, choices)
        return plan.warned(details.warnings, where)

    async def preview(self, entry: MarketplaceEntry) -> InstallPlan | None:
        """Plan the installation of an entry without any inputs, to show what it would run.

        Returns None for bundles, which would have to be downloaded to read their command.

        Raises:
            NotFoundError, InstallRefusedError, PackageManagerError, PackageChangedError: See
                `plan_install`.
        """
        if any(offer.registry_type == "mcpb" for offer in entry.packages):
            return None
        return await self._planner.plan(entry, Choices())

    async def asked(
        self, name: str, *, server: str = "", offer: str = "", to: Place | None = None
    ) -> tuple[AskedInput, ...]:
        """Return the inputs that an entry accepts; see `plan_install` for arguments and errors.

        No package manager is run.
        """
        details = await self._find(name, "")
        await self._require_free(details.entry, server, to)
        return await self._planner.asked(details.entry, Choices(server, offer))

    async def install(
        self, plan: InstallPlan, *, on_progress: OnProgress = _silent
    ) -> InstalledChange:
        """Install a server: store its secrets, add and approve its entry, and list its tools.

        A server that fails to start stays installed; the result then has the problem.

        Args:
            plan: The plan that the owner has seen.
            on_progress: Called with a description of each step.

        Raises:
            MissingInputsError: If a required input is missing.
            ConfigurationError: If the name is taken, or the file cannot be edited.
            InstallFailedError: If an image or a bundle cannot be fetched.
            PackageChangedError: If the hash of the package differs from the pinned one.
            PackageManagerError: If a program is missing.
            RegistryError, SecretStoreError: If something cannot be stored; nothing is installed.
        """
        plan.require_ready()
        add = partial(
            self._engine.servers.plan_add,
            plan.name,
            plan.server_entry,
            to=plan.where,
            source="marketplace",
            package=plan.pin,
            marketplace_id=plan.entry.id,
        )
        where = (await add()).where  # rejects a taken name before anything is downloaded
        record = self._record(plan, where)
        with self._reporting(plan.name, on_progress) as report:
            async with self._work.under_way(where, plan.name, tuple(plan.secrets), record.folders):
                await add()  # another installation may have finished meanwhile
                await self._prepare(plan, report)
                change = await add()  # the configuration may have changed meanwhile
                await self._work.enter(change, record, plan.secrets)
            if change.where == "file":  # for the registry, its change publishes the event
                self._publish(ServerInstalled(ServerName(change.name), str(plan.pin)))
            return await self._started(change, plan.pin, report)

    async def plan_updates(self, names: Collection[str] = ()) -> tuple[UpdatePlan, ...]:
        """Plan the updates of servers, by default of all installed ones.

        If a server cannot be planned, its plan contains the error.

        Raises:
            ServerNotFoundError: If a named server is not configured.
            NotInstalledError: If a named server was not installed from the marketplace.
        """
        if names:
            records = [await self._work.record(name) for name in names]
        else:
            records = list(await self._work.all_records())
        return tuple([await self._plan_update(record) for record in records])

    async def plan_update(
        self, name: str, *, values: GivenValues | None = None, secrets: GivenValues | None = None
    ) -> UpdatePlan:
        """Plan the update of one server, with values for the inputs of the new version.

        Earlier values are reused unless replaced. See `plan_install` for `values` and `secrets`.

        Raises:
            ServerNotFoundError: If the server is not configured.
            NotInstalledError: If it was not installed from the marketplace.
        """
        record = await self._work.record(name)
        return await self._plan_update(record, values=values or {}, secrets=secrets or {})

    async def update(
        self, plan: UpdatePlan, *, on_progress: OnProgress = _silent
    ) -> InstalledChange:
        """Update a server as planned; the current version is recorded for `rollback`.

        Raises:
            DiscoveryError: The errors of `install`, or the problem of the plan.
        """
        install = plan.require_ready()
        new = self._record(install, plan.record.where)
        new = replace(new, previous=plan.record.current)
        return await self._replace(plan.record, new, install, on_progress)

    async def rollback(self, name: str) -> InstalledChange:
        """Restore the version before the last update; a second rollback restores the update.

        Raises:
            NotInstalledError: If it was not installed from the marketplace, or never updated.
            PackageChangedError: If the hash of the earlier version has changed in its registry.
            DiscoveryError: The errors of `install`.
        """
        record = await self._work.record(name)
        if (earlier := record.previous) is None:
            raise NotInstalledError(
                f"server {name!r} was never updated: there is no version to go back to",
                (),
                hint=f"`discovery marketplace show {shlex.quote(record.entry_name)}` has its"
                " versions; `discovery marketplace install --version V --as NAME` installs one"
                " beside it",
            )
        await anyio.to_thread.run_sync(earlier.require_folders)
        # The package may still be in a local cache.
        with suppress(PackageManagerError, NotFoundError):
            await self._planner.packages.require_unchanged(earlier.pin)
        back = replace(record, current=earlier, previous=record.current)
        return await self._replace(record, back, None, _silent)

    async def remove(self, change: ServerPlan, secrets: Sequence[str] = ()) -> None:
        """Remove a server as planned, with the record and the folders of an installed one.

        Args:
            change: The plan of `servers.plan_remove`.
            secrets: The stored secrets of the server that are deleted as well.

        Raises:
            ConfigurationError, RegistryError: If it cannot be removed; nothing is changed then.
        """
        if record := await self._work.find(change.name):
            await self._remove(record, change, secrets)
            return
        await self._engine.servers.apply(change)
        for name in secrets:
            await anyio.to_thread.run_sync(self._engine.secrets.delete, name)

    async def _remove(
        self, record: InstalledServer, change: ServerPlan, secrets: Sequence[str]
    ) -> None:
        folders = (*record.folders, self._work.private_folder(record))
        async with self._work.under_way(record.where, record.name, secrets, folders):
            await self._engine.servers.apply(change)
        if change.where == "file":
            self._publish(ServerUninstalled(ServerName(change.name), str(record.current.pin)))

    async def secrets_of(self, server: str) -> tuple[str, ...]:
        """Return the names of the secrets that are stored for a server: `SERVER/…`."""
        names = await anyio.to_thread.run_sync(self._engine.secrets.names)
        return tuple(name for name in names if name.rpartition("/")[0] == server)

    async def installed(self, name: str) -> InstalledServer:
        """Return the record of an installed server.

        Raises:
            ServerNotFoundError: If it is not configured.
            NotInstalledError: If it was not installed from the marketplace.
        """
        return await self._work.record(name)

    async def find(self, name: str) -> InstalledServer | None:
        """Return the record of an installed server; None if there is none of that name."""
        return await self._work.find(name)

    async def _require_free(self, entry: MarketplaceEntry, server: str, to: Place | None) -> Place:
        """Check that the name of a server is free; return the place for its entry.

        Raises:
            ConfigurationError: If a server of that name exists.
        """
        name = server or default_name(entry)
        return await self._engine.servers.require_free(
            name,
            to=to,
            hint="`discovery marketplace update` updates one that was installed;"
            " `--as NAME` gives this one another name",
        )

    async def _plan_update(
        self,
        record: InstalledServer,
        *,
        values: GivenValues = MappingProxyType({}),
        secrets: GivenValues = MappingProxyType({}),
    ) -> UpdatePlan:
        current = record.current
        try:
            details = await self._find(record.entry_name, "")
            choices = Choices(
                record.name,
                same_offer(details.entry, record.offer, current.pin.registry_type),
                values=values,
                secrets=secrets,
                earlier=current.values,
                grants=current.grants,
            )
            stored = frozenset(await self.secrets_of(record.name))
            plan = await self._planner.plan(details.entry, choices, stored=stored)
            plan = plan.warned(details.warnings, record.where)
            if plan.pin.version == current.pin.version:
                require_same(str(plan.pin), current.pin.integrity, plan.pin.integrity)
            part = self._engine.view.catalog.part(self._work.address(record))
        except DiscoveryError as error:
            return UpdatePlan(record, problem=error)
        tools = {entry.tool.name for entry in part.entries}
        return UpdatePlan(record, plan, differences(record, plan, tools))

    async def _replace(
        self,
        before: InstalledServer,
        after: InstalledServer,
        plan: InstallPlan | None,
        on_progress: OnProgress,
    ) -> InstalledChange:
        """Replace a server by another version; `plan` is None for a rollback."""
        await self._engine.complete_settings()
        address = self._work.address(before)
        server = self._engine.view.server_settings(address)
        entry = merged_entry(
            before.current.server_entry, serialize_server(server), after.current.server_entry
        )
        secrets = plan.secrets if plan else {}
        pin = after.current.pin
        folders = (*after.folders, *before.folders)
        with self._reporting(address, on_progress) as report:
            async with self._work.under_way(before.where, before.name, tuple(secrets), folders):
                if plan:
                    await self._prepare(plan, report)
                change = await self._engine.servers.plan_update(
                    address, entry, package=pin, source="marketplace"
                )
                await self._work.enter(change, after, secrets)
            return await self._started(change, pin, report)

    async def _prepare(self, plan: InstallPlan, report: OnProgress) -> None:
        """Pull an image, unpack a bundle, or verify the hash of a package."""
        if plan.pin.registry_type == "oci":
            report(f"pulling {plan.pin.identifier}@{plan.pin.integrity}")
            await self._planner.packages.pull(plan.pin)
        elif plan.archive:
            report(f"unpacking {plan.pin}")
            await anyio.to_thread.run_sync(
                unpack_bundle, plan.archive, Path(*map(str, plan.folders)), plan.pin
            )
        else:
            await self._planner.packages.require_unchanged(plan.pin)

    async def _started(
        self, change: ServerPlan, pin: PackagePin, report: OnProgress
    ) -> InstalledChange:
        """Start a server, which downloads its package, and list its tools; errors are returned."""
        report(f"starting {change.name}, and listing its tools")
        failures: list[Failure | DiscoveryError]
        try:
            refreshed = await self._engine.refresh([change.name])
            failures = [failure for _, failure in refreshed.servers if failure]
        except DiscoveryError as error:
            failures = [error]
        problem = "; ".join(
            f"{failure.message} ({failure.hint})" if failure.hint else failure.message
            for failure in failures
        )
        needed = await self._needed(change.name) if problem else ()
        return InstalledChange(change.name, change.where, change.diff, pin, problem, needed)

    async def _needed(self, name: str) -> tuple[AskedInput, ...]:
        """Return the variables whose lack a server wrote to stderr."""
        entry = serialize_server(self._engine.view.server_settings(name))
        stderr = "\n".join(await self._engine.stderr(name))
        inputs = [
            Input(variable, "environment", is_required=True)
            for variable in missing_variables(stderr, entry.get("env", {}))
        ]
        return tuple(AskedInput(field.name, field, is_secret_input(field)) for field in inputs)

    @contextmanager
    def _reporting(self, server: str, on_progress: OnProgress) -> Iterator[OnProgress]:
        """Yield a function that reports a step; an error of the block is published."""

        def report(step: str) -> None:
            self._publish(InstallProgressed(server, step))
            on_progress(step)

        try:
            yield report
        except DiscoveryError as error:
            self._publish(InstallFailed(server, error.code))
            raise

    def _record(self, plan: InstallPlan, where: Place) -> InstalledServer:
        return InstalledServer(
            name=plan.name,
            where=where,
            entry_name=plan.entry.name,
            marketplace_id=plan.entry.id,
            offer=plan.pin.identifier,
            current=InstalledVersion(
                plan.pin, plan.server_entry, plan.values, plan.grants, tuple(map(str, plan.folders))
            ),
        )


# One operation runs at a time. It writes a bundle, then the secrets, then the record, and last the
# server in one step. The server decides what remains: `_settle` deletes everything that belongs to
# no server. It runs after each operation, and before the next one for operations that were killed.


class InstallationWork:
    """Runs operations on the installed servers of one configuration."""

    def __init__(self, engine: Engine, data: Path) -> None:
        self._engine = engine
        self._records = InstallRecords(data)
        self._sandboxes = data / sandboxes.PRIVATE_FOLDERS

    @asynccontextmanager
    async def under_way(
        self, where: Place, name: str, secrets: Sequence[str], folders: Sequence[str]
    ) -> AsyncIterator[None]:
        """Run the block as an operation on one server, and clean up afterwards.

        Those of `secrets` and `folders` that belong to no server at the end are deleted.

        Raises:
            InstallFailedError: If another process installs, or the data folder is not writable.
        """
        # Referenced secrets must be known, as they are not deleted.
        await self._engine.complete_settings()
        scope, *_ = self._scopes
        work = BegunWork(scope, where, name, tuple(secrets), tuple(folders))
        with anyio.CancelScope(shield=True):
            lock = self._records.lock()
            await anyio.to_thread.run_sync(lock.__enter__)
        try:
            with anyio.CancelScope(shield=True):
                await self._settle_begun()
                await anyio.to_thread.run_sync(self._delete_stale)
                await anyio.to_thread.run_sync(self._records.make_start_folder)
                await anyio.to_thread.run_sync(self._records.begin, work)
            try:
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._settle, work)
        finally:
            lock.__exit__(None, None, None)

    async def enter(
        self, change: ServerPlan, record: InstalledServer, secrets: Mapping[str, str]
    ) -> None:
        """Store the secrets, the record, and last the server; shielded from cancellation.

        Raises:
            RegistryError, SecretStoreError, ConfigurationError, InstallFailedError: If something
                cannot be stored.
        """
        scope, *_ = self._scopes
        with anyio.CancelScope(shield=True):
            for name, value in secrets.items():
                await anyio.to_thread.run_sync(self._engine.secrets.set, name, value)
            before = self._records.find(self._scopes, record.name)
            await anyio.to_thread.run_sync(self._records.save, scope, record)
            try:
                await self._engine.servers.apply(change)
            except BaseException:
                if before is not None:
                    await anyio.to_thread.run_sync(self._records.save, scope, before)
                raise

    async def record(self, name: str) -> InstalledServer:
        """Return the record of an installed server by its name in the configuration.

        Raises:
            ServerNotFoundError: If it is not configured.
            NotInstalledError: If it was not installed from the marketplace.
        """
        await (
            self._engine.complete_settings()
        )  # only complete settings have the commands of servers
        server = self._engine.view.server_settings(name)
        record = await anyio.to_thread.run_sync(self._record_of, server)
        if record is None:
            raise NotInstalledError(
                f"server {name!r} was not installed from the marketplace",
                (),
                hint="`discovery list --installed` names those that were;"
                f" `discovery remove {name}` removes any other",
            )
        return record

    async def find(self, name: str) -> InstalledServer | None:
        """Return the record of a server; None if it is not configured, or was not installed."""
        try:
            return await self.record(name)
        except NotFoundError:
            return None

    async def all_records(self) -> tuple[InstalledServer, ...]:
        """Return the records of all installed servers, in the order of the configuration."""
        await self._engine.complete_settings()
        servers = self._engine.view.settings.servers
        find = partial(map, self._record_of, servers)
        records = await anyio.to_thread.run_sync(lambda: list(find()))
        return tuple(record for record in records if record is not None)

    def address(self, record: InstalledServer) -> ServerName:
        """Return the name of an installed server in the configuration.

        Raises:
            NotInstalledError: If it was removed since it was recorded.
        """
        server = self._configured(record.where, record.name)
        if server is None:
            raise NotInstalledError(f"server {record.name!r} was removed in the meantime", ())
        return server.name

    def private_folder(self, record: InstalledServer) -> str:
        """Return the path of the private folder that serves as the sandboxed home of a server."""
        server = self._engine.view.server_settings(self.address(record))
        return str(sandboxes.private_folder(self._sandboxes, server.name, server.origin.file))

    @property
    def _scopes(self) -> tuple[str, ...]:
        return record_scopes(self._engine.view.settings)

    def _record_of(self, server: ServerSettings) -> InstalledServer | None:
        return self._records.record_of(self._scopes, server)

    def _configured(self, where: Place, name: str) -> ServerSettings | None:
        """Return the server with that name at that place; None if there is none."""
        for server in self._engine.view.settings.servers:
            if place_of(server) == where and (server.renamed_from or server.name) == name:
                return server
        return None

    async def _settle_begun(self) -> None:
        """Clean up after operations whose processes were killed."""
        for work in await anyio.to_thread.run_sync(self._records.begun):
            if work.scope in self._scopes:
                await anyio.to_thread.run_sync(self._settle, work)

    def _settle(self, work: BegunWork) -> None:
        """Delete the record, folders and secrets of an operation that belong to no server."""
        server = self._configured(work.where, work.name)
        if server is None:
            self._records.delete(self._scopes, work.name)
        self._delete_unused(work.folders)
        referred = set(stored_secrets(server)) if server else set()
        for secret in work.secrets:
            if secret not in referred:
                self._engine.secrets.delete(secret)
        self._records.end(work)

    def _delete_stale(self) -> None:
        """Delete records and folders of installed servers that the owner removed by hand."""
        settings = self._engine.view.settings
        for record in self._records.of(self._scopes):
            server = self._configured(record.where, record.name)
            if server is None and record.where == "registry" and not settings.cache.enabled:
                continue  # with the registry disabled, its servers are unknown
            if server is None or not record.current.is_run_by(server):
                self._records.delete(self._scopes, record.name)
                self._delete_unused(record.folders)
            if server is None:  # a new server of that name would get the same private folder
                file = str(settings.path or "") if record.where == "file" else ""
                self._delete_unused(
                    [str(sandboxes.private_folder(self._sandboxes, record.name, file))]
                )

    def _delete_unused(self, folders: Iterable[str]) -> None:
        """Delete the folders that no installed and no configured server uses."""
        used = {folder for record in self._records.all() for folder in record.folders}
        servers = self._engine.view.settings.servers
        texts = [text for server in servers for text in written_fields(server.transport).values()]
        for folder in folders:
            if folder not in used and not any(folder in text for text in texts):
                remove_folder(Path(folder))
