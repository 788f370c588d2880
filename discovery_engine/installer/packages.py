"""A package resolved by the user's own package managers: version, content and program.

Nothing of a package is run. What cannot be pinned to one content is refused, or said.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct

from discovery_engine._util.install_hints import INSTALL_HINTS
from discovery_engine._util.text import one_line, quoted
from discovery_engine.errors import (
    InstallRefusedError,
    PackageChangedError,
    PackageManagerError,
    ProgramMissingError,
)
from discovery_engine.installer import runtimes
from discovery_engine.installer.own_copies import npm_folder, program_in, python_folder
from discovery_engine.marketplace.package_managers.manager_command import (
    Environ,
    PackageProgram,
    find_program,
)
from discovery_engine.marketplace.package_managers.npm import Npm
from discovery_engine.marketplace.package_managers.package_names import (
    checked_name,
    checked_version,
    normalized_name,
)
from discovery_engine.marketplace.package_managers.python_packages import (
    PythonPackages,
    needed_uv,
)
from discovery_engine.registry.server_records import PackagePin

if TYPE_CHECKING:
    from discovery_engine.installer.offered_arguments import RuntimeOptions
    from discovery_engine.marketplace.entry import PackageOffer

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LOOK_UP = 30.0  # seconds; a registry of images is asked twice


class Command(Struct, frozen=True):
    """A program with its arguments."""

    program: str
    arguments: tuple[str, ...]


class ResolvedPackage(Struct, frozen=True):
    """One version of a package, and how it is started."""

    pin: PackagePin
    command: Callable[[Sequence[str], Sequence[str]], Command]
    """From the arguments of the server and the names of its variables."""
    warnings: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    """Variables that it needs besides those of its entry."""
    folders: tuple[Path, ...] = ()
    """Those of its own that it is started from."""
    reads: tuple[Path, ...] = ()
    """Others that it cannot start without."""
    writes: tuple[Path, ...] = ()
    """Files that its runtime has to write."""
    archive: Path | None = None
    """A downloaded bundle."""
    cwd: Path | None = None
    """Where it is started, if that matters."""


class PackageResolver:
    """Asks npm, pip, uv and docker; `data` is the data folder."""

    def __init__(self, environ: Environ, data: Path) -> None:
        self._environ = environ
        self._data = data
        self._npm = Npm(environ)
        self._python = PythonPackages(environ)

    async def resolve(
        self, offer: PackageOffer, options: RuntimeOptions, *, version: str = "", server: str
    ) -> ResolvedPackage:
        """The package of an offer, in a given version or in that of the offer.

        Raises:
            InstallRefusedError: If it cannot be pinned, or has no program that could be started.
            PackageChangedError: If its content is not what the entry says.
            NotFoundError: If there is no such package or version.
            PackageManagerError: If the package manager is missing or fails.
        """
        checked_name(offer.registry_type, offer.identifier)
        if version or offer.version:
            checked_version(offer.registry_type, version or offer.version)
        resolve = {
            "npm": self._resolve_npm,
            "pypi": self._resolve_python,
            "oci": self._resolve_image,
            "nuget": self._resolve_nuget,
        }[offer.registry_type]
        found = await resolve(offer, options, version or offer.version, server)
        is_same = not version or version == offer.version
        if is_same and offer.integrity and found.pin.integrity:
            require_same(str(found.pin), offer.integrity, found.pin.integrity)
        return found

    async def integrity(self, pin: PackagePin) -> str:
        """What the package manager says now of a pinned version; empty if it cannot say it.

        Raises:
            NotFoundError: If the version is not there any more.
            PackageManagerError: If the package manager is missing or fails.
        """
        match pin.registry_type:
            case "npm":
                return (await self._npm.view(pin.identifier, pin.version)).integrity
            case "pypi":
                return (await self._python.view(pin.identifier, pin.version)).integrity
        return pin.integrity  # an image is named by it, and a bundle is kept here

    async def _resolve_npm(
        self, offer: PackageOffer, options: RuntimeOptions, version: str, server: str
    ) -> ResolvedPackage:
        package = await self._npm.view(offer.identifier, version)
        name, version = package.name, package.version
        programs = tuple(package.programs)
        usual = package.program
        if (
            runtimes.npx(name, version, usual=usual, programs=programs, wanted=options.executable)
            is None
        ):
            raise _no_program(f"{name}@{version}", programs, options.executable)
        warnings = []
        if package.deprecated:
            warnings.append(f"version {version} is deprecated: {quoted(package.deprecated)}")
        if package.has_install_scripts:
            warnings.append("its installation runs scripts of its publisher")
        if not package.integrity:
            warnings.append("its registry gives no hash: a change of this version goes unnoticed")

        def command(arguments: Sequence[str], _: Sequence[str]) -> Command:
            words = runtimes.npx(
                name, version, usual=usual, programs=programs, wanted=options.executable
            )
            return Command("npx", (*(words or ()), *arguments))

        pin = PackagePin("npm", name, version, package.integrity, "npx")
        folder = npm_folder(self._data, server, version)
        return ResolvedPackage(pin, command, tuple(warnings), folders=(folder,), cwd=folder)

    async def _resolve_python(
        self, offer: PackageOffer, options: RuntimeOptions, version: str, server: str
    ) -> ResolvedPackage:
        package = await self._python.view(offer.identifier, version)
        name, version = offer.identifier, package.version
        warnings = []
        try:
            programs = await self._python.programs(name, version)
        except ProgramMissingError:  # uv alone does not show them
            programs = (options.executable or normalized_name(name),)
            warnings.append(f"without pip, its program is taken to be {programs[0]}")
        program = runtimes.python_program(name, programs, options.executable)
        if program is None:
            raise _no_program(f"{name} {version}", programs, options.executable)
        if package.yanked:
            warnings.append(f"version {version} was withdrawn: {quoted(package.yanked)}")
        if not package.integrity:
            warnings.append("its index gives no hash: a change of this version goes unnoticed")
        runtime = self._python_runtime()
        folder = python_folder(self._data, server, version)

        def command(arguments: Sequence[str], _: Sequence[str]) -> Command:
            if runtime == "venv":
                return Command(str(program_in(folder, program)), tuple(arguments))
            words = runtimes.uvx(name, version, program=program, options=options.options)
            prefix = () if runtime == "uvx" else ("tool", "run")
            return Command(runtime, (*prefix, *words, *arguments))

        pin = PackagePin("pypi", name, version, package.integrity, runtime)
        if runtime == "venv":
            return ResolvedPackage(pin, command, tuple(warnings), folders=(folder,))
        return ResolvedPackage(
            pin,
            command,
            tuple(warnings),
            # Settings of uv would make it look for the tool elsewhere.
            environment={"UV_TOOL_DIR": str(folder), "UV_NO_CONFIG": "1"},
            folders=(folder,),
            cwd=folder,
            reads=await self._pythons(options),
            writes=(folder / ".lock",),
        )

    def _python_runtime(self) -> str:
        """`uvx`, `uv`, or `venv` for an environment of our own."""
        return next((p for p in ("uvx", "uv") if find_program(p, self._environ)), "venv")

    async def _pythons(self, options: RuntimeOptions) -> tuple[Path, ...]:
        """Where the Python is that uv takes for a tool, or where it puts one that is missing."""
        wanted = options.options[1:]  # behind `--python`
        uv = needed_uv(self._environ)
        output = await uv.run(
            "python", "find", "--no-project", "--system", *wanted, timeout=_LOOK_UP
        )
        if not output.exit_code:
            python = Path(os.fsdecode(output.stdout).strip())
            return (await anyio.to_thread.run_sync(_prefix_of, python),)
        output = await uv.run("python", "dir", timeout=_LOOK_UP)
        return (Path(os.fsdecode(output.stdout).strip()),)

    async def _resolve_image(
        self, offer: PackageOffer, options: RuntimeOptions, version: str, _: str
    ) -> ResolvedPackage:
        digest = version if _DIGEST.fullmatch(version) else offer.integrity
        if version and version != offer.version and not _DIGEST.fullmatch(version):
            digest = ""
        if not _DIGEST.fullmatch(digest):
            digest = await self._digest(f"{offer.identifier}:{version or 'latest'}")
        image = f"{offer.identifier}@{digest}"

        def command(arguments: Sequence[str], variables: Sequence[str]) -> Command:
            words = runtimes.docker(image, variables=variables, options=options.options)
            return Command("docker", (*words, *arguments))

        pin = PackagePin("oci", offer.identifier, version or digest, digest, "docker")
        return ResolvedPackage(pin, command)

    async def _resolve_nuget(
        self, offer: PackageOffer, _: RuntimeOptions, version: str, server: str
    ) -> ResolvedPackage:
        if not version:
            raise InstallRefusedError(
                f"the entry gives no version of {offer.identifier}", hint="give one: --version V"
            )

        def command(arguments: Sequence[str], _: Sequence[str]) -> Command:
            return Command("dnx", runtimes.dnx(offer.identifier, version, arguments=arguments))

        pin = PackagePin("nuget", offer.identifier, version, "", "dnx")
        note = "dnx gives no hash: a change of this version goes unnoticed"
        folder = self._data / "packages" / "nuget" / server
        return ResolvedPackage(pin, command, (note,), folders=(folder,), cwd=folder)

    async def _digest(self, image: str) -> str:
        """The digest of an image, without pulling it."""
        path = find_program("docker", self._environ)
        if path is None:
            purpose = "to find out the digest of an image"
            raise ProgramMissingError("docker", purpose=purpose, hint=INSTALL_HINTS["docker"])
        docker = PackageProgram("docker", (path,), self._environ)
        for words in (
            ("buildx", "imagetools", "inspect", "--format", "{{json .Manifest.Digest}}", image),
            ("manifest", "inspect", "--verbose", image),
        ):
            with suppress(PackageManagerError):  # the next one may know it
                output = await docker.run(*words, timeout=_LOOK_UP)
                if not output.exit_code and (found := _digest_in(output.stdout)):
                    return found
        raise InstallRefusedError(
            f"the image {quoted(image)} cannot be pinned: docker does not know its digest",
            hint="check its name, and `docker login` for a private registry",
        )


def _prefix_of(python: Path) -> Path:
    """The folder with the programs and the modules of an interpreter."""
    return python.resolve().parent.parent


def require_same(package: str, pinned: str, found: str) -> None:
    """Compare two hashes of one version.

    Raises:
        PackageChangedError: If they are of one kind and differ.
    """
    if pinned == found or not (pinned and found):
        return
    kinds = {text.partition(":")[0].partition("-")[0] for text in (pinned, found)}
    if len(kinds) == 1:  # `sha512-…` says nothing about `sha1-…`
        raise PackageChangedError(package, pinned, found)


def _no_program(package: str, programs: Sequence[str], wanted: str) -> InstallRefusedError:
    if not programs:
        return InstallRefusedError(f"{package} has no program that could be started")
    names = ", ".join(quoted(one_line(program)) for program in programs)
    if wanted:
        return InstallRefusedError(f"{package} has no program {quoted(wanted)}; it has {names}")
    return InstallRefusedError(
        f"{package} has several programs, and the entry does not say which is the server: {names}",
        hint="write an entry by hand: `discovery add`",
    )


def _digest_in(output: bytes) -> str:
    """The digest in what docker wrote; of several manifests, none is the image's own."""
    try:
        document = json.loads(output)
    except ValueError:
        return ""
    if isinstance(document, Mapping):
        document = document.get("Descriptor", {}).get("digest", "")
    return document if isinstance(document, str) and _DIGEST.fullmatch(document) else ""
