"""Resolves packages to commands that npx, uvx, docker or dnx start, pinned to one version.

    npm      npx -y NAME@VERSION ...        or  npx -y --package=NAME@VERSION -- PROGRAM ...
    pypi     uvx NAME==VERSION ...          or  uvx --from NAME==VERSION PROGRAM ...
    oci      docker run -i --rm -e VARIABLE IMAGE@DIGEST ...
    nuget    dnx NAME@VERSION --yes -- ...

The type of a package determines the program; the arguments after the package belong to the server.
Versions and hashes come from the user's own package managers, which also cache the downloads.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio.to_thread
from msgspec import Struct
from packaging.utils import canonicalize_name

from discovery_engine._util.install_hints import INSTALL_HINTS
from discovery_engine._util.text import one_line, quoted
from discovery_engine.errors import (
    InstallFailedError,
    InstallRefusedError,
    PackageChangedError,
    PackageManagerError,
    ProgramMissingError,
)
from discovery_engine.marketplace.package_managers.manager_command import (
    Environ,
    ManagerOutput,
    PackageProgram,
    find_program,
    reason_of,
)
from discovery_engine.marketplace.package_managers.npm import Npm
from discovery_engine.marketplace.package_managers.python_packages import PythonPackages, needed_uv
from discovery_engine.marketplace.package_names import checked_name, checked_version
from discovery_engine.marketplace.server_json import is_usual_registry
from discovery_engine.store.server_records import PackagePin

if TYPE_CHECKING:
    from discovery_engine.marketplace.entry import PackageOffer
    from discovery_engine.marketplace.installer.offered_inputs import RuntimeOptions

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
"""Matches names of programs, which packages choose, that look like no option or path."""
_REGISTRY = "npm_config_registry"
_LOOK_UP = 30.0  # seconds; an image may take two look-ups
_PULL = 600.0  # seconds
_NO_SPACE = ("no space left on device", "enospc", "os error 28")


class ResolvedPackage(Struct, frozen=True):
    """One version of a package with the command that starts it."""

    pin: PackagePin
    command: tuple[str, ...]
    """The program and its arguments, including those of the server."""
    warnings: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    """Environment variables that it needs besides those of its entry."""
    folders: tuple[Path, ...] = ()
    """The folder of an unpacked bundle."""
    reads: tuple[Path, ...] = ()
    """The paths that the runtime must be able to read."""
    archive: Path | None = None
    """The file of a downloaded bundle; None for other packages."""
    has_own_folder: bool = False
    """True if the runtime reads settings from its working directory, so it needs an own one."""


class PackageResolver:
    """Resolves packages with npm, pip, uv and docker."""

    def __init__(self, environ: Environ) -> None:
        self._environ = environ
        self._npm = Npm(environ)
        self._python = PythonPackages(environ)

    async def resolve(
        self,
        offer: PackageOffer,
        options: RuntimeOptions,
        *,
        version: str,
        arguments: Sequence[str],
        variables: Sequence[str],
    ) -> ResolvedPackage:
        """Resolve the package of an offer.

        Args:
            offer: The offer of an entry.
            options: The options for the runtime that are used.
            version: The version to resolve; empty for that of the offer, or without one the newest.
            arguments: The arguments of the server.
            variables: The names of the environment variables to pass to a container.

        Raises:
            InvalidPackageNameError: If the name or the version is malformed.
            InstallRefusedError: If it cannot be pinned, or has no program to start.
            PackageChangedError: If its hash differs from that of the offer.
            NotFoundError: If there is no such package or version.
            PackageManagerError: If the package manager is missing or fails.
        """
        kind = offer.registry_type
        checked_name(kind, offer.identifier)
        exact = version or offer.version
        if exact:
            checked_version(kind, exact)
        match kind:
            case "npm":
                package = await self._npm_package(offer.identifier, exact, options, arguments)
            case "pypi":
                package = await self._python_package(offer.identifier, exact, options, arguments)
            case "oci":
                package = await self._image(offer, exact, options, arguments, variables)
            case _:
                package = _nuget(offer.identifier, exact, arguments)
        is_same = not version or version == offer.version
        if is_same and offer.integrity and package.pin.integrity:
            require_same(str(package.pin), offer.integrity, package.pin.integrity)
        return package

    async def require_unchanged(self, pin: PackagePin) -> None:
        """Compare the hash of a pinned npm or Python package with its current one.

        Other types need no check here: an image is addressed by its digest, and a bundle is
        verified when it is unpacked.

        Raises:
            PackageChangedError: If the hash differs.
            NotFoundError: If the version no longer exists.
            PackageManagerError: If the package manager is missing or fails.
        """
        if not pin.integrity or pin.registry_type not in ("npm", "pypi"):
            return
        manager = self._npm if pin.registry_type == "npm" else self._python
        package = await manager.view(pin.identifier, pin.version)
        require_same(str(pin), pin.integrity, package.integrity)

    async def pull(self, pin: PackagePin) -> None:
        """Pull a pinned image with docker.

        Raises:
            InstallFailedError: If docker cannot pull it.
            ProgramMissingError: If docker is missing.
        """
        image = f"{pin.identifier}@{pin.integrity}"
        output = await self._docker("to fetch an image", "pull", "--quiet", image, timeout=_PULL)
        if not output.exit_code:
            return
        if any(sign in output.stderr.lower() for sign in _NO_SPACE):
            reason = "there is no space left on the disk"
            raise InstallFailedError(f"{image} cannot be fetched: {reason}", hint="free some")
        raise InstallFailedError(
            f"{image} cannot be fetched: {reason_of(output.stderr)}",
            hint="check the network and `docker login`, then repeat the command",
        )

    async def _npm_package(
        self, name: str, version: str, options: RuntimeOptions, arguments: Sequence[str]
    ) -> ResolvedPackage:
        package = await self._npm.view(name, version)
        exact = f"{package.name}@{package.version}"
        if options.executable in ("", package.program) and package.program:
            words: tuple[str, ...] = ("npx", "-y", exact)
        elif options.executable and options.executable in package.programs:
            words = ("npx", "-y", f"--package={exact}", "--", options.executable)
        else:
            raise _no_program(exact, tuple(package.programs), options.executable)
        warnings = []
        if package.withdrawn:
            text = quoted(package.withdrawn)
            warnings.append(f"version {package.version} is deprecated: {text}")
        if package.has_install_scripts:
            warnings.append("its first start runs scripts of its publisher, in its sandbox")
        if not package.integrity:
            warnings.append("its registry gives no hash: a change of this version goes unnoticed")
        pin = PackagePin("npm", package.name, package.version, package.integrity, "npx")
        return ResolvedPackage(
            pin,
            (*words, *arguments),
            tuple(warnings),
            environment=await self._registry(),
            has_own_folder=True,
        )

    async def _registry(self) -> dict[str, str]:
        """Return the environment variable with the npm registry of the user's settings.

        A sandbox hides the file with these settings. The mapping is empty for the default registry,
        for a URL with credentials, and if the environment sets the variable already.
        """
        if any(name.lower() == _REGISTRY for name in self._environ):
            return {}
        address = await self._npm.registry()
        parts = urlsplit(address)
        is_usable = parts.scheme in ("https", "http") and "@" not in parts.netloc
        is_other = is_usable and not is_usual_registry(address.rstrip("/"))
        return {_REGISTRY: address} if is_other else {}

    async def _python_package(
        self, name: str, version: str, options: RuntimeOptions, arguments: Sequence[str]
    ) -> ResolvedPackage:
        uvx = ("uvx",) if find_program("uvx", self._environ) else ("uv", "tool", "run")
        needed_uv(self._environ)
        package = await self._python.view(name, version)
        version = package.version
        warnings = []
        try:
            programs = await self._python.programs(name, version)
        except ProgramMissingError:  # uv without pip does not list programs
            programs = (options.executable or canonicalize_name(name),)
            warnings.append(f"without pip, its program is taken to be {programs[0]}")
        program = _python_program(name, programs, options.executable)
        if program is None:
            raise _no_program(f"{name} {version}", programs, options.executable)
        if package.withdrawn:
            warnings.append(f"version {version} was withdrawn: {quoted(package.withdrawn)}")
        if not package.integrity:
            warnings.append("its index gives no hash: a change of this version goes unnoticed")
        exact = f"{name}=={version}"
        words = (exact,) if program == name else ("--from", exact, program)
        return ResolvedPackage(
            PackagePin("pypi", name, version, package.integrity, uvx[0]),
            (*uvx, *options.options, *words, *arguments),
            tuple(warnings),
            reads=await self._pythons(options),
            has_own_folder=True,
        )

    async def _pythons(self, options: RuntimeOptions) -> tuple[Path, ...]:
        """Return the prefix of the Python that uv would use; empty if uv has to download one."""
        request = options.options[1:]  # the value after `--python`
        output = await needed_uv(self._environ).run(
            "python", "find", "--no-project", "--system", *request, timeout=_LOOK_UP
        )
        if output.exit_code:
            return ()
        python = Path(os.fsdecode(output.stdout).strip())
        resolved = await anyio.to_thread.run_sync(python.resolve)
        return (resolved.parent.parent,)

    async def _image(
        self,
        offer: PackageOffer,
        version: str,
        options: RuntimeOptions,
        arguments: Sequence[str],
        variables: Sequence[str],
    ) -> ResolvedPackage:
        digest = version if _DIGEST.fullmatch(version) else offer.integrity
        if version != offer.version and not _DIGEST.fullmatch(version):
            digest = ""
        if not _DIGEST.fullmatch(digest):
            digest = await self._digest(f"{offer.identifier}:{version or 'latest'}")
        passed = [word for name in variables for word in ("-e", name)]
        image = f"{offer.identifier}@{digest}"
        words = ("docker", "run", "-i", "--rm", *passed, *options.options, image, *arguments)
        pin = PackagePin("oci", offer.identifier, version or digest, digest, "docker")
        return ResolvedPackage(pin, words)

    async def _digest(self, image: str) -> str:
        """Return the digest of an image without pulling it.

        Raises:
            InstallRefusedError: If docker does not know it.
        """
        for words in (
            ("buildx", "imagetools", "inspect", "--format", "{{json .Manifest.Digest}}", image),
            ("manifest", "inspect", "--verbose", image),
        ):
            with suppress(PackageManagerError):  # the second command may succeed
                purpose = "to find out the digest of an image"
                output = await self._docker(purpose, *words, timeout=_LOOK_UP)
                if not output.exit_code and (digest := _digest_in(output.stdout)):
                    return digest
        raise InstallRefusedError(
            f"the image {quoted(image)} cannot be pinned: docker does not know its digest",
            hint="check its name, and `docker login` for a private registry",
        )

    async def _docker(self, purpose: str, *words: str, timeout: float) -> ManagerOutput:  # noqa: ASYNC109 - of the program
        path = find_program("docker", self._environ)
        if path is None:
            raise ProgramMissingError("docker", purpose=purpose, hint=INSTALL_HINTS["docker"])
        return await PackageProgram("docker", (path,), self._environ).run(*words, timeout=timeout)


def require_same(package: str, pinned: str, digest: str) -> None:
    """Compare two hashes of one version; a missing one, or another algorithm, is accepted.

    Raises:
        PackageChangedError: If both use the same algorithm and differ.
    """
    if pinned == digest or not (pinned and digest):
        return
    kinds = {text.partition(":")[0].partition("-")[0] for text in (pinned, digest)}
    if len(kinds) == 1:  # `sha512-…` and `sha1-…` cannot be compared
        raise PackageChangedError(package, pinned, digest)


def _nuget(name: str, version: str, arguments: Sequence[str]) -> ResolvedPackage:
    if not version:
        raise InstallRefusedError(
            f"the entry gives no version of {name}", hint="give one: --version V"
        )
    words = ("dnx", f"{name}@{version}", "--yes", *(("--", *arguments) if arguments else ()))
    note = "dnx gives no hash: a change of this version goes unnoticed"
    return ResolvedPackage(
        PackagePin("nuget", name, version, "", "dnx"), words, (note,), has_own_folder=True
    )


def _python_program(name: str, programs: Sequence[str], wanted: str) -> str | None:
    """Return the program of a Python package to start; None if the choice is ambiguous.

    It is `wanted` if given, else the one named like the package, else the only one.
    """
    usable = tuple(program for program in programs if _PROGRAM.fullmatch(program))
    if wanted:
        return wanted if wanted in usable else None
    usual = canonicalize_name(name)
    if usual in usable:
        return usual
    return usable[0] if len(usable) == 1 else None


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
    """Return the digest in the output of docker; empty for a list of several manifests."""
    try:
        document = json.loads(output)
    except ValueError:
        return ""
    if isinstance(document, Mapping):
        document = document.get("Descriptor", {}).get("digest", "")
    return document if isinstance(document, str) and _DIGEST.fullmatch(document) else ""
