"""The secrets in the value of a variable, a header or an argument.

    list(secrets_in("postgres://app:geheim-9@db.example.com/shop", "DATABASE_URL"))
        [Secret("app:geheim-9"), Secret("geheim-9")]

A value is read as what it is: lines, JSON, an address, a scheme and its token, pairs, flags. The
one rule: what is secret by its place, its name or its form is found, whatever surrounds it; a plain
host, path, number, switch or word is not.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

from msgspec import Struct

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.secrets.secret_names import (
    NameKind,
    is_harmless,
    is_harmless_file,
    is_key,
    is_plain,
    is_secret_flag,
    looks_like_key,
)

SHORTEST = 4  # characters; hiding every "1" would leave nothing to read
_SHORTEST_PART = 8  # characters of a part that neither its name nor its place makes secret
_MAX_SECRET_VALUE_LENGTH = 64 * 1024  # characters; a file that a reference names is no longer
_LONGEST_JOINED = 256  # characters of a value that holds what separates values
_DEEPEST = 6  # base64 in JSON in an assignment in JSON: deeper than any real value

_ADDRESS = lazy_pattern(r"(?:[a-z][\w+.-]*:)*//(?P<rest>\S.*)", re.IGNORECASE | re.DOTALL)
_USER_INFO = lazy_pattern(
    r"(?P<login>(?P<user>[^:/?#]*)(?::(?P<password>[^/?#]*))?)@[^@/?#]*(?=[/?#]|$)"
)
_UNQUOTED_USER_INFO = lazy_pattern(
    r"(?P<login>(?P<user>[^:/@?#]+):(?!\d+[/?#])(?P<password>.+))@", re.DOTALL
)
_LOGIN = lazy_pattern(r"(?P<user>[^\s:@/=]+)[:/](?P<password>\S.*)@[\w.\[(-]\S*", re.DOTALL)
_SCHEME = lazy_pattern(
    r"(?:bearer|basic|token|api-?key|digest|negotiate|hmac|hawk|oauth|key|splunk|aws4[\w-]*)\s+"
    r"(?P<rest>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_PAIR = lazy_pattern(
    r"[\s\[{(\"':_-]*(?P<name>[A-Za-z][\w.\- ]{0,80}?)[\"']?\s*(?:=|:(?!//))\s*(?P<value>\S.*)",
    re.DOTALL,
)
_BASE64 = lazy_pattern(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_BOUNDARIES = lazy_pattern(r"""["'`:@/=,{}()\[\]|<>&;?\s]+""")
_QUOTES = {'"': '"', "'": "'", "{": "}"}
_PEM = "-----BEGIN "
_SWITCH = lazy_pattern(
    r"true|false|yes|no|on|off|none|null|auto|optional|required|enabled|disabled|always|never"
    r"|default|\d{1,3}",
    re.IGNORECASE,
)
_DIGEST = lazy_pattern(r"sha\d{3}:[0-9a-f]{32,}")
_LISTED = lazy_pattern(r"[\s,;]+")


class Secret(Struct, frozen=True):
    text: str
    is_certain: bool = True
    """That it is one, and that no innocent text holds it by chance."""
    is_named: bool = False
    """That its name or its place says so."""


class _Part(NamedTuple):
    text: str
    name: NameKind = NameKind.UNTELLING
    is_whole: bool = False
    """True if nothing stands beside it: then even a short or plain word of it is secret."""


def secrets_in(value: str, name: str = "", *, is_secret: bool = False) -> Iterator[Secret]:
    """The secrets that a value holds, each once.

    Args:
        value: As a server is given it, references resolved.
        name: Of the variable, the header or the flag.
        is_secret: Whether it stands where only secrets stand, whatever its name.
    """
    kind = NameKind.SECRET if is_secret else NameKind.of(name)
    whole = _Part(value[:_MAX_SECRET_VALUE_LENGTH], kind, is_whole=True)
    secrets: dict[str, Secret] = {}
    for secret in _found(whole, 0):
        if len(secret.text) >= SHORTEST:
            twin = secrets.get(secret.text, secret)
            secrets[secret.text] = Secret(
                secret.text, twin.is_certain or secret.is_certain, twin.is_named or secret.is_named
            )
    yield from secrets.values()


