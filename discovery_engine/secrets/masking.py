"""Hides secrets in addresses and arguments, in the places where secrets are carried.

References are shown as written, for they give nothing away. An entry that is copied loses less:
only what looks like a secret there, so that it starts the same program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.secrets.references import (
    REDACTED,
    MalformedReferenceError,
    Reference,
    references_in,
    split,
)
from discovery_engine.secrets.secret_names import NameKind, is_key, is_secret_flag
from discovery_engine.secrets.values import is_secret

_ASSIGNMENT = lazy_pattern(r"(?P<name>-{0,2}[\w.-]+)=(?P<value>.*)", re.DOTALL)
_DATABASES = ("postgres://", "postgresql://")
_VARIABLE_NAME = lazy_pattern(r"[A-Z][A-Z0-9_]*")
_HEADER = lazy_pattern(r"(?P<name>\w[\w-]*):\s.*", re.DOTALL)
_ADDRESS = lazy_pattern(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)(?P<user>[^/?#]*@)?(?P<host>[^/?#]*)"
    r"(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?",
    re.IGNORECASE | re.DOTALL,
)
_APART = "\ue000"  # private use: stands for a reference while the text around it is taken apart
_BRACES = lazy_pattern(r"\$\{[^{}]*\}")  # literal: a client's own syntax that is not expanded
_HOST = lazy_pattern(
    rf"([\w.{_APART}-]*|\[[0-9a-f:.]*\])(:[\d{_APART}]*)?", re.IGNORECASE | re.ASCII
)


def redact_url(url: str) -> str:
    """An address without its user, its query's values, its fragment, and keys in its path."""
    return _DISPLAY_MASKING.url(url)


def redact_args(args: Sequence[str]) -> tuple[str, ...]:
    """Arguments without what could be a secret: after `--token`, in `KEY=…`, in an address."""
    return _DISPLAY_MASKING.args(args)


def hide_secrets_in_url(url: str) -> str:
    """An address without what looks like a secret; all else is as it was written."""
    return _COPIED.url(url)


def hide_secrets_in_args(args: Sequence[str]) -> tuple[str, ...]:
    """Arguments without what looks like a secret; all else is as it was written."""
    return _COPIED.args(args)


def selecting_references(args: Sequence[str]) -> tuple[tuple[Reference, ...], ...]:
    """The references of each argument whose values may select what runs, in order.

    One that stands where a secret is passed, or has the name of a secret, does not.
    """
    references = []
    is_secret = False
    for arg in args:
        references.append(() if is_secret else tuple(filter(_may_select, _outside_secrets(arg))))
        is_secret = is_secret_flag(arg)
    return tuple(references)


def without_credentials(value: str) -> str:
    """An address without its user, query and fragment; any other text as it is."""
    address = _ADDRESS.fullmatch(value)
    return "".join(address.group("scheme", "host", "path")) if address else value


def _outside_secrets(arg: str) -> Sequence[Reference]:
    if not (references := references_in(arg)):
        return ()
    parts = split(arg.replace(_APART, ""))
    text = "".join(part if isinstance(part, str) else _APART for part in parts)
    if assignment := _ASSIGNMENT.fullmatch(text):
        text = assignment["value"]
        if _is_secret_name(assignment["name"]):
            return ()
    if address := _ADDRESS.fullmatch(text):
        passed = (address["user"] or "").count(_APART)
        count = (address["host"] + address["path"]).count(_APART)
        return references[passed : passed + count]
    return references


def _may_select(reference: Reference) -> bool:
    return reference.kind != "secret" and not is_secret_flag(f"--{reference.name}")


def _is_secret_name(name: str) -> bool:
    """Return whether `NAME=value` passes a secret; a variable is assumed to do so."""
    is_flag = is_secret_flag("--" + name.lstrip("-"))
    return is_flag or _VARIABLE_NAME.fullmatch(name) is not None


