"""The syntax of addresses, both of servers and of folders, and of header names."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

_ADDRESS = re.compile(r"(https?://|\$\{)[^/?#\s]\S*", re.IGNORECASE)
_FILE_ADDRESS = re.compile(r"file://(/([^\s?#%\\]|%[0-9A-Fa-f]{2})*)")
_LOOPBACK = re.compile(r"127\.\d{1,3}\.\d{1,3}\.\d{1,3}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def is_address(text: str) -> bool:
    """Return whether a text is an HTTP address, or begins with a reference to one."""
    return _ADDRESS.fullmatch(text) is not None


def is_file_address(text: str) -> bool:
    """Return whether a text is the address of a file or folder of this machine, without `..`."""
    match = _FILE_ADDRESS.fullmatch(text)
    return match is not None and ".." not in unquote(match[1]).split("/")


def is_secure_address(url: str) -> bool:
    """Return whether nobody can read data on its way to an address: HTTPS, or this machine."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or re.search(r"[\s\\]", url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or literal address."""
    return host.lower() in ("localhost", "::1") or _LOOPBACK.fullmatch(host) is not None


def is_loopback_redirect(url: str) -> bool:
    """Return whether a browser can be redirected to an address at which this program listens."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    is_plain = parts.scheme == "http" and not (parts.username or parts.query or parts.fragment)
    return is_plain and bool(port) and bool(host) and is_loopback(host or "")


def is_header_name(text: str) -> bool:
    return _HEADER_NAME.fullmatch(text) is not None