def is_secret(value: str, name: str = "") -> bool:
    """Return whether a value is a secret, or has one in it, by its name or its form.

    A value that is merely not known to be harmless is no secret: an entry that is copied keeps it.
    """
    kind = NameKind.of(name)
    if not value or is_harmless_file(value):
        return False
    if kind is NameKind.SECRET:
        return not _SWITCH.fullmatch(value)
    plain = _DIGEST.sub("", value)
    if is_key(plain) or any(secret.is_named for secret in secrets_in(plain, name)):
        return True
    return (
        kind is NameKind.UNTELLING
        and not is_harmless(plain)
        and any(map(looks_like_key, _LISTED.split(plain)))
    )


def _found(part: _Part, depth: int) -> Iterator[Secret]:
    text = part.text.strip()
    if len(text) < SHORTEST or depth > _DEEPEST:
        return
    for read in (_json, _lines, _address, _scheme):
        if (read_whole := read(text)) is not None:
            yield from _within(part, read_whole, depth)
            return
    if is_harmless(text) and (part.name is not NameKind.SECRET or not text.isdigit()):
        return
    parts = next(filter(None, (read(text) for read in (_login, _flags, _pairs))), [])
    yield from _within(part, parts, depth)
    if all(piece.name is NameKind.UNTELLING for piece in parts):
        yield from _of_word(text, part, depth)


def _within(whole: _Part, parts: Sequence[_Part], depth: int) -> Iterator[Secret]:
    for part in parts:
        yield from _found(part._replace(name=part.name.within(whole.name)), depth + 1)


def _of_word(text: str, part: _Part, depth: int) -> Iterator[Secret]:
    """Yield the secrets of a text that has none of the forms in which secrets are written."""
    if part.name is NameKind.SECRET or (part.name is NameKind.UNTELLING and part.is_whole):
        is_sure = part.name is NameKind.SECRET or looks_like_key(text)
        is_certain = is_sure and len(text) >= _SHORTEST_PART and not is_plain(text)
        yield Secret(text, is_certain, part.name is NameKind.SECRET)
    for piece in _BOUNDARIES.split(text):
        if len(piece) >= _SHORTEST_PART and _is_secret(piece, part.name):
            yield Secret(piece, looks_like_key(piece))
            if piece != text and (decoded := _decoded(piece)):
                yield from _found(_Part(decoded, part.name), depth + 1)
    if part.name is not NameKind.PLAIN and (decoded := _decoded(text)):
        yield from _found(_Part(decoded, NameKind.SECRET), depth + 1)


def _is_secret(piece: str, name: NameKind) -> bool:
    if name is NameKind.PLAIN:
        return looks_like_key(piece)
    return not (is_harmless(piece) or is_plain(piece))


def _lines(text: str) -> list[_Part] | None:
    """Several lines; those of a PEM block are keys, also if all are written into one."""
    if _PEM in text:
        lines = text.replace("\\r", "").replace("\\n", "\n").splitlines()
        return [_Part(line, NameKind.SECRET) for line in lines if "-----" not in line]
    lines = text.splitlines()
    return [_Part(line) for line in lines] if len(lines) > 1 else None


def _json(text: str) -> list[_Part] | None:
    if not text.startswith(("{", "[", '"')):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return list(_leaves(value, NameKind.UNTELLING))


def _leaves(value: object, name: NameKind) -> Iterator[_Part]:
    match value:
        case dict():
            for key, member in value.items():
                yield from _leaves(member, NameKind.of(key).within(name))
        case list():
            for member in value:
                yield from _leaves(member, name)
        case str():
            yield _Part(value, name)
        case int() | float() if not isinstance(value, bool):
            yield _Part(str(value), name)


