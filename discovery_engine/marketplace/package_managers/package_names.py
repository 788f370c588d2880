"""The names and versions of packages, checked before they become arguments of a program.

    checked_name("npm", "@scope/server")     "@scope/server"
    checked_name("npm", "--eval")            InvalidPackageNameError
    checked_version("pypi", "1.2.0")         "1.2.0"

`marketplace.identifiers` has the grammars; here are the errors for the person who typed a name.
"""

from __future__ import annotations

import re
import unicodedata

from discovery_engine._util.text import visible
from discovery_engine.errors import InvalidPackageNameError
from discovery_engine.marketplace.entry import RegistryType
from discovery_engine.marketplace.identifiers import identifier_problem, version_problem

_SHOWN = 80  # characters of a refused name in a message
_WHAT = {
    "npm": "name of an npm package",
    "pypi": "name of a Python package",
    "oci": "name of an image",
    "nuget": "name of a NuGet package",
    "mcpb": "address of a bundle",
}
_ALLOWED = {
    "npm": "lower-case letters, digits, '.', '_' and '-', and may have a scope: @scope/name",
    "pypi": "letters, digits, '.', '_' and '-', and begins and ends with a letter or a digit",
    "oci": "lower-case letters, digits, '.', '_', '-' and '/', without a tag: ghcr.io/owner/name",
    "nuget": "letters, digits, '.', '_' and '-'",
    "mcpb": "https:// in front",
}


def checked_name(registry_type: RegistryType, name: str) -> str:
    """`name`, if a package of that registry can have it.

    Raises:
        InvalidPackageNameError: If it cannot; the message shows hidden and foreign letters.
    """
    if problem := identifier_problem(registry_type, name):
        hint = f"it has {_ALLOWED[registry_type]}"
        raise _refusal(f"{_short(name)!r} is no {_WHAT[registry_type]}", name, problem, hint)
    return name


def checked_version(registry_type: RegistryType, version: str) -> str:
    """`version`, if it is one exact version: no range, tag, URL or alias.

    Raises:
        InvalidPackageNameError: If it is not.
    """
    if problem := version_problem(registry_type, version) if version else "it is empty":
        hint = "give one version as the registry lists it, such as 1.2.0"
        raise _refusal(f"{_short(version)!r} is no exact version", version, problem, hint)
    return version


def require_plain(name: str) -> None:
    """Refuse a name with letters beyond ASCII, which no server and no package has.

    Raises:
        InvalidPackageNameError: If it has one; the message shows each.
    """
    if not name.isascii():
        raise _refusal(f"{_short(name)!r} is no name of a server", name, "", "")


def normalized_name(name: str) -> str:
    """The form in which two names of Python packages are equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def foreign_letters(text: str) -> list[str]:
    """The characters of `text` beyond ASCII, with their code points and Unicode names."""
    found = dict.fromkeys(character for character in text if not character.isascii())
    return [f"U+{ord(one):04X} ({unicodedata.name(one, 'no character')})" for one in found]


def _refusal(message: str, text: str, problem: str, hint: str) -> InvalidPackageNameError:
    if foreign := foreign_letters(text):
        return InvalidPackageNameError(
            f"{message}: it has {', '.join(foreign[:4])}",
            hint="letters of other scripts look like a known name; type it by hand",
        )
    if text.startswith("-"):
        problem = "it begins as an option does"
    return InvalidPackageNameError(f"{message}: {problem}", hint=hint)


def _short(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
