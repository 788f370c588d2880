r"""URIs: their spellings, the rules that deny them, and templates (RFC 6570).

A client can write a URI that a template allows in many ways: percent-encoded, also twice, with
`/./` and `/../`, with `\` or in capitals. A rule, and what is hidden, holds for all of them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, unquote

from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.tools.offering import Offering, OfferingKind

if TYPE_CHECKING:
    from discovery_engine.rules.ruleset import OfferingRules

_ROUNDS = 3  # a server decodes once, and a careless one twice


def spellings(uri: str) -> tuple[str, ...]:
    """The URI as it is, decoded, and without steps such as `..`; each once."""
    decoded = uri
    for _ in range(_ROUNDS):
        decoded = unquote(decoded)
    return tuple(dict.fromkeys((uri, decoded, *_without_steps(decoded.replace("\\", "/")))))


def keys(uri: str) -> frozenset[str]:
    """Return the keys of a URI; two URIs that may be the same have at least one in common."""
    folded = (unicodedata.normalize("NFKC", spelling).casefold() for spelling in spellings(uri))
    return frozenset(_key(unicodedata.normalize("NFKC", spelling)) for spelling in folded)


def _key(uri: str) -> str:
    scheme, _, rest = uri.partition(":")
    return f"{scheme}:{_resolved(rest).strip('/')}"


def without_query(uri: str) -> str:
    """The URI up to its `?` or `#`, which a server may ignore."""
    return uri.partition("#")[0].partition("?")[0]


def _without_steps(uri: str) -> Iterator[str]:
    scheme, colon, rest = uri.partition(":")
    if not rest.startswith("//"):
        yield f"{scheme}{colon}{_resolved(rest)}"
        return
    # What stands behind `//` may be a host, or the first step of a path to a careless server.
    host, slash, path = rest[2:].partition("/")
    yield f"{scheme}://{host}{slash}{_resolved(path)}"
    yield f"{scheme}://{_resolved(rest[2:])}"


def _resolved(path: str) -> str:
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            steps = steps[:-1]
        elif step not in ("", "."):
            steps.append(step)
    if steps and path.endswith("/"):
        steps.append("")
    return ("/" if path.startswith("/") else "") + "/".join(steps)


_REMEMBERED = 1000  # verdicts


class UriRules:
    """Rules for resources, tried on URIs that are listed nowhere."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._known: dict[tuple[str, Offering, Verdict], Verdict | None] = {}

    def denial(self, uri: str, of: Offering, server: Verdict) -> Verdict | None:
        """The verdict that denies a URI; None if no rule does.

        Args:
            uri: Of a resource.
            of: The template that it was made of, or the resource that it is part of.
            server: The verdict on its server.
        """
        if not self._rules:
            return None
        # Trying the rules takes 170 us, more than all else that the gateway does for a request.
        question = uri, of, server
        if question not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[question] = self._denial(uri, of, server)
        return self._known[question]

    def _denial(self, uri: str, of: Offering, server: Verdict) -> Verdict | None:
        def named(spelling: str) -> Offering:
            return Offering(of.server, OfferingKind.RESOURCE, spelling, of.source)

        for verdict in self._compiled.verdicts(list(map(named, spellings(uri))), server):
            if not verdict.enabled:
                return verdict
        if (path := without_query(uri)) == uri:
            return None
        [verdict] = self._compiled.verdicts([named(path)], server)
        is_denied = not verdict.enabled and verdict.rule is not None
        return verdict if is_denied else None

    @cached_property
    def _compiled(self) -> OfferingRules:
        from discovery_engine.rules.ruleset import OfferingRules  # noqa: PLC0415 - loads `regex`

        return OfferingRules(self._rules, "resource")


# Templates are a server's, so none becomes a regular expression: a URI is matched in time linear in
# its length for each part of the template. As servers have it, `{a}` stands for at least one
# character and for no `/`, and `{a*}` or `{+a}` for any.

_EXPRESSION = lazy_pattern(r"\{([+#./;?&]?)([^{}]*)\}")
_WITH_SLASHES = frozenset("+#?&")  # operators whose values may hold a `/`
_OPTIONAL = frozenset("#./;?&")  # operators that stand in the URI, where their values are given
_MAX_EXPRESSIONS = 64
_REMEMBERED = 1000  # templates

# Operators that write names, and what separates them.
_NAMED_OPERATORS = {";": ";", "?": "&", "&": "&"}
_SEPARATORS = {"/": "/", ".": "."}
_RESERVED = ":/?#[]@!$&'()*+,;=%"

_Ends: TypeAlias = set[int]
"""Positions in a URI."""
_Part: TypeAlias = Callable[[str, _Ends], _Ends]
"""Maps the positions where a part of a template may begin to those where it may end."""


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
    """Return the ends of runs of at least one character that begin at these positions."""
    ends: _Ends = set()
    is_inside = False
    for at, character in enumerate(uri):
        is_inside = is_inside or at in begins
        if character == "/" and not takes_slashes:
            is_inside = False
        if is_inside:
            ends.add(at + 1)
    return ends
