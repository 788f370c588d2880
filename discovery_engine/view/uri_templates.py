"""URI templates (RFC 6570), filled in, and read backwards: whether a URI may be made of one.

Templates are a server's, so none becomes a regular expression: a URI is matched in time linear in
its length for each part of the template. As servers have it, `{a}` stands for at least one
character and for no `/`, and `{a*}` or `{+a}` for any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import quote

_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_WITH_SLASHES = frozenset("+#?&")  # operators whose values may hold a `/`
_OPTIONAL = frozenset("#./;?&")  # operators that stand in the URI, where their values are given
_MAX_EXPRESSIONS = 64
_REMEMBERED = 1000  # templates

_NAMED_OPERATORS = {
    ";": ";",
    "?": "&",
    "&": "&",
}  # operators that write names, and what separates them
_SEPARATORS = {"/": "/", ".": "."}
_RESERVED = ":/?#[]@!$&'()*+,;=%"

_Ends: TypeAlias = set[int]
"""Positions in a URI."""
_Part: TypeAlias = Callable[[str, _Ends], _Ends]
"""From the positions where a part of a template may begin, those where it may end."""


def matches(template: str, uri: str) -> bool:
    """Return whether `uri` may be an expansion of `template`."""
    prefix, parts = _parsed(template)
    if not uri.startswith(prefix):
        return False
    ends = {len(prefix)}
    for part in parts:
        if not ends:
            return False
        ends = part(uri, ends)
    return len(uri) in ends


def expanded(template: str, values: Mapping[str, object]) -> str | None:
    """A template with its variables filled in; None if one has no value, or none that is text."""
    filled, at = "", 0
    for expression in _EXPRESSION.finditer(template):
        filled += template[at : expression.start()]
        operator, at = expression[1], expression.end()
        parts = []
        for variable in expression[2].split(","):
            name, colon, length = variable.removesuffix("*").partition(":")
            value = values.get(name)
            if not isinstance(value, str):
                return None
            if colon and length.isdecimal():
                value = value[: int(length)]
            safe = _RESERVED if operator in ("+", "#") else ""
            text = quote(value, safe=safe, errors="replace")  # half a surrogate pair has no bytes
            parts.append(f"{name}={text}" if operator in _NAMED_OPERATORS else text)
        separator = _NAMED_OPERATORS.get(operator) or _SEPARATORS.get(operator, ",")
        filled += ("" if operator == "+" else operator) + separator.join(parts)
    return filled + template[at:]


@lru_cache(maxsize=_REMEMBERED)
def _parsed(template: str) -> tuple[str, tuple[_Part, ...]]:
    """The literal beginning, and the parts after it; nothing matches too many expressions."""
    parts: list[_Part] = []
    prefix, at = "", 0
    expressions = list(_EXPRESSION.finditer(template))
    for number, expression in enumerate(expressions):
        literal = template[at : expression.start()]
        if number == 0:
            prefix = literal
        else:
            parts.append(_literal(literal))
        parts.append(_expression(*expression.groups()))
        at = expression.end()
    if not expressions:
        return template, ()
    if len(expressions) > _MAX_EXPRESSIONS:
        return template, (lambda _uri, _ends: set(),)
    return prefix, (*parts, _literal(template[at:]))


def _literal(text: str) -> _Part:
    def match(uri: str, begins: _Ends) -> _Ends:
        return {at + len(text) for at in begins if uri.startswith(text, at)}

    return match


def _expression(operator: str, variables: str) -> _Part:
    takes_slashes = operator in _WITH_SLASHES or "*" in variables
    if operator == "/":
        takes_slashes = takes_slashes or "," in variables

    def match(uri: str, begins: _Ends) -> _Ends:
        if operator not in _OPTIONAL:
            return _runs(uri, begins, takes_slashes=takes_slashes)
        behind = {at + 1 for at in begins if uri.startswith(operator, at)}
        return begins | _runs(uri, behind, takes_slashes=takes_slashes)

    return match


def _runs(uri: str, begins: _Ends, *, takes_slashes: bool) -> _Ends:
    """Where runs of at least one character that begin at these positions may end."""
    ends: _Ends = set()
    is_inside = False
    for at, character in enumerate(uri):
        is_inside = is_inside or at in begins
        if character == "/" and not takes_slashes:
            is_inside = False
        if is_inside:
            ends.add(at + 1)
    return ends
