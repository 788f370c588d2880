"""Fetches what a server needs before its first start, by the user's own package managers.

Each step has a time limit, can be cancelled, and leaves nothing half done. The content is compared
with the pin before the server is entered.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio.to_thread

from discovery_engine._util.install_hints import INSTALL_HINTS
from discovery_engine.errors import InstallFailedError, PackageChangedError, ProgramMissingError
from discovery_engine.installer.archive import open_archive, unpack
from discovery_engine.installer.own_copies import filling, is_ready, make_folder, program_in
from discovery_engine.installer.packages import require_same
from discovery_engine.marketplace.package_managers.manager_command import (
    Environ,
    PackageProgram,
    find_program,
    reason_of,
)
from discovery_engine.marketplace.package_managers.package_names import normalized_name

if TYPE_CHECKING:
    from discovery_engine.installer.plan import InstallPlan
    from discovery_engine.marketplace.package_managers.manager_command import ManagerOutput
    from discovery_engine.registry.server_records import PackagePin

OnProgress: TypeAlias = Callable[[str], None]
"""Is called with what is being done, in a few words."""

_DOWNLOAD = 180.0  # seconds, for one package
_INSTALL = 600.0  # seconds, with all that it depends on; some download a browser
_LOOK_UP = 60.0
_OPTIONS = re.compile(r"^\[tool\.options\]\n.*?(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_LARGEST_LOCK = 64 * 1024 * 1024  # bytes
_NO_SPACE = ("enospc", "no space left on device", "os error 28")


class Preparation:
    """Prepares packages; it runs the package managers with the owner's whole environment."""

    def __init__(self, environ: Environ) -> None:
        self._environ = environ

    async def prepare(self, plan: InstallPlan, progress: OnProgress) -> None:
        """Fetch what the server of a plan needs; no-op for what needs nothing.

        Raises:
            InstallFailedError: If it cannot be fetched; nothing of it is left.
            PackageChangedError: If it is not what was pinned.
            ProgramMissingError: If a program is missing.
        """
        match plan.pin.registry_type, plan.pin.runtime:
            case "npm", _:
                await self._npm(plan.pin, plan.folder, progress)
            case "pypi", "venv":
                await self._environment(plan, plan.folder, progress)
            case "pypi", _:
                await self._tool(plan, plan.folder, progress)
            case "oci", _:
                await self._image(plan, progress)
            case "nuget", _:
                await anyio.to_thread.run_sync(make_folder, plan.folder)
            case "mcpb", _:
                await self._bundle(plan, plan.folder, progress)

    async def _npm(self, pin: PackagePin, folder: Path, progress: OnProgress) -> None:
        """A folder with the package and a lock file of all that it depends on."""
        package = f"{pin.identifier}@{pin.version}"
        if not await anyio.to_thread.run_sync(is_ready, folder):
            async with filling(folder):
                progress(f"downloading {package}")
                output = await self._run("npm", "cache", "add", "--", package, timeout=_DOWNLOAD)
                _require_success(output, package)
                progress(f"installing {package} with what it depends on")
                await self._npm_install(package, folder)
                found = await anyio.to_thread.run_sync(_npm_integrity, folder, pin.identifier)
                require_same(package, pin.integrity, found)
        found = await anyio.to_thread.run_sync(_npm_integrity, folder, pin.identifier)
        require_same(package, pin.integrity, found)

    async def _npm_install(self, package: str, folder: Path) -> None:
        output = await self._run(
            *("npm", "install", "--prefix", str(folder), "--save-exact", "--no-audit"),
            *("--no-fund", "--no-update-notifier", "--package-lock=true", "--global=false"),
            *("--omit=dev", "--loglevel=error", "--", package),
            timeout=_INSTALL,
        )
        _require_success(output, package)

    async def _tool(self, plan: InstallPlan, folder: Path, progress: OnProgress) -> None:
        """A tool of uv in a folder of its own, from which uvx takes it."""
        pin = plan.pin
        package = f"{pin.identifier}=={pin.version}"
        if await anyio.to_thread.run_sync(is_ready, folder):
            return
        async with filling(folder):
            progress(f"installing {package} with what it depends on")
            for path in plan.reads:
                await anyio.to_thread.run_sync(make_folder, path)
            places = {"UV_TOOL_DIR": str(folder), "UV_TOOL_BIN_DIR": str(folder / "bin")}
            options = _python_options(plan.argv)
            output = await self._run(
                *("uv", "tool", "install", "--quiet", *options, "--", package),
                timeout=_INSTALL,
                more=places,
            )
            _require_success(output, package)
            if pin.integrity:
                python = program_in(folder / normalized_name(pin.identifier), "python")
                await self._install_checked(pin, python, folder)
            await anyio.to_thread.run_sync(_forget_settings, folder)
            await self._require_startable(plan, folder)

    async def _install_checked(self, pin: PackagePin, python: Path, folder: Path) -> None:
        """Install the package alone once more: this way uv compares it with its hash."""
        wanted = await _requirements(pin, folder)
        output = await self._run(
            *("uv", "pip", "install", "--quiet", "--python", str(python), "--no-deps"),
            *("--reinstall", "--require-hashes", "--requirements", str(wanted)),
            timeout=_DOWNLOAD,
        )
        _require_hash(output, pin)

    async def _require_startable(self, plan: InstallPlan, folder: Path) -> None:
        """Check that uvx takes the tool from there, as it will be started: without a network."""
        prefix = () if plan.argv[0] == "uvx" else ("tool", "run")
        package = f"{plan.pin.identifier}=={plan.pin.version}"
        own = {"UV_TOOL_DIR": str(folder), "UV_NO_CONFIG": "1", "UV_OFFLINE": "1"}
        environ = {k: v for k, v in self._environ.items() if not k.startswith("UV_")} | own
        path = find_program(plan.argv[0], self._environ)
        program = PackageProgram(plan.argv[0], (str(path), *prefix), environ)
        output = await program.run(
            *_python_options(plan.argv), "--from", package, "python", "--version", timeout=_LOOK_UP
        )
        if output.exit_code:
            raise InstallFailedError(
                f"uv does not start {package} from its copy: {reason_of(output.stderr)}",
                hint="update uv, then repeat the command",
            )

    async def _environment(self, plan: InstallPlan, folder: Path, progress: OnProgress) -> None:
        """An environment of our own, where uvx cannot start the server."""
        pin, program = plan.pin, Path(plan.argv[0])
        package = f"{pin.identifier}=={pin.version}"
        if await anyio.to_thread.run_sync(is_ready, folder):
            return
        async with filling(folder):
            progress(f"making an environment for {package}")
            install = await self._installer_of(folder)
            progress(f"installing {package} with what it depends on")
            if pin.integrity:
                wanted = await _requirements(pin, folder)
                words = ("--no-deps", "--require-hashes", "-r", str(wanted))
                _require_hash(await install.run(*words, timeout=_DOWNLOAD), pin)
            _require_success(await install.run("--", package, timeout=_INSTALL), package)
            if not await anyio.to_thread.run_sync(program.exists):
                raise InstallFailedError(f"{package} has no program {program.name!r}")

    async def _installer_of(self, folder: Path) -> PackageProgram:
        """Make an environment; returns what installs packages into it."""
        if uv := find_program("uv", self._environ):
            output = await self._run("uv", "venv", "--quiet", str(folder), timeout=_DOWNLOAD)
            _require_success(output, "its environment")
            python = str(program_in(folder, "python"))
            words = (uv, "pip", "install", "--quiet", "--python", python)
            return PackageProgram("uv", words, self._environ)
        await anyio.to_thread.run_sync(_make_environment, folder)
        command = (str(program_in(folder, "python")), "-P", "-m", "pip", "install", "-q")
        options = ("--disable-pip-version-check", "--no-input")
        return PackageProgram("pip", (*command, *options), self._environ)

    async def _image(self, plan: InstallPlan, progress: OnProgress) -> None:
        image = f"{plan.pin.identifier}@{plan.pin.integrity}"
        progress(f"pulling {image}")
        output = await self._run("docker", "pull", "--quiet", image, timeout=_INSTALL)
        _require_success(output, image)

    async def _bundle(self, plan: InstallPlan, folder: Path, progress: OnProgress) -> None:
        if plan.archive is None or await anyio.to_thread.run_sync(is_ready, folder):
            return
        async with filling(folder):
            progress(f"unpacking {plan.pin}")
            await anyio.to_thread.run_sync(_unpack, plan.archive, folder, plan.pin)

    async def _run(
        self,
        name: str,
        *arguments: str,
        timeout: float,  # noqa: ASYNC109 - of the program
        more: Environ | None = None,
    ) -> ManagerOutput:
        path = find_program(name, self._environ)
        if path is None:
            hint = INSTALL_HINTS.get(name, "")
            raise ProgramMissingError(name, purpose="to install the server", hint=hint)
        program = PackageProgram(name, (path,), {**self._environ, **(more or {})})
        return await program.run(*arguments, timeout=timeout)


