"""A bundle as a package: downloaded, checked, and started from where it will be unpacked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from discovery_engine.errors import InstallRefusedError
from discovery_engine.installer.bundle import read_bundle
from discovery_engine.installer.download import BundleDownloads
from discovery_engine.installer.environment import environment
from discovery_engine.installer.offered_arguments import server_arguments
from discovery_engine.installer.packages import Command, ResolvedPackage
from discovery_engine.marketplace.package_managers.package_names import checked_name
from discovery_engine.registry.server_records import PackagePin

if TYPE_CHECKING:
    from discovery_engine.installer.input_values import InputValues
    from discovery_engine.marketplace.entry import PackageOffer

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
