"""One piece of work at a time, whole or none: what it adds is noted before, and settled after.

A bundle comes first, then the secrets, then the record, then the server in one step. Whether
the server is there decides what stays: `_settle` deletes everything that belongs to no server. It
runs after each piece of work, and before the next one for those that were killed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.to_thread

from discovery_engine.config.files.location import decision_scopes
from discovery_engine.errors import NotFoundError, NotInstalledError
from discovery_engine.marketplace.installer.install_records import (
    BegunWork,
    InstalledServer,
    InstallRecords,
    Place,
    place_of,
    remove_folder,
)
from discovery_engine.upstream.connection import stored_secrets, written_fields
from discovery_engine.upstream.stdio.sandbox import sandboxes

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject
    from discovery_engine.catalog import RefreshReport
    from discovery_engine.config.settings import ServerSettings
    from discovery_engine.marketplace.installer.plan import PlannedServerChange
    from discovery_engine.secrets.owner_secrets import OwnerSecrets
    from discovery_engine.store.server_records import PackagePin, ServerOrigin
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.view import View


class InstallTarget(Protocol):
    """The methods of `engine.servers` that the installer needs."""

    async def plan_add(
        self,
        name: str,
        entry: JSONObject,
        *,
        to: Place | None = None,
        source: ServerOrigin = "manual",
        package: PackagePin | None = None,
        marketplace_id: str = "",
    ) -> PlannedServerChange: ...
    async def require_free(self, name: str, *, to: Place | None = None, hint: str) -> Place: ...
    async def plan_update(
        self,
        name: str,
        entry: JSONObject,
        *,
        package: PackagePin | None = None,
        source: ServerOrigin = "manual",
    ) -> PlannedServerChange: ...
    async def plan_remove(self, name: str) -> PlannedServerChange: ...
    async def apply(self, *plans: Any) -> None: ...


class InstallerHost(Protocol):
    """The part of an engine that the installer needs."""

    @property
    def view(self) -> View: ...
    @property
    def secrets(self) -> OwnerSecrets: ...
    @property
    def servers(self) -> InstallTarget: ...

    async def complete_settings(self) -> None:
        """Remembered settings have no transports."""

    async def refresh(self, servers: Iterable[str] | None = None) -> RefreshReport: ...


class InstallationWork:
    """The installed servers of one configuration, and the work on them."""

    def __init__(self, host: InstallerHost, data: Path) -> None:
        self._host = host
        self._records = InstallRecords(data)
        self._sandboxes = data / sandboxes.PRIVATE_FOLDERS

    @asynccontextmanager
    async def under_way(
        self, where: Place, name: str, secrets: Sequence[str], folders: Sequence[str]
    ) -> AsyncIterator[None]:
        """A block of work on one server; what it leaves without a server is deleted.

        `secrets` and `folders` are what may be deleted.

        Raises:
            InstallFailedError: If another process installs, or the data folder is not writable.
        """
        await self._host.complete_settings()  # what of its secrets a server refers to stays
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
        self, change: PlannedServerChange, record: InstalledServer, secrets: Mapping[str, str]
    ) -> None:
        """Store the secrets, the record, and last the server; not to be cancelled.

        Raises:
            RegistryError, SecretStoreError, ConfigurationError, InstallFailedError: If something
                cannot be kept.
        """
        scope, *_ = self._scopes
        with anyio.CancelScope(shield=True):
            for name, value in secrets.items():
                await anyio.to_thread.run_sync(self._host.secrets.set, name, value)
            before = self._records.find(self._scopes, record.name)
            await anyio.to_thread.run_sync(self._records.save, scope, record)
            try:
                await self._host.servers.apply(change)
            except BaseException:
                if before is not None:
                    await anyio.to_thread.run_sync(self._records.save, scope, before)
                raise

    async def record(self, name: str) -> InstalledServer:
        """Return the record of an installed server, by the name by which it is addressed.

        Raises:
            ServerNotFoundError: If it is not configured.
            NotInstalledError: If it was not installed from the marketplace.
        """
        await self._host.complete_settings()  # only these show what a server runs
        server = self._host.view.server_settings(name)
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
        await self._host.complete_settings()
        servers = self._host.view.settings.servers
        find = partial(map, self._record_of, servers)
        records = await anyio.to_thread.run_sync(lambda: list(find()))
        return tuple(record for record in records if record is not None)

    def address(self, record: InstalledServer) -> ServerName:
        """The name by which an installed server is addressed."""
        server = self._configured(record.where, record.name)
        assert server is not None  # noqa: S101 - `record` has found it
        return server.name

    def private_folder(self, record: InstalledServer) -> str:
        """Where an installed server writes what nothing else is granted for: its home folder."""
        server = self._host.view.server_settings(self.address(record))
        return str(sandboxes.private_folder(self._sandboxes, server.name, server.origin.file))

    @property
    def _scopes(self) -> tuple[str, ...]:
        settings = self._host.view.settings
        return tuple(decision_scopes(settings.path, settings.name))

    def _record_of(self, server: ServerSettings) -> InstalledServer | None:
        return self._records.record_of(self._scopes, server)

    def _configured(self, where: Place, name: str) -> ServerSettings | None:
        """The server that was entered there under that name."""
        for server in self._host.view.settings.servers:
            if place_of(server) == where and (server.renamed_from or server.name) == name:
                return server
        return None

    async def _settle_begun(self) -> None:
        """Settle what processes that were killed have left."""
        for work in await anyio.to_thread.run_sync(self._records.begun):
            if work.scope in self._scopes:
                await anyio.to_thread.run_sync(self._settle, work)

    def _settle(self, work: BegunWork) -> None:
        """Delete what a piece of work has added, or was to delete, and no server has."""
        server = self._configured(work.where, work.name)
        if server is None:
            self._records.delete(self._scopes, work.name)
        self._delete_unused(work.folders)
        referred = set(stored_secrets(server)) if server else set()
        for secret in work.secrets:
            if secret not in referred:
                self._host.secrets.delete(secret)
        self._records.end(work)

    def _delete_stale(self) -> None:
        """Delete what belonged to installed servers whose owner has removed them by hand."""
        settings = self._host.view.settings
        for record in self._records.of(self._scopes):
            server = self._configured(record.where, record.name)
            if server is None and record.where == "registry" and not settings.cache.enabled:
                continue  # the registry is switched off, and the server in it is not known
            if server is None or not record.current.is_run_by(server):
                self._records.delete(self._scopes, record.name)
                self._delete_unused(record.folders)
            if server is None:  # another one of that name would have the same private folder
                file = str(settings.path or "") if record.where == "file" else ""
                self._delete_unused(
                    [str(sandboxes.private_folder(self._sandboxes, record.name, file))]
                )

    def _delete_unused(self, folders: Iterable[str]) -> None:
        """Delete folders that neither an installed server nor any configured one has."""
        used = {folder for record in self._records.all() for folder in record.folders}
        servers = self._host.view.settings.servers
        texts = [text for server in servers for text in written_fields(server.transport).values()]
        for folder in folders:
            if folder not in used and not any(folder in text for text in texts):
                remove_folder(Path(folder))