def _npm_integrity(folder: Path, package: str) -> str:
    """The hash of a package that npm has installed in a folder; empty if it is not there.

    npm checks what it unpacks against this hash, and keeps it in the lock file of the folder.
    """
    try:
        with (folder / "package-lock.json").open("rb") as file:
            lock = json.loads(file.read(_LARGEST_LOCK))
        found = lock["packages"][f"node_modules/{package}"]["integrity"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) else ""


async def _requirements(pin: PackagePin, folder: Path) -> Path:
    """A file that names the package with its hash, as pip and uv read it."""
    path = folder / "requirements.txt"
    text = f"{pin.identifier}=={pin.version} --hash={pin.integrity}\n"
    await anyio.to_thread.run_sync(path.write_text, text)
    return path


def _forget_settings(folder: Path) -> None:
    """Delete the settings from the receipts of tools: uvx takes a tool only with the same ones.

    A server that is started has neither the variables nor the files with the settings of uv.
    """
    for receipt in folder.glob("*/uv-receipt.toml"):
        text = receipt.read_text("utf-8")
        receipt.write_text(_OPTIONS.sub("", text), "utf-8")


def _unpack(archive: Path, folder: Path, pin: PackagePin) -> None:
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    require_same(str(pin), pin.integrity, f"sha256:{digest}")
    with open_archive(archive) as opened:
        unpack(opened, folder)


