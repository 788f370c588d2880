"""A part of a JSON value, chosen by a JMESPath expression in bounded work.

The library has no bounds of its own: `[@,@][]|[@,@][]|…` doubles a list with every ten characters.
So each step counts what it makes, and an expression that makes too much is an error.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.text import one_line, quoted
from discovery_engine.errors import DiscoveryError
from discovery_engine.tools.limits import shortened

if TYPE_CHECKING:
    from jmespath.parser import ParsedResult
    from jmespath.visitor import TreeInterpreter

LONGEST = 1000
"""Characters of an expression."""
_MAX_QUERY_WORK = 2_000_000  # steps, items and characters; about a second
_MAX_QUERY_EXCERPT = 60  # characters around a mistake


class QueryError(DiscoveryError):
    """An expression that is not JMESPath, or that cannot be evaluated."""

    code = "INVALID_QUERY"


class PathQuery:
    """A compiled expression."""

    def __init__(self, expression: str) -> None:
        """Raises `QueryError`, with the position of the mistake."""
        if len(expression) > LONGEST:
            raise QueryError(f"the expression has more than {LONGEST:,} characters")
        self.expression = expression
        self._parsed = _parsed(_without_root(expression))

    def search(self, value: JSONValue) -> JSONValue:
        """The part of `value` that is chosen; None if there is none.

        Raises:
            QueryError: If a function gets what it cannot take, or the work exceeds its bound.
        """
        from jmespath.exceptions import JMESPathError  # noqa: PLC0415 - loaded on first use

        try:
            return _interpreter().visit(self._parsed.parsed, value)
        except _TooMuchError:
            message = (
                f"{quoted(shortened(self.expression, _MAX_QUERY_EXCERPT))} takes too much work"
            )
            raise QueryError(message, hint="select less, in fewer steps") from None
        except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            message = (
                f"{quoted(shortened(self.expression, _MAX_QUERY_EXCERPT))} "
                f"cannot be evaluated: {error}"
            )
            raise QueryError(shortened(message, LONGEST)) from error


class _TooMuchError(Exception):
    """An expression that makes too much."""


def _without_root(expression: str) -> str:
    """A JSONPath begins with `$`, the whole; JMESPath has no sign for it."""
    if expression.startswith("$"):
        return expression[1:].removeprefix(".") or "@"
    return expression


@lru_cache(maxsize=256)
def _parsed(expression: str) -> ParsedResult:
    from jmespath.exceptions import JMESPathError  # noqa: PLC0415 - loaded on first use
    from jmespath.parser import Parser  # noqa: PLC0415 - loaded on first use

    try:
        return Parser().parse(expression)
    except (JMESPathError, RecursionError, ValueError) as error:
        at = getattr(error, "lex_position", None)
        if at is None:
            at = getattr(error, "lexer_position", None)
        place = "" if at is None else f" at character {at}"
        excerpt = expression if at is None else expression[at : at + _MAX_QUERY_EXCERPT]
        message = (
            f"the expression is not JMESPath{place}: {quoted(excerpt) if excerpt else 'it ends'}"
        )
        hint = "for instance `items[0].id`, `items[*].name`, `items[10:20]`"
        raise QueryError(message, hint=hint) from error


def _interpreter() -> TreeInterpreter:
    return _interpreter_class()()


@lru_cache(maxsize=1)
def _interpreter_class() -> type[TreeInterpreter]:
    from jmespath.visitor import TreeInterpreter  # noqa: PLC0415 - loaded on first use

    class Bounded(TreeInterpreter):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self._left = _MAX_QUERY_WORK

        def visit(self, node: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            result = super().visit(node, *args, **kwargs)
            self._left -= 1
            # A field or an index hands on what exists; all other steps may make something.
            if isinstance(result, list | str) and node["type"] not in _HANDED_ON:
                self._left -= len(result)
            if self._left < 0:
                raise _TooMuchError
            return result

    return Bounded


_HANDED_ON = frozenset({"field", "index", "index_expression", "subexpression", "current", "pipe"})


# {items: [50,000 of {id: number, name: string}], next: string}

_DEPTH = 3
_MEMBERS = 12
_NAME = 40  # characters
_MAX_SHAPE_LENGTH = 600  # characters
_KINDS = {str: "string", bool: "boolean", type(None): "null"}
_PLAIN = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")


def shape(value: JSONValue) -> str:
    """Return the types of a value and of its members, to a depth of three."""
    return shortened(one_line(_shape(value, _DEPTH)), _MAX_SHAPE_LENGTH)


def _shape(value: JSONValue, depth: int) -> str:
    match value:
        case dict():
            return f"{{{_members(value, depth)}}}"
        case list():
            item = _shape(value[0], depth - 1) if depth and value else "…"
            return f"[{len(value):,} of {item}]" if value else "[]"
    return _KINDS.get(type(value), "number")


def _members(value: JSONObject, depth: int) -> str:
    if not depth:
        return f"{len(value):,} members"
    names = list(value)[:_MEMBERS]
    more = [f"{len(value) - len(names):,} more"] if len(value) > len(names) else []
    return ", ".join([*(f"{_name(n)}: {_shape(value[n], depth - 1)}" for n in names), *more])


def _name(name: str) -> str:
    short = shortened(name, _NAME)
    return short if _PLAIN.fullmatch(short) else json.dumps(short, ensure_ascii=False)
