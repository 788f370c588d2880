"""The grammar of packages, one for each registry, and of versions that are exact.

A runner reads what stands in the place of a name in many ways: `./files` is a folder, `acme/files`
a repository, `-c` an option, `name@latest` a moving tag. Whatever is not a plain name is refused.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from discovery_engine.marketplace.entry import RegistryType

_LONGEST = 214  # characters; npm's own bound
_LONGEST_IMAGE = 255
_LABEL = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = (
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(?:\.[A-Za-z0-9-]{1,63})*(?::[0-9]{1,5})?"
)
_GRAMMARS: dict[str, re.Pattern[str]] = {
    "npm": re.compile(r"(?:@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*"),
    "pypi": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"),
    "nuget": re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"),
    "oci": re.compile(rf"(?:{_HOST}/)?{_LABEL}(?:/{_LABEL})*"),
}
_ARCHIVES = (".tgz", ".tar.gz", ".tar", ".tar.bz2", ".tar.xz", ".zip", ".whl")
_EXACT = re.compile(r"v?[0-9][0-9A-Za-z]*(?:[.+!_-][0-9A-Za-z]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST_VERSION = 128
_MOVING = re.compile(r"\d+(?:\.\d+)*\.[xX*](?:\.[xX*])*")  # 1.x


def identifier_problem(registry_type: RegistryType, identifier: str) -> str:
    """Why a text names no package of a registry; empty if it names one."""
    if registry_type == "mcpb":
        return _address_problem(identifier)
    longest = _LONGEST_IMAGE if registry_type == "oci" else _LONGEST
    if len(identifier) > longest:
        return f"a name of {len(identifier):,} characters, of which {longest} are allowed"
    if not _GRAMMARS[registry_type].fullmatch(identifier):
        return "not a name of a package"
    if registry_type in ("npm", "pypi") and identifier.lower().endswith(_ARCHIVES):
        return "the name of a file, as npm and pip take it"
    return ""


def version_problem(registry_type: RegistryType, version: str) -> str:
    """Why a version cannot be pinned; empty if it can, or if there is none."""
    if not version:
        return ""
    if registry_type == "oci":
        return "" if _TAG.fullmatch(version) else "not a tag of an image"
    if len(version) > _LONGEST_VERSION or not _EXACT.fullmatch(version):
        return "not an exact version"
    return "not an exact version" if _MOVING.fullmatch(version) else ""


def is_digest(text: str) -> bool:
    """Whether a text is the digest of an image."""
    return _DIGEST.fullmatch(text) is not None


def split_image(reference: str) -> tuple[str, str, str]:
    """Image, tag and digest of a reference; the latter two may be empty.

    `ghcr.io/acme/files:1.2.0@sha256:…`; the colon of a port is none of a tag.
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
