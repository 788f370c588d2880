"""The address and the headers of a remote server, with what its owner gave filled in.

An entry chooses the host; its owner's values fill in what is left open, and cannot change anything
else of the address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from discovery_engine._util.address_classes import is_private_name, reachable_classes
from discovery_engine._util.text import quoted
from discovery_engine.config.syntax import is_header_name, is_loopback, is_secure_address
from discovery_engine.errors import InstallRefusedError, InvalidInputError
from discovery_engine.installer.input_values import (
    InputValues,
    is_reference,
    joined,
    key_of,
    literal,
)

if TYPE_CHECKING:
    from discovery_engine.marketplace.entry import Input, RemoteOffer

_PLACES = re.compile(r"\{([^{}]{1,128})\}")
_LABELS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::\d{1,5})?")
_BASE = re.compile(r"\{[^{}]+\}(?:/.*)?")
_OUR_HEADERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|accept"
    r"|mcp-.*|proxy-.*|origin|referer|cookie|set-cookie|forwarded|x-forwarded-.*|via",
    re.IGNORECASE,
)
"""Headers that belong to the connection or the protocol, or stand for another origin."""


def address(offer: RemoteOffer, values: InputValues) -> str | None:
    """The address of a server; None while a value that it needs is missing.

    Raises:
        InvalidInputError: If a value would change more of it than its place.
        InstallRefusedError: If the address may not be reached.
    """
    variables = {variable.name: variable for variable in offer.variables}
    filled = {name: values.text(one) for name, one in variables.items()}
    pieces = _PLACES.split(offer.url)
    names = pieces[1::2]
    if any(name not in variables for name in names):
        raise InstallRefusedError(f"the address {quoted(offer.url)} has a place without a name")
    if any(filled[name] is None for name in names):
        return None
    texts = [literal(pieces[0])]
    for name, behind in zip(names, pieces[2::2], strict=True):
        given = filled[name] or ""
        before = "".join(texts)
        texts += (_fitting(given, variables[name], before, offer.url, values), literal(behind))
    url = joined(texts)
    if not _is_whole(offer.url) and not is_reference(url):
        _require_usable(url)
    return url


def headers(inputs: Iterable[Input], values: InputValues) -> dict[str, str]:
    """The headers of a server.

    Raises:
        InstallRefusedError: If the entry names one that it may not.
    """
    found: dict[str, str] = {}
    for one in inputs:
        if not is_header_name(one.name) or _OUR_HEADERS.fullmatch(one.name):
            raise InstallRefusedError(
                f"the entry sets the header {quoted(one.name)}, which it may not"
            )
        if (text := values.text(one)) is not None:
            found[one.name] = text
    return found


def _fitting(text: str, variable: Input, before: str, url: str, values: InputValues) -> str:
    """A value as it stands in the address, behind what is `before` it; the same if it is stored."""
    stored = text.removeprefix("${secret:").removesuffix("}")
    value = values.to_store.get(stored, text) if is_reference(text) else text
    if is_reference(value):
        return value  # the owner's own, resolved when it is connected
    if _is_whole(url) and not before:
        _require_usable(value)
        return text
    _, scheme, rest = before.partition("://")
    if not scheme or not {"/", "?"}.intersection(rest):  # in the host
        if not _LABELS.fullmatch(value):
            raise InvalidInputError(f"{key_of(variable)} must be a part of the name of a host")
        return text
    if text == value:
        return quote(value, safe="")
    values.to_store[stored] = quote(value, safe="")
    return text


def _is_whole(url: str) -> bool:
    """Whether the owner gives the address itself, to which the entry adds a path at most."""
    return _BASE.fullmatch(url) is not None


def _require_usable(url: str) -> None:
    """Check that an address is one of another machine, or one that its owner meant.

    Raises:
        InstallRefusedError: If it may not be reached.
    """
    if not is_secure_address(url) or urlsplit(url).username is not None:
        raise InstallRefusedError(
            f"the address {quoted(url)} is not used: only https:// is, without a login in it",
            hint="an address of your own can be added by hand: `discovery add`",
        )
    host = urlsplit(url).hostname or ""
    is_private = is_private_name(host) and not is_loopback(host)
    if is_private or not reachable_classes(host, is_private=False) & {"public", "loopback"}:
        raise InstallRefusedError(f"the address {quoted(url)} is one of a private network")
