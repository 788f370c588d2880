"""The syntax of URLs, header names, and commands."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from discovery_engine._util.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import httpx2

_ADDRESS = lazy_pattern(r"(https?://|\$\{)[^/?#\s]\S*", re.IGNORECASE)
_NUMBERS = lazy_pattern(r"\d+(\.\d+){3,}")
_FILE_ADDRESS = lazy_pattern(r"file://(/([^\s?#%\\]|%[0-9A-Fa-f]{2})*)")
_LOOPBACK = lazy_pattern(r"127\.\d{1,3}\.\d{1,3}\.\d{1,3}")
_HEADER_NAME = lazy_pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def is_address(text: str) -> bool:
    """Return whether a text is an HTTP address, or may be one once its references have values."""
    return bool(_ADDRESS.fullmatch(text)) and ("${" in text or _parts(text) is not None)


def _parts(url: str) -> SplitResult | None:
    """Return the parts of a URL; None if it has no host, or its host or port is invalid."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
        if host and _NUMBERS.fullmatch(host):
            IPv4Address(host)
    except ValueError:
        return None
    return parts if host else None


def is_file_address(text: str) -> bool:
    """Return whether a text is the URL of a local file or folder, without `..`."""
    match = _FILE_ADDRESS.fullmatch(text)
    return match is not None and ".." not in unquote(match[1]).split("/")


def is_secure_address(url: str) -> bool:
    """Return whether a URL is safe from eavesdropping: HTTPS, or HTTP to this machine."""
    parts = _parts(url)
    if parts is None or re.search(r"[\s\\]", url):
        return False
    scheme, host = parts.scheme, parts.hostname or ""
    return scheme == "https" or (scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or literal address."""
    return host.lower() in ("localhost", "::1") or _LOOPBACK.fullmatch(host) is not None


def is_loopback_redirect(url: str) -> bool:
    """Return whether a URL can be the redirect target of a login: HTTP to a local port."""
    parts = _parts(url)
    if parts is None or parts.scheme != "http" or not parts.port:
        return False
    return is_loopback(parts.hostname or "") and not (
        parts.username or parts.query or parts.fragment
    )


def is_header_name(text: str) -> bool:
    return _HEADER_NAME.fullmatch(text) is not None


def mounts_for(url: str) -> dict[str, httpx2.AsyncBaseTransport | None]:
    """Return httpx `mounts` that bypass proxies if a URL is on this machine, else none.

    Otherwise `HTTP_PROXY` would apply to `localhost`, unless `NO_PROXY` names it: the request would
    cross the network in plain text, and the proxy would look for the endpoint on its own machine.
    Other variables, such as `SSL_CERT_FILE`, still apply.
    """
    is_here = is_loopback(urlsplit(url).hostname or "")
    return dict.fromkeys(("http://", "https://", "all://")) if is_here else {}


# The words of a command, independent of the system: `cmd /c npx.cmd -y mail` starts the same as
# `npx.cmd -y mail`, and `C:\node\npx.cmd` has the name `npx`.

CONTAINER_CLIENTS = ("docker", "podman", "nerdctl")
PACKAGE_RUNNERS = frozenset(
    (
        *("npx", "npm", "pnpx", "pnpm", "yarn", "bun", "bunx", "deno"),
        *("uvx", "uv", "pipx", "docker", "podman", "nerdctl"),
        *("go", "cargo", "dotnet", "dnx", "nix", "nix-shell", "jbang"),
    )
)
"""Programs that may download the program that they start."""
INTERPRETER = "cmd"
"""The command interpreter of Windows, with which entries for Windows start other programs."""

_ENDING = lazy_pattern(r"\.(?:exe|cmd|bat|ps1)$", re.IGNORECASE)
_WORD = lazy_pattern(r'"([^"]*)"|(\S+)')
_SCRIPT = lazy_pattern(r"[&|<>^%]")


def command_words(command: str, args: Sequence[str]) -> list[str]:
    """Return the words of a command, without a `cmd /c` that only starts the rest."""
    options = [word.lower() for word in args]
    at = (
        options.index("/c")
        if "/c" in options and program_name(command) == INTERPRETER
        else len(args)
    )
    started = [*args[at + 1 :]]
    is_plain = all(word.startswith("/") for word in args[:at])
    if not started or not is_plain or any(map(_SCRIPT.search, started)):
        return [command, *args]
    if len(started) == 1 and not _ENDING.search(started[0]):  # a whole line
        started = [quoted or bare for quoted, bare in _WORD.findall(started[0])]
    return started


def is_command_line(command: str) -> bool:
    """Return whether a command looks like a program with arguments, not a path with spaces."""
    program, blank, _ = command.strip().partition(" ")
    return bool(blank) and not set("/\\$") & set(program)


def program_name(word: str) -> str:
    """Return the name of a program in lower case, without folder and Windows extension."""
    return _ENDING.sub("", re.split(r"[/\\]", word)[-1].lower())