def _make_environment(folder: Path) -> None:
    import venv  # noqa: PLC0415 - only where there is no uv

    venv.create(folder, with_pip=True)


def _python_options(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The Python that the server is started with, so that the very environment is made."""
    if "--python" not in argv:
        return ()
    at = argv.index("--python")
    return argv[at : at + 2]


def _require_hash(output: ManagerOutput, pin: PackagePin) -> None:
    """Check that an installer has found the wheel that was pinned.

    Raises:
        PackageChangedError: If it says that the wheel has another hash.
        InstallFailedError: If it failed for another reason.
    """
    written = output.stderr.lower()
    if (
        output.exit_code
        and "hash" in written
        and ("mismatch" in written or "do not match" in written)
    ):
        digests = [word for word in written.replace(":", " ").split() if len(word) == _SHA256]
        others = [one for one in digests if f"sha256:{one}" != pin.integrity]
        raise PackageChangedError(str(pin), pin.integrity, f"sha256:{(others or ['unknown'])[-1]}")
    _require_success(output, str(pin))


_SHA256 = 64  # digits


def _require_success(output: ManagerOutput, package: str) -> None:
    if not output.exit_code:
        return
    if any(sign in output.stderr.lower() for sign in _NO_SPACE):
        raise InstallFailedError(
            f"{package} cannot be installed: there is no space left on the disk",
            hint="free some, then repeat the command",
        )
    raise InstallFailedError(
        f"{package} cannot be installed: {reason_of(output.stderr)}",
        hint="check the network and the settings of the package manager, then repeat the command",
    )
