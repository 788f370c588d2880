"""Redacts known secrets in text: whole, in part, and in the encodings that programs print.

    Redactor(["ntn_4f9Qz-secret"]).redact("token=ntn_4f9Qz… refused")      "token=••••… refused"

The time is linear in the text, however many secrets there are: a secret is found by eight of its
characters in a hash table, and extended to both sides from there.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from urllib.parse import quote, quote_plus

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.secrets.quick_search import literals, quick_search
from discovery_engine.secrets.references import REDACTED

SHORTEST = 4  # characters of a secret
SHORTEST_BEGINNING = 8  # characters by which a secret is found
_QUAD = 4  # characters
_SHORTEST_MIDDLE = 12  # characters of a part that is no beginning
_LONGEST_ENCODED = 4096  # bytes; longer secrets are not printed in base64
_KEPT_IN_ADDRESSES = ("", "/", "!~*'()", "!~*'()/:;,?@&=+$#")
"""By Python's `quote` with and without paths, JavaScript's encodeURIComponent, its encodeURI."""
_ESCAPED_IN_JSON = ("\0", "<>&", "<>&'+`\"")
"""By most writers, by Go's, by .NET's."""
_MOST_SEARCHED = 20_000  # keys, of some 500 secrets; the search for more takes seconds to build
_MOST_PLACES = 16  # secrets and places of one secret that share eight characters
_WORDS = lazy_pattern(
    r"\W*([A-Z]?[a-z]{1,20}|[A-Z]{1,20})\W*|\W*[a-z]{1,8}[-_ ][a-z]{1,8}[-_ ]?", re.ASCII
)
"""One word, or two short ones: many secrets begin with `postgres`, `Bearer`, `github_pat_`."""


class Redactor:
    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets: set[str] = set()
        self._places: dict[str, list[tuple[str, int]]] = {}
        """By eight characters: the forms that contain them, and the positions."""
        self._short: dict[str, list[str]] = {}
        """By their first four characters: the forms that have fewer than eight."""
        self._quads: set[int] = set()
        """Every four characters in a key of `_places`, as one number."""
        self._is_ascii = True
        """True if all keys of `_places` are ASCII."""
        self._searches: dict[str, tuple[int, Callable[[str], bool]]] = {}
        """By what else they look for: for how many keys each was made, which are never fewer."""
        self.add(secrets)

    def __len__(self) -> int:
        return len(self._secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Redact these too, but for those of fewer than four characters, which are in any text.

        Other threads may redact meanwhile.
        """
        new = {secret for secret in secrets if len(secret) >= SHORTEST} - self._secrets
        self._secrets |= new
        for form in {form for secret in new for form in forms(secret)}:
            if len(form) < SHORTEST_BEGINNING:
                self._short.setdefault(form[:SHORTEST], []).append(form)
            else:
                self._add(form)

    def may_redact(self, text: str, *, also: str = "") -> bool:
        """A quick check, for many texts: False if `redact` certainly changes nothing.

        Args:
            text: Several texts may be looked through at once.
            also: A pattern of which `text` must not have a match either; see `quick_search`.
        """
        count = len(self._places) + len(self._short)
        old_count, search = self._searches.get(also, (-1, _find_nothing))
        if old_count != count:
            search = _search_for([*self._places, *self._short], also)
            self._searches[also] = count, search
        return search(text)

    def redact(self, text: str) -> str:
        """`text` with each secret replaced; adjacent ones are replaced as one."""
        spans = sorted([*self._long_spans(text), *self._short_spans(text)])
        if not spans:
            return text
        pieces: list[str] = []
        done = 0
        for start, end in spans:
            if start > done or not pieces:
                pieces += [text[done:start], REDACTED]
            done = max(done, end)
        return "".join((*pieces, text[done:]))

    def _add(self, form: str) -> None:
        last = len(form) - SHORTEST_BEGINNING
        for start in (*range(0, last, SHORTEST_BEGINNING), last):
            key = form[start : start + SHORTEST_BEGINNING]
            if (places := self._places.get(key)) is None:
                self._note(key)
                places = self._places[key] = []
            if len(places) < _MOST_PLACES and (form, start) not in places:
                places.append((form, start))

    def _note(self, key: str) -> None:
        if not key.isascii():
            self._is_ascii = False
            return
        data = key.encode()
        for start in range(SHORTEST_BEGINNING - _QUAD + 1):
            self._quads.add(int.from_bytes(data[start : start + _QUAD], sys.byteorder))

    def _long_spans(self, text: str) -> Iterator[tuple[int, int]]:
        done = 0
        for hit in self._long_hits(text):
            if hit + SHORTEST_BEGINNING <= done:
                continue
            spans = [
                span
                for form, at in self._places[text[hit : hit + SHORTEST_BEGINNING]]
                if (span := _span(text, hit, form, at, done))
            ]
            if spans:
                start, done = min(s for s, _ in spans), max(e for _, e in spans)
                yield start, done

    def _short_spans(self, text: str) -> Iterator[tuple[int, int]]:
        for hit in self._short_hits(text):
            for form in self._short[text[hit : hit + SHORTEST]]:
                if text.startswith(form, hit):
                    yield hit, hit + len(form)

    def _long_hits(self, text: str) -> Iterator[int]:
        """The positions in `text` at which a key of eight characters occurs.

        Eight characters in a row contain four that begin at a multiple of four; only around such
        four that a key contains, there can be one. So most texts are done in C: 2 KiB in 15 µs, an
        eighth of what looking up every position takes.
        """
        table = self._places
        if not (self._is_ascii or text.isascii()):
            yield from (i for i in range(len(text)) if text[i : i + SHORTEST_BEGINNING] in table)
            return
        quads = _quads_of(text)
        if self._quads.isdisjoint(quads):
            return
        tried = 0
        for number, quad in enumerate(quads):
            if quad in self._quads:
                at = number * _QUAD
                for i in range(max(tried, at - _QUAD), at + 1):
                    if text[i : i + SHORTEST_BEGINNING] in table:
                        yield i
                tried = at + 1

    def _short_hits(self, text: str) -> Iterator[int]:
        for key in tuple(self._short):
            at = text.find(key)
            while at >= 0:
                yield at
                at = text.find(key, at + 1)