class _Masking(Struct, frozen=True):
    """Hides what is passed where secrets are carried.

    Each text is taken apart as if every reference in it were one harmless letter.
    """

    hides_assigned: Callable[[str, str], bool]
    """A predicate of the name and the value: True if the value of `NAME=value` is hidden."""
    hides: Callable[[str, str], bool]
    """The same of any other place; the name is empty where the place has none."""

    def url(self, url: str) -> str:
        return self._apart(url, self._url)

    def args(self, args: Sequence[str]) -> tuple[str, ...]:
        texts, flag = [], ""
        for arg in args:
            texts.append(self._behind_flag(flag, arg) if flag else self._apart(arg, self._arg))
            flag = arg if is_secret_flag(arg) else ""
        return tuple(texts)

    def _behind_flag(self, flag: str, arg: str) -> str:
        def hidden(text: str) -> str:
            header = _HEADER.fullmatch(text)
            name = header["name"] if header else flag
            return _hide(text) if self.hides(name, text) else self._arg(text)

        return self._apart(arg, hidden)

    def _apart(self, text: str, redact_rest: Callable[[str], str]) -> str:
        try:
            parts = split(text.replace(_APART, ""))
        except MalformedReferenceError:
            return REDACTED
        references = iter([part for part in parts if isinstance(part, Reference)])
        rest = redact_rest("".join(p if isinstance(p, str) else _APART for p in parts))
        # What is literal must not read as a reference.
        return re.sub(
            _APART, lambda _: self._reference(next(references)), rest.replace("${", "$${")
        )

    def _reference(self, reference: Reference) -> str:
        is_plain = not (reference.default and self.hides(reference.name, reference.default))
        return str(reference) if is_plain and reference.kind != "command" else reference.redacted()

    def _url(self, url: str) -> str:
        match = _ADDRESS.fullmatch(url)
        if match is None:
            return _hide(url) if self.hides("", url) else url
        user, host, query, fragment = match.group("user", "host", "query", "fragment")
        return "".join(
            (
                match["scheme"],
                _redact_user(match["scheme"], user[:-1]) + "@" if user else "",
                self._host(host),
                "/".join(map(_redact_word, match["path"].split("/"))),
                "?" + "&".join(map(self._pair, query[1:].split("&"))) if query else "",
                "#" + self._value("", fragment[1:]) if fragment else "",
            )
        )

    def _host(self, host: str) -> str:
        plain = host if self.hides("", host) else _BRACES.sub(_APART, host)
        return host if _HOST.fullmatch(plain) else _hide(host)

    def _pair(self, pair: str) -> str:
        name, equals, value = pair.partition("=")
        return name + equals + self._value(name, value) if equals else self._value("", pair)

    def _value(self, name: str, value: str) -> str:
        return _hide(value) if self.hides(name, value) else value

    def _arg(self, arg: str) -> str:
        if assignment := _ASSIGNMENT.fullmatch(arg):
            name, value = assignment.group("name", "value")
            is_hidden = self.hides_assigned(name, value)
            return f"{name}={_hide(value) if is_hidden else self._arg(value)}"
        if "://" in arg:
            return self._url(arg)
        # JSON as an argument, or a header: who may see it can look into the file.
        if arg.startswith(("{", "[")) or _HEADER.fullmatch(arg):
            return self._value("", arg)
        return _redact_word(arg)


def _looks_secret(name: str, value: str) -> bool:
    rest = value.replace(_APART, "")
    # Beside a reference, the secret is what it refers to.
    name = name.lstrip("-") if rest == value else ""
    inner = _ASSIGNMENT.fullmatch(value)
    is_assignment = inner is not None and bool(inner["value"].strip("="))
    is_named = NameKind.of(name) is NameKind.SECRET
    if _ADDRESS.fullmatch(value) or (is_assignment and not is_named):
        return False  # its parts are judged one by one
    return is_secret(rest, name)


_DISPLAY_MASKING = _Masking(lambda name, _: _is_secret_name(name), lambda _, __: True)
_COPIED = _Masking(_looks_secret, _looks_secret)


def _hide(text: str) -> str:
    """Everything but the references."""
    return re.sub(f"[^{_APART}]+", REDACTED, text)


def _redact_user(scheme: str, user: str) -> str:
    # Alone it is a role of a database, the user of a repository, and elsewhere often a token.
    is_role = (scheme.lower() in _DATABASES and ":" not in user) or user == "git"
    return user if is_role else _hide(user)


def _redact_word(word: str) -> str:
    return _hide(word) if is_key(word) else word
