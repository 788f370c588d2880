"""npm packages, looked up with the user's own npm: `npm search` and `npm view`.

Neither installs or runs a package. Registries without a search answer `npm search` with 404.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from discovery_engine._util.install_hints import INSTALL_HINTS
from discovery_engine._util.json import object_of, text_of
from discovery_engine.errors import PackageManagerError, PackageNotFoundError, ProgramMissingError
from discovery_engine.marketplace.package_managers.manager_command import (
    Environ,
    ManagerOutput,
    PackageProgram,
    PublishedPackage,
    find_program,
    reason_of,
    texts_of,
    unix_time,
    without_credentials,
)
from discovery_engine.marketplace.package_names import checked_name, checked_version

_NPM_TIMEOUT = 15.0  # seconds; `npm view` takes 0.5 s with a near registry
_WORDS = 12  # words of a query; with more, the registry finds nothing
_FIELDS = (
    *("name", "version", "description", "keywords", "homepage", "repository", "author"),
    *("maintainers", "deprecated", "bin", "dist", "versions", "time", "scripts"),
)
_OPTIONS = ("--json", "--no-update-notifier", "--fetch-retries=1", "--fetch-retry-mintimeout=500")
_INSTALL_SCRIPTS = ("preinstall", "install", "postinstall")


class NpmHit(Struct, frozen=True):
    """A result of `npm search`; whether it has a program is not known yet."""

    name: str
    description: str = ""
    keywords: tuple[str, ...] = ()


class Npm:
    """Looks up packages with the user's npm."""

    def __init__(self, environ: Environ, *, timeout: float = _NPM_TIMEOUT) -> None:
        self._environ = environ
        self._timeout = timeout

    async def search(self, text: str, *, limit: int) -> tuple[NpmHit, ...]:
        """Return packages that match `text`, which may have qualifiers such as `keywords:mcp`.

        Raises:
            PackageManagerError: If npm is missing or fails, or its registry has no search.
        """
        words = re.findall(r"(?:keywords:|scope:)?[\w@][\w.@/+-]*", text)[:_WORDS]
        if not words:
            return ()
        output = await self._run("search", f"--searchlimit={limit}", words)
        answer = _document(output)
        if output.exit_code:
            raise _search_failure(answer, output)
        listed = answer if isinstance(answer, list) else []
        return tuple(_hit(package) for package in listed[:limit] if _is_named(package))

    async def view(self, name: str, version: str = "") -> PublishedPackage:
        """Return one version of a package, by default the latest.

        Raises:
            InvalidPackageNameError: If the name or the version is invalid.
            PackageNotFoundError: If the registry has no such package or version.
            PackageManagerError: If npm is missing or fails.
        """
        checked_name("npm", name)
        spec = f"{name}@{checked_version('npm', version) if version else 'latest'}"
        output = await self._run("view", "", (spec, *_FIELDS))
        answer = _document(output)
        if output.exit_code:
            failure = _view_failure(name, version, answer, output)
            if version and isinstance(failure, PackageNotFoundError):
                await self.view(name)  # raises if the package is missing, not its version alone
            raise failure
        if not _is_named(answer) or answer["name"] != name:
            raise PackageManagerError(f"npm returned no document of {name!r}")
        return _package(answer)

    async def registry(self) -> str:
        """Return the URL of the registry in the user's settings; empty if npm does not print it."""
        program = npm_program(self._environ)
        output = await program.run("config", "get", "registry", timeout=self._timeout)
        return "" if output.exit_code else output.stdout.decode("utf-8", "replace").strip()

    async def _run(self, command: str, option: str, words: Sequence[str]) -> ManagerOutput:
        options = (*_OPTIONS, option) if option else _OPTIONS
        program = npm_program(self._environ)
        return await program.run(command, *options, "--", *words, timeout=self._timeout)


