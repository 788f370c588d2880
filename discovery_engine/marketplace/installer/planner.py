"""Plans an installation: chooses an offer, resolves its package, and builds the server's entry."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.text import one_line, quoted
from discovery_engine.config.serve_settings import SandboxSettings
from discovery_engine.errors import InstallRefusedError
from discovery_engine.marketplace.entry import PackageOffer, RemoteOffer
from discovery_engine.marketplace.installer.bundles import BundleResolver
from discovery_engine.marketplace.installer.offered_inputs import (
    GivenValues,
    InputValues,
    ServerEnvironment,
    address,
    environment,
    headers,
    literal,
    refused_hint,
    runtime_options,
    server_arguments,
)
from discovery_engine.marketplace.installer.packages import PackageResolver, ResolvedPackage
from discovery_engine.marketplace.installer.plan import InstallPlan, SecretValues
from discovery_engine.marketplace.package_managers.manager_command import Prerequisites
from discovery_engine.marketplace.package_names import PACKAGE_KINDS
from discovery_engine.store.install_records import Grants, InstallRecords
from discovery_engine.store.server_records import PackagePin
from discovery_engine.trust import scanner
from discovery_engine.upstream.stdio.sandbox.choice import Choice, choose
from discovery_engine.upstream.stdio.sandbox.means import find_means

if TYPE_CHECKING:
    from discovery_engine._util.json import JSONObject, JSONValue
    from discovery_engine.marketplace.entry import MarketplaceEntry
    from discovery_engine.marketplace.installer.offered_inputs import AskedInput, RuntimeOptions
    from discovery_engine.marketplace.package_managers.manager_command import Environ

_AROUND = re.compile(r"^(?:mcp-server-|server-|mcp-)|(?:-mcp-server|-server-mcp|-mcp|-server)$")
_LONGEST_NAME = 32  # characters
_FETCHING = ("npx", "uvx", "uv", "dnx")
_LONGEST_DESCRIPTION = 300  # characters; agents read it

Offer: TypeAlias = PackageOffer | RemoteOffer


class Choices(Struct, frozen=True):
    """The owner's choices for an entry; an empty one stands for the default."""

    name: str = ""
    offer: str = ""
    """A type, such as `npm` or `remote`, or an identifier."""
    version: str = ""
    values: GivenValues = {}
    secrets: GivenValues = {}
    """Values that are stored as secrets, whatever the publisher declares."""
    earlier: GivenValues = {}
    """The owner's values for the earlier version."""
    grants: Grants = Grants()

    def input_values(self, server: str, stored: Collection[str]) -> InputValues:
        return InputValues(
            server, self.values, secrets=self.secrets, earlier=self.earlier, stored=stored
        )