def _find_nothing(_: str) -> bool:
    return False


def _search_for(keys: list[str], also: str) -> Callable[[str], bool]:
    if not keys and not also:
        return _find_nothing
    if len(keys) <= _MOST_SEARCHED:
        with suppress(ValueError):
            return quick_search("|".join(filter(None, (literals(keys), also))))
    return lambda _: True


def _quads_of(text: str) -> memoryview:
    """The text in pieces of four characters, each as one number; the last few are left out."""
    data = text.encode("ascii", "replace")  # one byte for each character
    return memoryview(data)[: len(data) // _QUAD * _QUAD].cast("I")


def forms(secret: str) -> set[str]:
    """A secret, and its encodings in URLs, JSON, HTML, shells, Python, hex and base64."""
    import html  # noqa: PLC0415 - its table of entities takes 1.6 ms, and most starts have no secret

    encodings = {secret, repr(secret)[1:-1], html.escape(secret), html.escape(secret, quote=False)}
    # In a shell's quotes.
    encodings |= {secret.replace("'", "'\"'\"'"), secret.replace("'", "'\\''")}
    encodings.update(_in_json(secret))
    text = secret.encode(errors="replace").decode()  # a URL contains no lone surrogates
    for form in (quote_plus(text), *(quote(text, safe=chars) for chars in _KEPT_IN_ADDRESSES)):
        encodings |= {form, re.sub(r"%..", lambda code: code[0].lower(), form)}
    data = text.encode()
    encodings.add(repr(data)[2:-1])
    if SHORTEST_BEGINNING <= len(data) <= _LONGEST_ENCODED:
        encodings |= {data.hex(), data.hex().upper()}
        for before in range(3):
            encodings |= _in_base64(data, before)
    return encodings


def _in_json(secret: str) -> Iterator[str]:
    """Yield a secret as different JSON encoders escape it, and as JSON within JSON."""
    plain = json.dumps(secret)[1:-1]
    yield json.dumps(plain)[1:-1]
    for literal in (plain, json.dumps(secret, ensure_ascii=False)[1:-1]):
        for also in _ESCAPED_IN_JSON:
            form = literal.replace('\\"', '"') if '"' in also else literal
            form = re.sub(f"[{also}]", lambda match: f"\\u{ord(match[0]):04x}", form)
            upper = re.sub(r"\\u(....)", lambda code: f"\\u{code[1].upper()}", form)
            yield from (form, upper, form.replace("/", "\\/"))


def _in_base64(data: bytes, before: int) -> set[str]:
    """`data` in base64 at any offset; `before` bytes precede it, modulo 3."""
    whole = base64.b64encode(bytes(before) + data).decode().rstrip("=")
    end = len(whole) - ((before + len(data)) % 3 > 0)  # the last character depends on what follows
    form = whole[(0, 2, 3)[before] : end]
    return (
        {form, form.replace("+", "-").replace("/", "_")}
        if len(form) >= SHORTEST_BEGINNING
        else set()
    )


def _span(text: str, hit: int, form: str, at: int, done: int) -> tuple[int, int] | None:
    """The span of `text` that equals a part of `form` around a hit; None if it reveals nothing.

    From `hit` on, `text` has the same eight characters as `form` from `at` on.
    """
    left, start = hit, at
    while left > done and start > 0 and text[left - 1] == form[start - 1]:
        left, start = left - 1, start - 1
    right, end = hit + SHORTEST_BEGINNING, at + SHORTEST_BEGINNING
    while right < len(text) and end < len(form) and text[right] == form[end]:
        right, end = right + 1, end + 1
    if start == 0 and end == len(form):
        return left, right
    is_at_an_end = start == 0 or end == len(form)
    if right - left < (SHORTEST_BEGINNING if is_at_an_end else _SHORTEST_MIDDLE):
        return None
    in_text = text[max(left - 1, 0) : left], text[right : right + 1]
    in_form = form[max(start - 1, 0) : start], form[end : end + 1]
    piece = text[left:right]
    is_words = _WORDS.fullmatch(piece) and all(
        _ends_word(piece, *sides) for sides in (in_text, in_form)
    )
    return None if is_words or not any(map(str.isalnum, piece)) else (left, right)


def _ends_word(piece: str, before: str, after: str) -> bool:
    """Return whether a piece begins and ends where words do, with these characters around it."""
    return not (
        (before.isalnum() and piece[0].isalnum())
        or (after.isdigit() and piece[-1].isalnum())
        or (after.islower() and piece[-1].isalpha())
        or (after.isupper() and piece[-1].isupper())
    )