def npm_program(environ: Environ) -> PackageProgram:
    """Return the user's npm.

    Raises:
        ProgramMissingError: If it is not on the PATH.
    """
    path = find_program("npm", environ)
    if path is None:
        raise ProgramMissingError(
            "npm", purpose="to look up npm packages", hint=INSTALL_HINTS["npm"]
        )
    return PackageProgram("npm", (path,), environ)


def _document(output: ManagerOutput) -> Any:
    try:
        return json.loads(output.stdout or b"null")
    except (ValueError, RecursionError):
        if output.exit_code:
            return None
        raise PackageManagerError("npm returned what is not JSON") from None


def _search_failure(answer: Any, output: ManagerOutput) -> PackageManagerError:
    code, reason = _error(answer, output)
    if code in {"E404", "E405", "E501"}:
        return PackageManagerError(
            "the registry that npm uses has no search",
            hint="packages are found by their exact names",
        )
    return PackageManagerError(f"npm cannot search: {reason}", hint="try `npm search mcp`")


def _view_failure(
    name: str, version: str, answer: Any, output: ManagerOutput
) -> PackageManagerError | PackageNotFoundError:
    code, reason = _error(answer, output)
    if code != "E404":
        hint = f"try `npm view {name}`"
        return PackageManagerError(f"npm cannot look up {name!r}: {reason}", hint=hint)
    if version:
        return PackageNotFoundError(
            f"npm has no version {version} of {name!r}; it may have been withdrawn",
            hint=f"`npm view {name} versions` lists them",
        )
    return PackageNotFoundError(
        f"npm has no package {name!r}", hint="check the spelling in the server's own documentation"
    )


def _error(answer: Any, output: ManagerOutput) -> tuple[str, str]:
    """Return the code of npm's error, and its message."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return "", reason_of(output.stderr)
    code, summary = text_of(error.get("code")), text_of(error.get("summary"))
    return code, without_credentials(summary) or code or reason_of(output.stderr)


def _is_named(answer: Any) -> bool:
    return isinstance(answer, dict) and isinstance(answer.get("name"), str)


def _hit(row: Mapping[str, Any]) -> NpmHit:
    return NpmHit(row["name"], text_of(row.get("description")), texts_of(row.get("keywords")))


def _package(document: Mapping[str, Any]) -> PublishedPackage:
    dist, times = object_of(document.get("dist")), object_of(document.get("time"))
    scripts = object_of(document.get("scripts"))
    versions = texts_of(document.get("versions"))
    return PublishedPackage(
        name=document["name"],
        version=text_of(document.get("version")),
        description=text_of(document.get("description")),
        keywords=texts_of(document.get("keywords")),
        publisher=_person(document.get("author")) or _first_person(document.get("maintainers")),
        repository=_repository(document.get("repository")),
        homepage=text_of(document.get("homepage")),
        withdrawn=text_of(document.get("deprecated")),
        programs=_programs(document),
        integrity=text_of(dist.get("integrity")),
        has_install_scripts=any(name in scripts for name in _INSTALL_SCRIPTS),
        versions=versions[::-1],
        published={version: at for version in versions if (at := unix_time(times.get(version)))},
    )


def _programs(document: Mapping[str, Any]) -> dict[str, str]:
    programs = document.get("bin")
    if isinstance(programs, str):  # one program, which has the name of the package
        return {document["name"].rpartition("/")[2]: programs}
    return {name: file for name, file in object_of(programs).items() if isinstance(file, str)}


def _repository(value: Any) -> str:
    url = text_of(value) or text_of(object_of(value).get("url"))
    return url.removeprefix("git+").removesuffix(".git")


def _first_person(value: Any) -> str:
    return _person(value[0]) if isinstance(value, list) and value else _person(value)


def _person(value: Any) -> str:
    """Return a name: `npm` writes `Name <mail> (site)`, or an object of these parts."""
    if isinstance(value, dict):
        return text_of(value.get("name")) or text_of(value.get("username"))
    return re.split(r"\s*[<(]", text_of(value))[0]
