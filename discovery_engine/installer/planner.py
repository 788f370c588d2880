"""Plans an installation: the offer, the package, the values, and the entry that comes of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct

from discovery_engine import scanner
from discovery_engine._util.text import one_line, quoted
from discovery_engine.errors import InstallRefusedError
from discovery_engine.installer.bundle import read_bundle
from discovery_engine.installer.download import BundleDownloads
from discovery_engine.installer.environment import ServerEnvironment, environment
from discovery_engine.installer.input_values import GivenValues, InputValues, literal
from discovery_engine.installer.offered_arguments import (
    refused_hint,
    runtime_options,
    server_arguments,
)
from discovery_engine.installer.offers import Offer, chosen_offer, default_name
from discovery_engine.installer.packages import Command, PackageResolver, ResolvedPackage
from discovery_engine.installer.plan import InstallPlan, SecretValues
from discovery_engine.installer.remote_address import address, headers
from discovery_engine.installer.sandbox_choice import confinement, unconfined
from discovery_engine.installer.sandbox_grants import Grants, sandbox
from discovery_engine.marketplace.entry import PackageOffer, RemoteOffer
from discovery_engine.marketplace.package_managers.package_names import checked_name
from discovery_engine.marketplace.package_managers.prerequisites import RUNTIMES, Prerequisites
from discovery_engine.registry.server_records import PackagePin

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.installer.input_values import AskedInput
    from discovery_engine.installer.offered_arguments import RuntimeOptions
    from discovery_engine.marketplace.entry import MarketplaceEntry
    from discovery_engine.marketplace.package_managers.manager_command import Environ

_LONGEST_DESCRIPTION = 300  # characters; agents read it


class Choices(Struct, frozen=True):
    """What the owner chose of an entry; empty for what is usual."""

    name: str = ""
    offer: str = ""
    """A type, such as `npm` or `remote`, or an identifier."""
    version: str = ""
    values: GivenValues = {}
    secrets: GivenValues = {}
    """Further values, which are stored as secrets whatever their publisher says of them."""
    earlier: GivenValues = {}
    """What its owner gave for the version before."""
    grants: Grants = Grants()

    def input_values(self, server: str, stored: Collection[str]) -> InputValues:
        return InputValues(
            server, self.values, secrets=self.secrets, earlier=self.earlier, stored=stored
        )


class Planner:
    """Plans installations of entries; nothing is installed, written or started."""

    def __init__(
        self, environ: Environ, data: Path, downloads: BundleDownloads | None = None
    ) -> None:
        """`data` is the data folder; `downloads` are those of its bundles by default."""
        self._data = data
        self._environ = environ
        self._prerequisites = Prerequisites(environ)
        self.packages = PackageResolver(environ, data)
        self._bundles = BundleResolver(data, downloads)

    async def plan(
        self, entry: MarketplaceEntry, choices: Choices, *, stored: Collection[str] = frozenset()
    ) -> InstallPlan:
        """What installing an entry would do.

        Args:
            entry: Of the marketplace.
            choices: What its owner chose.
            stored: The secrets of this very server that are stored already: `SERVER/NAME`.

        Raises:
            InstallRefusedError: If what the entry asks for is unsafe, or cannot be run here.
            InvalidInputError: If a value does not fit.
            NotFoundError: If its package, or the version, does not exist.
            PackageManagerError: If a package manager is missing or fails.
            PackageChangedError: If the package is not what the entry says.
        """
        offer = await self._offer(entry, choices)
        name = choices.name or default_name(entry)
        values = choices.input_values(name, stored)
        if isinstance(offer, RemoteOffer):
            plan = self._remote(entry, offer, choices, name, values)
        else:
            plan = await self._package(entry, offer, choices, name, values)
        values.require_known()
        return plan

    async def asked(
        self, entry: MarketplaceEntry, choices: Choices, *, stored: Collection[str] = frozenset()
    ) -> tuple[AskedInput, ...]:
        """What the owner may give, without asking a package manager.

        A bundle is downloaded for it. The arguments and errors are those of `plan`.
        """
        offer = await self._offer(entry, choices)
        if isinstance(offer, PackageOffer) and offer.registry_type == "mcpb":
            return (await self.plan(entry, choices, stored=stored)).asked
        values = choices.input_values(choices.name or default_name(entry), stored)
        if isinstance(offer, RemoteOffer):
            address(offer, values)
            headers(offer.headers, values)
        else:
            _package_inputs(offer, values)
        return tuple(values.asked.values())

    async def _offer(self, entry: MarketplaceEntry, choices: Choices) -> Offer:
        if entry.status == "deleted":
            raise InstallRefusedError(f"{entry.name} was deleted from the marketplace")
        return chosen_offer(entry, choices.offer or None, await self._runnable(entry))

    async def _package(
        self,
        entry: MarketplaceEntry,
        offer: PackageOffer,
        choices: Choices,
        name: str,
        values: InputValues,
    ) -> InstallPlan:
        options, variables, arguments = _package_inputs(offer, values)
        package = await self._resolved(offer, options, choices, name, values)
        env = {**package.environment, **variables.variables}
        command = package.command(arguments, tuple(env))
        description, suspicion = _description(entry)
        usable, refused = self._grantable(values.paths)
        confined = await anyio.to_thread.run_sync(
            confinement, name, choices.grants, command.program, self._environ
        )
        notes = (*variables.warnings, *options.warnings, *package.warnings, *refused)
        return InstallPlan(
            entry=entry,
            offer=offer,
            name=name,
            pin=package.pin,
            server_entry=_without_empty(
                command=command.program,
                args=list(command.arguments),
                env=env,
                cwd=str(package.cwd or ""),
                sandbox=_sandbox(choices.grants, usable, package),
                description=description,
            ),
            asked=tuple(values.asked.values()),
            secrets=SecretValues(values.to_store),
            prerequisites=await self._prerequisites.probe(_needed(package.pin)),
            warnings=(*notes, *unconfined(confined), *suspicion),
            archive=package.archive,
            folders=package.folders,
            reads=package.reads,
            confinement=confined,
            grants=choices.grants,
            values=values.plain,
        )

    async def _resolved(
        self,
        offer: PackageOffer,
        options: RuntimeOptions,
        choices: Choices,
        name: str,
        values: InputValues,
    ) -> ResolvedPackage:
        if offer.registry_type == "mcpb":
            return await self._bundles.resolve(offer, values, server=name)
        return await self.packages.resolve(offer, options, version=choices.version, server=name)

    def _grantable(self, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        """Of the paths that the owner named, those that a sandbox may grant; a note on others."""
        data = os.path.realpath(self._data)
        held = [path for path in paths if Path(data).is_relative_to(os.path.realpath(path))]
        notes = [
            f"its sandbox does not let it use {path}, which holds the secrets of discovery:"
            " name folders in it"
            for path in held
        ]
        return [path for path in paths if path not in held], notes

    def _remote(
        self,
        entry: MarketplaceEntry,
        offer: RemoteOffer,
        choices: Choices,
        name: str,
        values: InputValues,
    ) -> InstallPlan:
        if choices.version and choices.version != entry.version:
            raise InstallRefusedError("a remote server has no versions to choose from")
        url = address(offer, values) or literal(offer.url)
        description, suspicion = _description(entry)
        server_entry = _without_empty(
            url=url,
            transport="sse" if offer.type == "sse" else "http",
            headers=headers(offer.headers, values),
            description=description,
        )
        return InstallPlan(
            entry=entry,
            offer=offer,
            name=name,
            pin=PackagePin("remote", offer.url, entry.version),
            server_entry=server_entry,
            asked=tuple(values.asked.values()),
            secrets=SecretValues(values.to_store),
            warnings=suspicion,
            values=values.plain,
        )

    async def _runnable(self, entry: MarketplaceEntry) -> set[str]:
        """The types of packages that can be started here."""
        kinds = {offer.registry_type for offer in entry.packages}
        found: set[str] = set()
        for kind in kinds:
            programs = RUNTIMES[kind]
            probed = await self._prerequisites.probe(programs)
            is_here = any(one.is_usable for one in probed) or not programs
            if is_here or kind == "pypi":  # that has an environment of our own
                found.add(kind)
        return found


def _package_inputs(
    offer: PackageOffer, values: InputValues
) -> tuple[RuntimeOptions, ServerEnvironment, tuple[str, ...]]:
    """Options of the runtime, variables and arguments, with the values that were given."""
    if hint := refused_hint(offer):
        raise InstallRefusedError(
            f"the entry asks for {quoted(hint)} to start its {offer.registry_type} package;"
            " that is none of the programs with which packages are started"
        )
    options = runtime_options(offer, values)
    variables = environment((*offer.environment, *options.environment), values)
    return options, variables, server_arguments(offer.package_arguments, values)


def _sandbox(grants: Grants, paths: Sequence[str], package: ResolvedPackage) -> JSONValue:
    """With what the owner granted, `paths` that a value names, and what the package needs."""
    changes = (*paths, *map(str, package.writes))
    return sandbox(grants, changes, (*package.folders, *package.reads))


def _without_empty(**keys: JSONValue) -> JSONObject:
    """An entry of `servers` with those of its keys that have a value."""
    return {key: value for key, value in keys.items() if value}


def _needed(pin: PackagePin) -> Sequence[str]:
    if pin.runtime == "npx":
        return ("npx", "npm")
    return () if pin.runtime in ("venv", "") else (pin.runtime,)


def _description(entry: MarketplaceEntry) -> tuple[str, tuple[str, ...]]:
    """What agents read about the server; nothing if it is suspicious, which is said."""
    if scanner.alarms(scanner.scan_text(entry.description, where="description")):
        return "", ("its description is suspicious, and is left out of the entry",)
    text = one_line(entry.description)
    cut = text if len(text) <= _LONGEST_DESCRIPTION else f"{text[: _LONGEST_DESCRIPTION - 1]}…"
    return literal(cut), ()


# A bundle as a package: downloaded, checked, and started from where it will be unpacked.

_SHOWN = 12  # digits of a hash in the name of a folder


class BundleResolver:
    """`data` is the data folder."""

    def __init__(self, data: Path, downloads: BundleDownloads | None = None) -> None:
        packages = data / "packages"
        self._folder = packages / "bundles"
        self._downloads = downloads or BundleDownloads(packages / "downloads")

    async def resolve(
        self, offer: PackageOffer, values: InputValues, *, server: str
    ) -> ResolvedPackage:
        """The bundle of an offer; it is downloaded, and not unpacked.

        Raises:
            InvalidPackageNameError: If its address is none.
            InstallRefusedError: If it has no hash, or starts what is not its own.
            InstallFailedError: If it cannot be downloaded.
            PackageChangedError: If it has another hash than its entry says.
        """
        checked_name("mcpb", offer.identifier)
        archive = await self._downloads.fetch(offer.identifier, offer.integrity)
        digest = archive.stem
        folder = self._folder / f"{server}-{digest[:_SHOWN]}"
        found = await anyio.to_thread.run_sync(read_bundle, archive, folder)
        variables = environment(found.environment, values)
        own = {"PYTHONPATH": found.python_path} if found.python_path else {}
        before = (found.script,) if found.script else ()
        words = server_arguments(found.arguments, values)

        def command(arguments: Sequence[str], _: Sequence[str]) -> Command:
            return Command(found.program, (*before, *words, *arguments))

        runtime = found.program if found.script else ""
        version = offer.version or found.version
        if not version:
            raise InstallRefusedError(
                f"neither the entry nor the bundle {offer.identifier} has a version"
            )
        return ResolvedPackage(
            PackagePin("mcpb", offer.identifier, version, f"sha256:{digest}", runtime),
            command,
            variables.warnings,
            environment={**own, **variables.variables},
            folders=(folder,),
            archive=archive,
        )