class Planner:
    """Plans installations; nothing is installed, written or started."""

    def __init__(self, environ: Environ, data: Path) -> None:
        """`data` is the data folder."""
        self._data = data
        self._environ = environ
        self._prerequisites = Prerequisites(environ)
        self.packages = PackageResolver(environ)
        self._start_folder = InstallRecords(data).start_folder()
        self._bundles = BundleResolver(data)

    async def plan(
        self, entry: MarketplaceEntry, choices: Choices, *, stored: Collection[str] = frozenset()
    ) -> InstallPlan:
        """Plan the installation of an entry.

        Args:
            entry: The entry of the marketplace.
            choices: The owner's choices.
            stored: The names of secrets already stored for this server: `SERVER/NAME`.

        Raises:
            InstallRefusedError: If the entry is unsafe, or cannot be run here.
            InvalidInputError: If a value is invalid.
            NotFoundError: If the package or its version does not exist.
            PackageManagerError: If a package manager is missing or fails.
            PackageChangedError: If the content of the package differs from the entry.
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
        """Return the inputs for the owner's values, without using a package manager.

        A bundle is downloaded, as its manifest has the inputs. For arguments and errors see `plan`.
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
        package = await self._resolved(offer, options, choices, name, values, variables, arguments)
        env = {**package.environment, **variables.variables}
        program, *words = package.command
        cwd = str(self._start_folder) if package.has_own_folder else ""
        description, suspicion = _description(entry)
        usable, refused = self._grantable(values.paths)
        confined = await anyio.to_thread.run_sync(
            confinement, name, choices.grants, program, self._environ
        )
        notes = [*variables.warnings, *options.warnings, *package.warnings, *refused]
        if not choices.grants.network and package.pin.runtime in _FETCHING:
            notes.append(
                f"{package.pin.runtime} fetches the package when the server is started, and its"
                " sandbox has no network: it starts only where the package is there already"
            )
        return InstallPlan(
            entry=entry,
            offer=offer,
            name=name,
            pin=package.pin,
            server_entry=_without_empty(
                command=program,
                args=words,
                env=env,
                cwd=cwd,
                sandbox=sandbox(choices.grants, usable, (*package.folders, *package.reads)),
                description=description,
            ),
            asked=tuple(values.asked.values()),
            secrets=SecretValues(values.to_store),
            prerequisites=await self._prerequisites.probe(_needed(package.pin)),
            warnings=(*notes, *unconfined(confined), *suspicion),
            archive=package.archive,
            folders=package.folders,
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
        variables: ServerEnvironment,
        arguments: Sequence[str],
    ) -> ResolvedPackage:
        if offer.registry_type == "mcpb":
            return await self._bundles.resolve(offer, values, arguments, server=name)
        return await self.packages.resolve(
            offer,
            options,
            version=choices.version,
            arguments=arguments,
            variables=tuple(variables.variables),
        )

    def _grantable(self, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the owner's paths that a sandbox may grant, and notes about the others."""
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
        """Return the types of packages that can be started here."""
        kinds = {offer.registry_type for offer in entry.packages}
        types: set[str] = set()
        for kind in kinds:
            programs = PACKAGE_KINDS[kind].programs
            probed = await self._prerequisites.probe(programs)
            if any(prerequisite.is_usable for prerequisite in probed) or not programs:
                types.add(kind)
        return types


def _package_inputs(
    offer: PackageOffer, values: InputValues
) -> tuple[RuntimeOptions, ServerEnvironment, tuple[str, ...]]:
    """Return the runtime's options, the variables and the arguments, with the owner's values."""
    if hint := refused_hint(offer):
        raise InstallRefusedError(
            f"the entry asks for {quoted(hint)} to start its {offer.registry_type} package;"
            " that is none of the programs with which packages are started"
        )
    options = runtime_options(offer, values)
    inputs = (*offer.environment, *options.environment)
    if offer.registry_type in {"npm", "pypi"} and not (inputs or offer.package_arguments):
        inputs = values.undeclared()  # these package managers know of no inputs
    variables = environment(inputs, values)
    return options, variables, server_arguments(offer.package_arguments, values)


def _without_empty(**keys: JSONValue) -> JSONObject:
    """Return an entry of `servers` without empty values."""
    return {key: value for key, value in keys.items() if value}


def _needed(pin: PackagePin) -> Sequence[str]:
    if pin.runtime == "npx":
        return ("npx", "npm")
    return (pin.runtime,) if pin.runtime else ()


def _description(entry: MarketplaceEntry) -> tuple[str, tuple[str, ...]]:
    """Return the description for agents, and warnings; a suspicious description is left out."""
    if scanner.alarms(scanner.scan_text(entry.description, where="description")):
        return "", ("its description is suspicious, and is left out of the entry",)
    text = one_line(entry.description)
    cut = text if len(text) <= _LONGEST_DESCRIPTION else f"{text[: _LONGEST_DESCRIPTION - 1]}…"
    return literal(cut), ()


# The choice of an offer, and the default name of a server.


def chosen_offer(entry: MarketplaceEntry, wanted: str | None, runnable: Collection[str]) -> Offer:
    """Return the requested offer; by default the first usable one, preferably one that runs here.

    Args:
        entry: The entry of the marketplace.
        wanted: A type (`npm`, `remote`) or an identifier; None for the default.
        runnable: The types of packages that this machine can start.

    Raises:
        InstallRefusedError: If no offer is usable.
    """
    offers: list[Offer] = [*entry.packages, *entry.remotes]
    usable = [offer for offer in offers if not _obstacle(offer)]
    if wanted:
        usable = [offer for offer in usable if wanted in _names(offer)]
    runs_here = (offer for offer in usable if _type(offer) in {*runnable, "remote"})
    if choice := next(runs_here, None) or next(iter(usable), None):
        return choice
    names = ", ".join(_names(offer)[0] for offer in offers)
    if wanted and offers:
        raise InstallRefusedError(
            f"{entry.name} has no usable offer {quoted(wanted)}", hint=f"it has {names}"
        )
    reasons = [_obstacle(offer) for offer in offers] + [refusal.reason for refusal in entry.refused]
    reason = (
        "; ".join(dict.fromkeys(filter(None, reasons))) or "it offers no package and no address"
    )
    raise InstallRefusedError(f"{entry.name} cannot be installed: {reason}")


def same_offer(entry: MarketplaceEntry, identifier: str, kind: str) -> str:
    """Return the identifier if a later version has an offer with it, else the type.

    The URL of a bundle or a remote server may differ between versions.
    """
    offers: list[Offer] = [*entry.packages, *entry.remotes]
    names = {name for offer in offers for name in _names(offer)}
    return identifier if identifier in names else kind


def default_name(entry: MarketplaceEntry) -> str:
    """Return a short name for the server: `time` for `mcp-server-time`."""
    last = entry.name.rpartition("/")[2].lower()
    plain = re.sub(r"[^a-z0-9]+", "-", last).strip("-")
    short = plain
    while (shorter := _AROUND.sub("", short, count=1)) != short and shorter:
        short = shorter
    return short[:_LONGEST_NAME].strip("-") or "server"


def _type(offer: Offer) -> str:
    return offer.registry_type if isinstance(offer, PackageOffer) else "remote"


def _names(offer: Offer) -> tuple[str, ...]:
    if isinstance(offer, PackageOffer):
        return (offer.registry_type, offer.identifier)
    return ("remote", offer.url)


def _obstacle(offer: Offer) -> str:
    """Return why an offer cannot be used by this program; empty if it can."""
    if isinstance(offer, RemoteOffer):
        return ""
    if offer.transport.type != "stdio":
        return (
            f"its {offer.registry_type} package serves HTTP, and has to be started by hand:"
            " `discovery add` takes its address"
        )
    if offer.registry_url:
        return (
            f"its {offer.registry_type} package is in the registry {offer.registry_url}, which is"
            " not the usual one"
        )
    return ""


# The sandbox: its grants, and its means on this system.


def sandbox(
    grants: Grants, paths: Sequence[str] = (), folders: Sequence[Path] = ()
) -> str | dict[str, JSONValue]:
    """Return the `sandbox` of an entry: the kind alone, or with grants.

    Args:
        grants: The owner's grants.
        paths: Further writable paths, such as those in the owner's values.
        folders: Readable folders that the server cannot start without.
    """
    granted: dict[str, JSONValue] = {}
    needed = (str(folder) for folder in folders if not folder.is_relative_to("/usr"))
    if read := list(dict.fromkeys((*grants.read, *needed))):
        granted["read"] = read
    if write := list(dict.fromkeys((*grants.write, *paths))):
        granted["write"] = write
    if grants.network:
        granted["network"] = True
    return {"kind": "auto", **granted} if granted else "auto"


def confinement(server: str, grants: Grants, program: str, environ: Mapping[str, str]) -> Choice:
    """Return what `auto` means for a program here; blocks, and tries each means only once."""
    settings = SandboxSettings("auto", network=grants.network)
    return choose(server, settings, program, find_means(environ))


def unconfined(choice: Choice) -> Iterator[str]:
    """Yield a warning if a program is not confined."""
    if choice.kind == "none":
        yield (
            "nothing confines it here: it can read and change everything that you can;"
            " `discovery doctor` shows how to get a sandbox"
        )
