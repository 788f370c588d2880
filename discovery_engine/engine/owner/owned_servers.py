"""Lists and changes the servers in the configuration file and the registry: `engine.servers`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject
from discovery_engine.config.files.location import FILE_NAME, decision_scope
from discovery_engine.config.openapi_entry import needs_extra
from discovery_engine.config.own_entry import OWN_ENTRY, is_own_entry
from discovery_engine.config.serialization import serialize_server
from discovery_engine.config.settings import OWN_SOURCE, REGISTRY, ServerSettings, StdioTransport
from discovery_engine.config.sources.source_reader import PastedServer, read_pasted
from discovery_engine.engine.engine import Engine
from discovery_engine.engine.owner.approvals import approve_file, taking_over
from discovery_engine.engine.owner.candidates import approval_of
from discovery_engine.engine.owner.demo_server import demo_servers
from discovery_engine.engine.owner.server_export import ExportClient, ServerExport, export_server
from discovery_engine.engine.owner.server_listing import (
    OwnedServer,
    owned_servers,
    with_packages,
    with_run_packages,
)
from discovery_engine.engine.owner.server_plans import (
    NewServer,
    ServerPlan,
    StoredLiterals,
    Target,
    parsed_entry,
    plan_copy,
    plan_in_file,
    plan_registration,
    plan_removal,
    plan_removal_of_duplicate,
    plan_switch,
    plan_update_in_file,
    refusal,
    refuse_commands,
)
from discovery_engine.engine.owner.server_search import chosen
from discovery_engine.engine.owner.setup_sync import (
    SetupEntry,
    SyncPlan,
    SyncReport,
    plan_sync,
    read_client,
    read_setup,
    setup_path,
)
from discovery_engine.engine.registered_servers import Registrations, registrations
from discovery_engine.errors import (
    ConfigurationError,
    RegistryError,
    ServerNotFoundError,
    UnavailableError,
)
from discovery_engine.errors.extras import install_command, missing_library
from discovery_engine.secrets.references import (
    MalformedReferenceError,
    Reference,
    is_secret_name,
    references_in,
    with_addresses,
)
from discovery_engine.secrets.resolver import SecretResolver, has_value
from discovery_engine.secrets.stored_values import SecretText
from discovery_engine.store.install_records import installed_packages
from discovery_engine.store.server_records import PackagePin, RegisteredServer, ServerOrigin
from discovery_engine.upstream.connection import with_fields, written_fields
from discovery_engine.upstream.state import ServerState
from discovery_engine.upstream.stdio.environment import child_environment
from discovery_engine.upstream.stdio.executable import on_this_machine

if TYPE_CHECKING:
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine.core import EngineCore
    from discovery_engine.tools.model import ServerName
    from discovery_engine.view.status import ServerReport

# Members of an entry that start its package.
_PROGRAM = ("command", "args", "url")


class AddedServer(Struct, frozen=True):
    """A server that was added."""

    name: str
    """The name of the server: `NAME@registry` if a file has a server `NAME`."""
    where: Target
    diff: str


class OwnedServers:
    """Lists, adds, changes and removes servers; available as `engine.servers`.

    Changes take effect at once in this engine, and soon in other processes.
    """

    def __init__(self, engine: Engine, core: EngineCore) -> None:
        self._engine = engine
        self._store = core.store
        self._trust = core.state.trust_store
        self._secrets = core.environment.secrets
        self._environ = core.environment.variables
        self._clock = core.environment.clock
        self._data = core.environment.data

    async def list(
        self,
        query: str = "",
        *,
        tags: Sequence[str] = (),
        sources: Sequence[str] = (),
        installed_only: bool = False,
    ) -> tuple[OwnedServer, ...]:
        """Return the configured servers, ordered by name or, with a query, the best first.

        Args:
            query: Words in the names, descriptions or tags of servers; empty for all servers.
            tags: The tags of which a server must have one; empty for all.
            sources: The sources that may contain the server; empty for all.
            installed_only: True for only the servers that run a package of the marketplace.
        """
        view = self._engine.view
        choose = partial(chosen, tags=tags, sources=sources, installed_only=installed_only)
        installed = await self._installed()
        listed = with_packages(view.servers(), installed)
        reports = await anyio.to_thread.run_sync(choose, listed, query)
        return tuple(owned_servers(view, reports, await self._registrations(), installed))

    async def with_packages(self, reports: Iterable[ServerReport]) -> tuple[ServerReport, ...]:
        """Add the packages of servers to their reports: installed, or named in the command."""
        with suppress(ConfigurationError):  # the last valid configuration is used instead
            await self._engine.complete_settings()
        installed = with_packages(reports, await self._installed())
        return tuple(with_run_packages(installed, self._engine.view.settings.by_name))

    async def get(self, name: str) -> OwnedServer:
        """Return one server by any name that `View.server` accepts.

        Raises:
            ServerNotFoundError: If there is none; the error suggests the nearest names.
        """
        view, installed = self._engine.view, await self._installed()
        reports = with_packages([view.server(name)], installed)
        [server] = owned_servers(view, reports, await self._registrations(), installed)
        return server

    async def export(self, name: str, client: ExportClient) -> ServerExport:
        """Return the entry of a server in the format of another client, without secrets.

        Raises:
            ServerNotFoundError: If there is no such server.
            ConfigurationError: If its entry is invalid.
        """
        await self._settings()
        server = self._engine.view.server_settings(name)
        if server.problem:
            raise ConfigurationError([server.problem])
        return export_server(server, client)

    async def read_pasted(self, text: str) -> tuple[PastedServer, ...]:
        """Parse a text that was copied from another client; return its servers.

        Raises:
            ConfigurationError: If the text cannot be parsed, or contains no server.
        """
        return await anyio.to_thread.run_sync(read_pasted, text)

    async def plan_add(
        self,
        name: str,
        entry: JSONObject,
        *,
        to: Target | None = None,
        source: ServerOrigin = "manual",
        package: PackagePin | None = None,
        marketplace_id: str = "",
        wanted: bool = True,
    ) -> ServerPlan:
        """Plan adding a server; see `add` for the arguments.

        Raises:
            ConfigurationError: See `add`.
        """
        settings = await self._settings()
        to = to or _usual_place(settings)
        if to == "registry" or source != "manual":
            refuse_commands(name, entry)
        if to == "file":
            entry = entry if wanted else {**entry, "enabled": False}
            return await self._warned(partial(plan_in_file, settings, name, entry, source))
        registrations, now = await self._registrations(), self._clock()
        _require_unregistered(name, registrations, f"`discovery remove {name}` first")
        record = RegisteredServer(name, entry, source, package, marketplace_id, now, now)
        return await self._planned(settings, registrations, NewServer(record, wanted))

    async def require_free(self, name: str, *, to: Target | None = None, hint: str) -> Target:
        """Check that a server can be added under a name; return the place where it would be.

        Raises:
            ConfigurationError: If the name is taken there, with `hint`, or is invalid.
        """
        settings = await self._settings()
        to = to or _usual_place(settings)
        parsed_entry(name, {"command": "true"})  # a dummy entry, to validate the name
        if to == "registry":
            _require_unregistered(name, await self._registrations(), hint)
        own = (server.name for server in settings.servers if server.source == OWN_SOURCE)
        if to == "file" and (taken := _same_name(name, own)):
            place = settings.path or FILE_NAME
            raise refusal(place, f"there is a server {taken!r} already", hint)
        return to

    async def add(
        self,
        name: str,
        entry: JSONObject,
        *,
        to: Target | None = None,
        source: ServerOrigin = "manual",
        package: PackagePin | None = None,
        marketplace_id: str = "",
        wanted: bool = True,
    ) -> AddedServer:
        """Add a server, and approve its command or URL.

        Literal secrets in the entry are stored and replaced by references, unless `source` is
        `marketplace`: the installer has stored those.

        Args:
            name: The name of the server.
            entry: The entry, as in `servers` of `discovery.yaml`.
            to: The place; None for the configuration file, or without one the registry.
            source: The origin of the entry, for the records.
            package: The pinned package that the server runs, if any.
            marketplace_id: The id of the marketplace entry that it was made from, if any.
            wanted: False to add it disabled.

        Raises:
            ConfigurationError: If the entry is invalid, the name is taken, the server is configured
                already, or the file cannot be edited.
            RegistryError, SecretStoreError: If the server or a secret cannot be stored.
        """
        plan = await self.plan_add(
            name,
            entry,
            to=to,
            source=source,
            package=package,
            marketplace_id=marketplace_id,
            wanted=wanted,
        )
        await self.apply(plan)
        return AddedServer(plan.name, plan.where, plan.diff)

    async def plan_update(
        self,
        name: str,
        entry: JSONObject,
        *,
        package: PackagePin | None = None,
        source: ServerOrigin = "manual",
    ) -> ServerPlan:
        """Plan replacing the entry of a server.

        A server from another client's file is copied into the configuration file with the new
        entry.

        Args:
            name: The name of the server.
            entry: The new entry, as in `servers` of `discovery.yaml`.
            package: The package that a registered server runs then, if any.
            source: The origin of the entry, for a server in the configuration file.

        Raises:
            ServerNotFoundError: If there is no such server.
            ConfigurationError: If the entry is invalid, or the file cannot be edited.
        """
        settings = await self._settings()
        server = self._engine.view.server_settings(name)
        if package or server.source != OWN_SOURCE:
            refuse_commands(name, entry)
        if server.source == OWN_SOURCE:
            return await self._warned(
                partial(plan_update_in_file, settings, server.name, entry, source)
            )
        if server.is_sourced:
            changed = parsed_entry(server.name, entry)
            return await self._warned(partial(plan_copy, settings, server, self._secrets, changed))
        registrations = await self._registrations()
        if not (record := _record(server, registrations)):
            raise refusal("the registry", f"{name!r} was removed in the meantime")
        following = record.followed_by(entry, package, at=self._clock())
        return await self._planned(settings, registrations, NewServer(following))

    async def plan_change(self, name: str, changes: JSONObject) -> ServerPlan:
        """Plan an update with a JSON Merge Patch of the server's entry; see `plan_update`.

        A registered server keeps its package if its command, arguments and URL are unchanged.

        Raises:
            ServerNotFoundError, ConfigurationError: See `plan_update`.
        """
        await self._settings()
        server, registrations = self._engine.view.server_settings(name), await self._registrations()
        if not (record := _record(server, registrations)):
            entry = merge_patch(serialize_server(server), changes)
            return await self.plan_update(name, entry)
        entry = merge_patch(record.entry, changes)
        runs_the_same = all(entry.get(key) == record.entry.get(key) for key in _PROGRAM)
        return await self.plan_update(
            name, entry, package=record.package if runs_the_same else None
        )

    async def missing(self, name: str) -> Mapping[str, str]:
        """Return the references in a server's entry that have no value, each with its place.

        They are variables and stored secrets, as in
        `{"TOKEN": "env.TOKEN", "secret:KEY": "args.1"}`. Empty while the server waits for approval.

        Raises:
            ServerNotFoundError: If there is no such server.
        """
        await self._settings()
        server = self._engine.view.server_settings(name)
        if self._engine.view.server(server.name).state is ServerState.UNTRUSTED:
            return {}
        return await anyio.to_thread.run_sync(_missing_values, server, self._secrets)

    async def plan_values(self, name: str, values: Mapping[str, str]) -> ServerPlan:
        """Plan storing values for `missing` references as secrets, which the entry then references.

        Raises:
            ServerNotFoundError: If there is no such server.
            ConfigurationError: If a reference is not missing, or the entry cannot be changed.
        """
        missing, server = await self.missing(name), self._engine.view.server_settings(name)
        if unknown := [address for address in values if address not in missing]:
            raise refusal(server.name, f"no value is missing for {', '.join(unknown)}")
        literals = _with_values(server, values)
        before, after = serialize_server(server), serialize_server(literals.server)
        changes = {key: value for key, value in after.items() if value != before.get(key)}
        place: Target = "registry" if server.is_registered else "file"
        unchanged = ServerPlan("update", server.name, place)
        plan = await self.plan_change(server.name, changes) if changes else unchanged
        return replace(plan, secrets={**plan.secrets, **literals.values})

    async def plan_remove(self, name: str) -> ServerPlan:
        """Plan the removal of a server; see `remove`.

        Raises:
            ServerNotFoundError, ConfigurationError: See `remove`.
        """
        settings, registrations = await self._settings(), await self._registrations()
        try:
            server = self._engine.view.server_settings(name)
        except ServerNotFoundError:
            if plan := plan_removal_of_duplicate(name, registrations):
                return plan
            raise
        return await anyio.to_thread.run_sync(plan_removal, settings, server, registrations)

    async def remove(self, name: str) -> ServerPlan:
        """Remove a server from the file or the registry; stored secrets remain.

        The approval of a registered server is revoked.

        Raises:
            ServerNotFoundError: If there is no such server.
            ConfigurationError: If it belongs to another client's file, or the file cannot be
                edited.
            RegistryError: If the registry cannot be changed.
        """
        plan = await self.plan_remove(name)
        await self.apply(plan)
        return plan

    async def plan_switch(
        self, name: str, *, is_wanted: bool, to: Target | None = None
    ) -> ServerPlan:
        """Plan enabling or disabling a server; see `enable`.

        Raises:
            ServerNotFoundError, ConfigurationError: See `enable`.
        """
        settings = await self._settings()
        server = self._engine.view.server_settings(name)
        plan = partial(plan_switch, settings, server, self._secrets, is_wanted=is_wanted, to=to)
        return await anyio.to_thread.run_sync(plan)

    async def enable(self, name: str, *, to: Target | None = None) -> ServerPlan:
        """Enable a server; a no-op if it is enabled. It is started on demand.

        Raises:
            ServerNotFoundError: If there is no such server.
            ConfigurationError: If the file cannot be edited, or disables it and `to` is the
                registry.
            RegistryError: If the change cannot be stored.
        """
        plan = await self.plan_switch(name, is_wanted=True, to=to)
        await self.apply(plan)
        return plan

    async def disable(self, name: str, *, to: Target | None = None) -> ServerPlan:
        """Disable a server and close its sessions; a no-op if it is disabled.

        Raises:
            ServerNotFoundError, ConfigurationError, RegistryError: See `enable`.
        """
        plan = await self.plan_switch(name, is_wanted=False, to=to)
        await self.apply(plan)
        return plan

    async def plan_sync(self, path: str | Path | None = None, *, client: str = "") -> SyncPlan:
        """Plan registering the servers of a setup file, or of the file of a client; see `sync`.

        Raises:
            ConfigurationError: See `sync`.
        """
        file = setup_path(path, self._environ)
        read = partial(read_client, client, environ=self._environ) if client else read_setup
        return await self._plan_entries(file, await anyio.to_thread.run_sync(read, file))

    async def plan_demo(self) -> SyncPlan:
        """Plan registering the servers of the demo."""
        entries = [SetupEntry(name, entry) for name, entry in demo_servers().items()]
        return await self._plan_entries(Path("the demo"), entries)

    async def _plan_entries(self, file: Path, entries: Sequence[SetupEntry]) -> SyncPlan:
        settings, registrations = await self._settings(), await self._registrations()
        at, data, environ = self._clock(), self._data, self._environ
        plan = partial(plan_sync, settings, registrations, file, entries, environ)
        return await anyio.to_thread.run_sync(partial(plan, at=at, data=data))

    async def sync(self, path: str | Path | None = None) -> SyncReport:
        """Register and approve the servers of a setup file that are not registered yet.

        Args:
            path: The path of the file; that in `$DISCOVERY_SETUP_FILE` if None.

        Raises:
            ConfigurationError: If there is no such file, or it cannot be read.
            RegistryError, SecretStoreError: If a server or a secret cannot be stored.
        """
        plan = await self.plan_sync(path)
        await self.apply(*plan.plans)
        return plan.report

    async def apply(self, *plans: ServerPlan) -> None:
        """Execute plans, so that they take effect in this engine; empty plans are skipped.

        Raises:
            ConfigurationError: If the file has changed since, or cannot be written.
            RegistryError, SecretStoreError: If a change or a secret cannot be stored.
        """
        changing = [plan for plan in plans if not plan.is_empty]
        if not changing:
            return
        with anyio.CancelScope(shield=True):
            settings = self._engine.view.settings
            await anyio.to_thread.run_sync(self._write, changing, settings)
            if any(plan.edit for plan in changing):
                await self._engine.reload()
            await self._engine.apply_decisions()

    async def _planned(
        self, settings: Settings, registrations: Registrations, new: NewServer
    ) -> ServerPlan:
        return await self._warned(
            partial(plan_registration, settings, registrations, new, self._environ)
        )

    async def _warned(self, plan: Callable[[], ServerPlan]) -> ServerPlan:
        return await anyio.to_thread.run_sync(self._checked, plan)

    def _checked(self, plan: Callable[[], ServerPlan]) -> ServerPlan:
        planned = plan()
        if planned.server and is_own_entry(planned.server.transport, self._data):
            hint = "write the entry into discovery.yaml yourself, if it is another gateway"
            raise refusal(planned.name, OWN_ENTRY, hint)
        return replace(planned, warnings=tuple(_warnings(planned, self._environ)))

    async def _settings(self) -> Settings:
        """Return the current settings, with transports."""
        await self._engine.complete_settings()
        return self._engine.view.settings

    async def _installed(self) -> Mapping[ServerName, PackagePin]:
        settings = self._engine.view.settings
        return await anyio.to_thread.run_sync(installed_packages, settings, self._data)

    async def _registrations(self) -> Registrations:
        settings = self._engine.view.settings
        return await anyio.to_thread.run_sync(registrations, self._store, settings)

    def _write(self, plans: Sequence[ServerPlan], settings: Settings) -> None:
        """Execute plans. The step that lets a server start is the last.

        For a server in a file that is its approval, for a registered one its entry.
        """
        values = {name: value for plan in plans for name, value in plan.secrets.items()}
        with self._engine.secrets.storing(values) if values else nullcontext():
            self._write_servers(plans, settings)

    def _write_servers(self, plans: Sequence[ServerPlan], settings: Settings) -> None:
        scope = decision_scope(settings)
        self._require_new(plans, scope)
        if dropped := [plan.dropped for plan in plans if plan.dropped]:
            self._store.delete_servers(scope, dropped)
            self._trust.revoke(settings, [f"{REGISTRY}:{name}" for name in dropped])
        if switches := {key: on for plan in plans for key, on in plan.switches.items()}:
            self._store.set_switches(scope, switches, at=self._clock())
        for plan in plans:
            if plan.edit:
                originals = [plan.original] if plan.original else []
                at = self._clock()
                with taking_over(self._trust, self._store, settings, originals, at=at):
                    plan.edit.apply()
            if plan.edit and (plan.original or plan.verb in ("add", "update")):
                self._approve_in_file(settings, plan.edit.path, plan.name)
        if saved := [plan.saved for plan in plans if plan.saved]:
            self._approve(settings, [plan.server for plan in plans if plan.saved and plan.server])
            self._store.save_servers(scope, saved)

    def _require_new(self, plans: Sequence[ServerPlan], scope: str) -> None:
        """Check that no new server of these plans was registered meanwhile."""
        new = {plan.saved.name for plan in plans if plan.saved and plan.verb == "add"}
        names = {server.name for server in self._store.registered_servers(scope)} if new else set()
        for name in sorted(new & names):
            message = f"{name!r} was registered in the meantime"
            raise refusal("the registry", message, "plan it again")

    def _approve(self, settings: Settings, servers: Iterable[ServerSettings]) -> None:
        if not _waits_for_overrides(settings):
            approval = partial(approval_of, at=self._clock(), programs={})
            approvals = [
                approval(server, settings, self._secrets, self._environ) for server in servers
            ]
            self._trust.approve(settings, approvals)

    def _approve_in_file(self, settings: Settings, path: Path, name: str) -> None:
        """Approve a server of a file, also for the case that the file is found without its path."""
        if _waits_for_overrides(settings):
            return
        is_needed = settings.is_untrusted_origin or settings.path is None
        with nullcontext() if is_needed else suppress(RegistryError):
            at = self._clock()
            approve_file(path, only=[name], environ=self._environ, data_dir=self._data, at=at)


def _usual_place(settings: Settings) -> Target:
    return "file" if settings.path else "registry"


def _record(server: ServerSettings, registrations: Registrations) -> RegisteredServer | None:
    """Return the registration of a server; None for a server in a file."""
    return (
        registrations.servers.get(server.renamed_from or server.name)
        if server.is_registered
        else None
    )


def _require_unregistered(name: str, registrations: Registrations, hint: str) -> None:
    if taken := _same_name(name, registrations.servers):
        raise refusal("the registry", f"there is a registered server {taken!r} already", hint)


def _same_name(name: str, names: Iterable[str]) -> str:
    """Return the name in `names` that equals `name` without regard to case; empty if none."""
    return next((candidate for candidate in names if candidate.casefold() == name.casefold()), "")


def _missing_values(server: ServerSettings, secrets: SecretResolver) -> dict[str, str]:
    """Return the variables and secrets without a value, by `Reference.address`.

    The value is the first place in the entry that refers to it, for instance `env.TOKEN`.
    """
    base_dir = os.path.dirname(server.origin.file) or None  # noqa: PTH120 - "" must stay ""
    missing: dict[str, str] = {}
    for place, text in written_fields(server.transport).items():
        for reference in references_in(text):
            if _can_be_given(reference, server) and not has_value(
                reference.address, secrets, base_dir=base_dir, server=server.secret_owner
            ):
                missing.setdefault(reference.address, place)
    return missing


def _with_values(server: ServerSettings, values: Mapping[str, str]) -> StoredLiterals:
    """Replace references, given by their addresses, by references to secrets with new values.

    References to variables are replaced as well, because the environment cannot be changed here.
    """
    if server.transport is None:
        return StoredLiterals(server)
    names = {address: _secret_name(server, address) for address in values}
    addresses = {address: f"secret:{name}" for address, name in names.items()}
    fields = {
        place: with_addresses(text, addresses)
        for place, text in written_fields(server.transport).items()
    }
    stored = {names[address]: SecretText(value) for address, value in values.items()}
    return StoredLiterals(replace(server, transport=with_fields(server.transport, fields)), stored)


def _can_be_given(reference: Reference, server: ServerSettings) -> bool:
    is_plain = reference.kind == "variable" and reference.default is None
    is_own_secret = reference.kind == "secret" and reference.owner in ("", server.secret_owner)
    return is_plain or is_own_secret


def _secret_name(server: ServerSettings, address: str) -> str:
    if address.startswith("secret:"):
        return address.removeprefix("secret:")
    name = f"{server.secret_owner}/{address}"
    return name if is_secret_name(name) else address


def merge_patch(value: JSONObject, patch: JSONObject) -> JSONObject:
    """Apply a JSON Merge Patch (RFC 7396): null removes a member, objects are merged."""
    merged = dict(value)
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        elif isinstance(change, dict):
            member = merged.get(name)
            merged[name] = merge_patch(member if isinstance(member, dict) else {}, change)
        else:
            merged[name] = change
    return merged


def _warnings(plan: ServerPlan, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the warnings of a plan, for instance that the program is missing on this machine."""
    if plan.server:
        # The program may be installed later, so the plan is not refused.
        yield from _missing_program(plan.server, environ)
    if plan.verb == "update" and plan.edit:
        for comment in plan.edit.lost_comments():
            yield f"this comment of the file goes, since it stands in what changes: `{comment}`"


def _missing_program(server: ServerSettings, environ: Mapping[str, str]) -> Iterator[str]:
    transport = server.transport
    if not isinstance(transport, StdioTransport):
        return
    if (key := needs_extra(transport.args)) and missing_library("openapi"):
        yield f"`{key}` needs an extra: {install_command('openapi')}"
    path = {name: value for name, value in transport.env.items() if name == "PATH"}
    try:
        if any(map(references_in, (transport.command, transport.cwd or "", *path.values()))):
            return  # the program is unknown until the start
        on_this_machine(server.name, transport, child_environment(environ, path))
    except MalformedReferenceError:
        return
    except UnavailableError as error:
        hint = f": {error.hint}" if error.hint else ""
        yield f"{error.reason}{hint}"


def _waits_for_overrides(settings: Settings) -> bool:
    """Return whether an untrusted file has tool overrides.

    An approval would cover these, although the owner was not shown them.
    """
    return settings.is_untrusted_origin and bool(settings.overrides)
