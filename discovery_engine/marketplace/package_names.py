"""The kinds of packages, with the grammar of their names and exact versions.

    checked_name("npm", "@scope/server")     "@scope/server"
    checked_name("npm", "--eval")            InvalidPackageNameError

A runner accepts more than names: `./files` is a folder, `acme/files` a repository, `-c` an option,
`name@latest` a moving tag. Everything but a plain name is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from discovery_engine._util.text import visible
from discovery_engine.errors import InvalidPackageNameError
from discovery_engine.marketplace.entry import RegistryType

_LABEL = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = (
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(?:\.[A-Za-z0-9-]{1,63})*(?::[0-9]{1,5})?"
)


class PackageKind(NamedTuple):
    """A type of registry: the grammar of its packages, and the programs that start them."""

    name: str
    """The noun for a name, for messages."""
    allowed: str
    """The allowed characters of a name, for messages."""
    programs: tuple[str, ...]
    """The programs that a package needs; the first runs its servers."""
    hints: tuple[str, ...]
    """The hints that publishers use; the program depends on the type alone."""
    grammar: re.Pattern[str] = re.compile("")
    longest: int = 214  # characters; npm's own limit

    @property
    def runtime(self) -> str:
        """The program that runs a server; empty if the package contains its own."""
        return next(iter(self.programs), "")


PACKAGE_KINDS: Mapping[RegistryType, PackageKind] = {
    "npm": PackageKind(
        "name of an npm package",
        "lower-case letters, digits, '.', '_' and '-', and may have a scope: @scope/name",
        ("npx", "npm"),
        ("npx", "npm", "node", "bunx", "pnpm", "pnpx", "yarn"),
        re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*"),
    ),
    "pypi": PackageKind(
        "name of a Python package",
        "letters, digits, '.', '_' and '-', and begins and ends with a letter or a digit",
        ("uvx", "uv"),
        ("uvx", "uv", "pipx", "pip", "python", "python3"),
        re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"),
    ),
    "oci": PackageKind(
        "name of an image",
        "lower-case letters, digits, '.', '_', '-' and '/', without a tag: ghcr.io/owner/name",
        ("docker",),
        ("docker", "podman"),
        re.compile(rf"(?:{_HOST}/)?{_LABEL}(?:/{_LABEL})*"),
        longest=255,
    ),
    "nuget": PackageKind(
        "name of a NuGet package",
        "letters, digits, '.', '_' and '-'",
        ("dnx",),
        ("dnx", "dotnet"),
        re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"),
    ),
    "mcpb": PackageKind(
        "address of a bundle",
        "https:// in front",
        (),
        ("node", "python", "python3", "uv", "binary"),
    ),
}
_ARCHIVES = (".tgz", ".tar.gz", ".tar", ".tar.bz2", ".tar.xz", ".zip", ".whl")
_EXACT = re.compile(r"v?[0-9][0-9A-Za-z]*(?:[.+!_-][0-9A-Za-z]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST_VERSION = 128
_MOVING = re.compile(r"\d+(?:\.\d+)*\.[xX*](?:\.[xX*])*")  # 1.x


def identifier_problem(registry_type: RegistryType, identifier: str) -> str:
    """Return why a text is no name of a package; empty if it is one."""
    if registry_type == "mcpb":
        return _address_problem(identifier)
    kind = PACKAGE_KINDS[registry_type]
    if len(identifier) > kind.longest:
        return f"a name of {len(identifier):,} characters, of which {kind.longest} are allowed"
    if not kind.grammar.fullmatch(identifier):
        return "not a name of a package"
    if registry_type in ("npm", "pypi") and identifier.lower().endswith(_ARCHIVES):
        return "the name of a file, as npm and pip take it"
    return ""


def version_problem(registry_type: RegistryType, version: str) -> str:
    """Return why a version cannot be pinned; empty if it can, or is empty."""
    if not version:
        return ""
    if registry_type == "oci":
        return "" if _TAG.fullmatch(version) else "not a tag of an image"
    is_exact = _EXACT.fullmatch(version) and not _MOVING.fullmatch(version)
    return "" if is_exact and len(version) <= _LONGEST_VERSION else "not an exact version"


def is_digest(text: str) -> bool:
    """Return whether a text is the digest of an image."""
    return _DIGEST.fullmatch(text) is not None


def split_image(reference: str) -> tuple[str, str, str]:
    """Return the image, tag and digest of `ghcr.io/acme/files:1.2.0@sha256:…`; two may be empty.

    The colon before a port is not that of a tag.
    """
    image, _, digest = reference.partition("@")
    head, slash, last = image.rpartition("/")
    last, _, tag = last.partition(":")
    return f"{head}{slash}{last}", tag, digest


def _address_problem(text: str) -> str:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "not an address"
    if not text.isascii() or re.search(r"[\s\\{}\"'<>|^`\x00-\x1f]", text):
        return "not an address"
    if parts.scheme != "https" or not host or "@" in parts.netloc:
        return "not an https:// address"
    return ""


# Errors for the person who typed a name.

_MAX_REFUSED_PACKAGE_LENGTH = 80  # characters of a refused name in a message


def checked_name(registry_type: RegistryType, name: str) -> str:
    """Return `name` if it is a valid name in that registry.

    Raises:
        InvalidPackageNameError: If it is not; the message shows hidden and foreign letters.
    """
    if problem := identifier_problem(registry_type, name):
        kind = PACKAGE_KINDS[registry_type]
        raise _refusal(
            f"{_short(name)!r} is no {kind.name}", name, problem, f"it has {kind.allowed}"
        )
    return name


def checked_version(registry_type: RegistryType, version: str) -> str:
    """Return `version` if it is an exact version, not a range, tag, URL or alias.

    Raises:
        InvalidPackageNameError: If it is not.
    """
    if problem := version_problem(registry_type, version) if version else "it is empty":
        hint = "give one version as the registry lists it, such as 1.2.0"
        raise _refusal(f"{_short(version)!r} is no exact version", version, problem, hint)
    return version


def require_plain(name: str) -> None:
    """Check that a name has only ASCII characters, as all names of servers and packages have.

    Raises:
        InvalidPackageNameError: If it has others; the message shows them.
    """
    if not name.isascii():
        raise _refusal(f"{_short(name)!r} is no name of a server", name, "", "")


def foreign_letters(text: str) -> list[str]:
    """Return the characters of `text` beyond ASCII, with their code points and Unicode names."""
    characters = dict.fromkeys(character for character in text if not character.isascii())
    return [
        f"U+{ord(character):04X} ({unicodedata.name(character, 'no character')})"
        for character in characters
    ]


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
    text, longest = visible(text), _MAX_REFUSED_PACKAGE_LENGTH
    return text if len(text) <= longest else f"{text[:longest]}…"
