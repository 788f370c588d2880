"""Redacts a server's transport for display: everything that could be a secret is hidden.

References are shown as written, for they give nothing away. Values of `env` and `headers` are
always hidden; an address or an argument only in the places where secrets are carried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from discovery_engine.config.settings import RemoteTransport, StdioTransport
from discovery_engine.secrets.references import (
    REDACTED,
    MalformedReferenceError,
    Reference,
    redact_literals,
    references_in,
    split,
)
from discovery_engine.secrets.secret_names import is_key, is_secret_flag

_ASSIGNMENT = re.compile(r"(?P<name>-{0,2}[\w.-]+)=(?P<value>.*)", re.DOTALL)
_DATABASES = ("postgres://", "postgresql://")
_VARIABLE_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_HEADER = re.compile(r"\w[\w-]*:\s.*", re.DOTALL)
_ADDRESS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^/?#]*@)?(?P<host>[^/?#]*)"
    r"(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?",
    re.IGNORECASE | re.DOTALL,
)
_APART = "\ue000"  # private use: stands for a reference while the text around it is taken apart
_HOST = re.compile(rf"([\w.{_APART}-]*|\[[0-9a-f:.]*\])(:[\d{_APART}]*)?", re.IGNORECASE | re.ASCII)


def redact_transport(
    transport: StdioTransport | RemoteTransport,
) -> StdioTransport | RemoteTransport:
    """The same transport, safe to display."""
    match transport:
        case StdioTransport(args=args, env=env):
            return replace(transport, args=redact_args(args), env=_redact_values(env))
        case RemoteTransport(url=url, headers=headers, oauth=oauth):
            return replace(
                transport,
                url=redact_url(url),
                headers=_redact_values(headers),
                oauth=replace(oauth, client_secret=redact_literals(oauth.client_secret)),
            )


def redact_url(url: str) -> str:
    """An address without its user, its query's values, its fragment, and keys in its path."""
    return _with_references_apart(url, _redact_plain_url)


def redact_args(args: Sequence[str]) -> tuple[str, ...]:
    """Arguments without what looks like a secret: after `--token`, in `KEY=…`, in an address."""
    shown = []
    hide_next = False
    for arg in args:
        shown.append(
            redact_literals(arg) if hide_next else _with_references_apart(arg, _redact_plain_arg)
        )
        hide_next = is_secret_flag(arg)
    return tuple(shown)


def selecting_references(args: Sequence[str]) -> tuple[tuple[Reference, ...], ...]:
    """The references of each argument whose values may select what runs, in order.

    One that stands where a secret is passed, or has the name of a secret, does not.
    """
    found = []
    is_secret = False
    for arg in args:
        found.append(() if is_secret else tuple(filter(_may_select, _outside_secrets(arg))))
        is_secret = is_secret_flag(arg)
    return tuple(found)


def without_credentials(value: str) -> str:
    """An address without its user, query and fragment; any other text as it is."""
    address = _ADDRESS.fullmatch(value)
    return "".join(address.group("scheme", "host", "path")) if address else value


def _outside_secrets(arg: str) -> Sequence[Reference]:
    if not (found := references_in(arg)):
        return ()
    parts = split(arg.replace(_APART, ""))
    text = "".join(part if isinstance(part, str) else _APART for part in parts)
    if assignment := _ASSIGNMENT.fullmatch(text):
        text = assignment["value"]
        if _is_secret_name(assignment["name"]):
            return ()
    if address := _ADDRESS.fullmatch(text):
        passed = (address["user"] or "").count(_APART)
        kept = (address["host"] + address["path"]).count(_APART)
        return found[passed : passed + kept]
    return found


def _may_select(reference: Reference) -> bool:
    return reference.kind != "secret" and not is_secret_flag(f"--{reference.name}")


def _is_secret_name(name: str) -> bool:
    """Whether `NAME=value` passes a secret; a variable is taken to do so."""
    is_flag = is_secret_flag("--" + name.lstrip("-"))
    return is_flag or _VARIABLE_NAME.fullmatch(name) is not None


def _redact_values(values: Mapping[str, str]) -> dict[str, str]:
    return {name: redact_literals(value) for name, value in values.items()}


def _with_references_apart(text: str, redact_rest: Callable[[str], str]) -> str:
    """Mask a text as if each reference were one harmless letter, then put them back."""
    try:
        parts = split(text.replace(_APART, ""))
    except MalformedReferenceError:
        return REDACTED
    found = iter([part for part in parts if isinstance(part, Reference)])
    redacted = redact_rest("".join(p if isinstance(p, str) else _APART for p in parts))
    return re.sub(_APART, lambda _: next(found).redacted(), redacted)


def _hide(text: str) -> str:
    """Everything but the references."""
    return re.sub(f"[^{_APART}]+", REDACTED, text)


def _redact_plain_url(url: str) -> str:
    match = _ADDRESS.fullmatch(url)
    if match is None:
        return _hide(url)
    user, host, query, fragment = match.group("user", "host", "query", "fragment")
    return "".join(
        (
            match["scheme"],
            _redact_user(match["scheme"], user[:-1]) + "@" if user else "",
            host if _HOST.fullmatch(host) else _hide(host),
            "/".join(map(_redact_word, match["path"].split("/"))),
            "?" + "&".join(map(_redact_pair, query[1:].split("&"))) if query else "",
            "#" + _hide(fragment[1:]) if fragment else "",
        )
    )


def _redact_user(scheme: str, user: str) -> str:
    # Alone it is a role of a database, and elsewhere often a token.
    is_role = scheme.lower() in _DATABASES and ":" not in user
    return user if is_role else _hide(user)


def _redact_pair(pair: str) -> str:
    name, equals, value = pair.partition("=")
    return name + equals + _hide(value) if equals else _hide(pair)


def _redact_plain_arg(arg: str) -> str:
    if assignment := _ASSIGNMENT.fullmatch(arg):
        name, value = assignment.group("name", "value")
        return f"{name}={_hide(value) if _is_secret_name(name) else _redact_plain_arg(value)}"
    if "://" in arg:
        return _redact_plain_url(arg)
    # JSON as an argument, or a header: who may see it can look into the file.
    if arg.startswith(("{", "[")) or _HEADER.fullmatch(arg):
        return _hide(arg)
    return _redact_word(arg)


def _redact_word(word: str) -> str:
    return _hide(word) if is_key(word) else word