def _address(text: str) -> list[_Part] | None:
    """Split an address: its login, query values, fragment, path steps; None for any other text."""
    if (address := _ADDRESS.fullmatch(text)) is None:
        return None
    rest = address["rest"]
    parts = []
    logins = [match for form in (_USER_INFO, _UNQUOTED_USER_INFO) if (match := form.match(rest))]
    if logins:
        parts += [part for login in logins for part in _of_login(login)]
        rest = rest[logins[0].end("login") + 1 :]
    place, *others = re.split(r"[?#&;,]", rest)
    parts += [_Part(unquote(step), NameKind.PLAIN) for step in place.split("/")[1:]]
    for other in others:
        name, equals, value = other.partition("=")
        if equals:
            parts.append(_Part(unquote_plus(value), NameKind.of(name), is_whole=True))
        else:
            parts.append(_Part(other, is_whole="#" in rest))
    return parts


def _of_login(login: re.Match[str]) -> list[_Part]:
    user, password = login["user"], login["password"]
    if not password:
        return [_Part(unquote(user), NameKind.SECRET, is_whole=True)]
    secret = (password, unquote(password), f"{user}:{password}", unquote(f"{user}:{password}"))
    parts = [_Part(text, NameKind.SECRET, is_whole=True) for text in dict.fromkeys(secret)]
    return [*parts, _Part(unquote(user), is_whole=True)]


def _scheme(text: str) -> list[_Part] | None:
    """Behind the scheme of a header: `Bearer …`, `Basic …`."""
    match = _SCHEME.fullmatch(text)
    return [_Part(match["rest"], NameKind.SECRET, is_whole=True)] if match else None


def _login(text: str) -> list[_Part] | None:
    """`user:password@host`, which some drivers take without a scheme."""
    match = _LOGIN.fullmatch(text)
    return _of_login(match) if match else None


def _flags(text: str) -> list[_Part] | None:
    """Arguments in one line: `--password … --port 80`."""
    words = _split(text)
    if len(words) < 2 or not any(word.startswith("-") for word in words):  # noqa: PLR2004
        return None
    before = ("", *words)
    return [
        _Part(word, NameKind.SECRET, is_whole=True) if is_secret_flag(flag) else _Part(word)
        for flag, word in zip(before, words, strict=False)
        if is_secret_flag(flag) or "=" in word or not word.startswith("-")
    ]


def _pairs(text: str) -> list[_Part] | None:
    """`key=value` and `key: value`, separated in any of the usual ways."""
    if _BASE64.fullmatch(text):  # its padding is no equals sign
        return None
    parts: list[_Part] = []
    value, name = "", NameKind.UNTELLING
    separator = next((char for char in ";&," if char in text), "")
    for piece in text.split(separator) if separator else _words_of_pairs(text):
        pair = None if _is_open(value) else _PAIR.fullmatch(piece.strip())
        if pair:
            value, name = pair["value"], NameKind.of(pair["name"])
        elif parts and len(value) < _LONGEST_JOINED:  # the separator may be a part of the value
            value += separator + piece
            parts.append(_Part(piece))
        else:
            continue
        parts.append(_Part(_bare(value), name))
    return parts or None


def _is_open(value: str) -> bool:
    """Return whether a value begins with a quote or a brace that has not been closed yet."""
    closing = _QUOTES.get(value[:1])
    return closing is not None and not value.endswith(closing) and len(value) < _LONGEST_JOINED


def _words_of_pairs(text: str) -> list[str]:
    """Split at blanks, as in `host=h password='a b'`; `key: value` stays whole."""
    return [text] if re.match(r"[\w.-]+:\s", text) else _split(text)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _bare(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and _QUOTES.get(value[0]) == value[-1] and not value.startswith('{"'):
        return value[1:-1]
    if value.startswith(("'", '"')):  # the end of it is the end of what stands around it
        value = value.rstrip("\"')}]")[1:]
    return unquote(value)


def _decoded(text: str) -> str:
    """Decode a text from base64; empty if it is no base64, or not that of a text."""
    if not _BASE64.fullmatch(text):
        return ""
    padded = text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4)
    try:
        decoded = base64.b64decode(
            padded, altchars=b"-_" if {"-", "_"} & set(text) else None
        ).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return decoded if "".join(decoded.split()).isprintable() else ""
