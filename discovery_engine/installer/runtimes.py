"""The programs with which packages are started: a fixed table, by the type of the package alone.

    npm      npx -y NAME@VERSION ...        or  npx -y --package=NAME@VERSION -- PROGRAM ...
    pypi     uvx NAME==VERSION ...          or  uvx --from NAME==VERSION PROGRAM ...
    oci      docker run -i --rm -e VARIABLE IMAGE@DIGEST ...
    nuget    dnx NAME@VERSION --yes -- ...

A package is always named with one exact version. What follows it is handed to the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from discovery_engine.marketplace.package_managers.package_names import normalized_name

_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
"""One that cannot be taken for an option or a path: its package chose it."""


def npx(
    name: str, version: str, *, usual: str, programs: Sequence[str], wanted: str
) -> tuple[str, ...] | None:
    """The arguments of npx before those of the server; None without a program to start.

    Args:
        name: Of the package.
        version: One exact version.
        usual: The program that npx takes by itself; empty if it takes none.
        programs: All that the package has.
        wanted: Which of them; empty for the usual one.
    """
    if wanted in ("", usual):
        return ("-y", f"{name}@{version}") if usual else None
    if wanted not in programs:
        return None
    return ("-y", f"--package={name}@{version}", "--", wanted)


def uvx(name: str, version: str, *, program: str, options: Sequence[str]) -> tuple[str, ...]:
    """The arguments of uvx before those of the server, for one of the programs of a package."""
    package = f"{name}=={version}"
    if program == name:
        return (*options, package)
    return (*options, "--from", package, program)


def python_program(name: str, executables: Iterable[str], wanted: str) -> str | None:
    """Which program of a Python package is meant; None if that cannot be said."""
    known = tuple(one for one in executables if _PROGRAM.fullmatch(one))
    usual = normalized_name(name)
    if wanted:
        return wanted if wanted in known else None
    if usual in known:
        return usual
    return known[0] if len(known) == 1 else None


def docker(image: str, *, variables: Iterable[str], options: Sequence[str]) -> tuple[str, ...]:
    """The arguments of docker before those of the server; values are in its environment."""
    passed = [word for name in variables for word in ("-e", name)]
    return ("run", "-i", "--rm", *passed, *options, image)


def dnx(name: str, version: str, *, arguments: Iterable[str]) -> tuple[str, ...]:
    words = tuple(arguments)
    return (f"{name}@{version}", "--yes", *(("--", *words) if words else ()))
