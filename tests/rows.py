"""Tables of examples that one test goes through, and of which it reports all bad rows at once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., Any]

_OUTCOMES = (pytest.fail.Exception, pytest.skip.Exception)  # no `Exception`s, on purpose


@dataclass(frozen=True)
class _Row:
    values: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    unnamed: Mapping[str, Any] = field(default_factory=dict)

    def __or__(self, other: _Row) -> _Row:
        return _Row(
            {**self.values, **other.values},
            self.labels + other.labels,
            {**self.unnamed, **other.unnamed},
        )


def rows(
    names: str | Sequence[str],
    table: Iterable[Any],
    *,
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> Callable[[Test], Test]:
    """Run a test with each row of a table; the arguments are those of `pytest.mark.parametrize`.

    A case costs more than most rows, again in each process that collects the tests: so rows share
    one. Each row has a `tmp_path` and a `monkeypatch` of its own; they share the other fixtures.
    Rows that are slow, that need more of their own or that have marks are for `parametrize`.
    Decorators stack: the test runs with each combination.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    entries = list(table)
    labels = list(ids) if ids is not None and not callable(ids) else [None] * len(entries)
    label_of = ids if callable(ids) else lambda _: None
    own = [
        _row(columns, entry, label, label_of) for entry, label in zip(entries, labels, strict=True)
    ]
    if not own:
        raise ValueError(f"a table without rows: {names}")

    def decorate(test: Test) -> Test:
        check, inner = getattr(test, "table", (test, [_Row()]))
        return _test_of(check, [below | above for below in inner for above in own])

    return decorate


def _row(
    columns: Sequence[str], entry: Any, label: object, label_of: Callable[[Any], object]
) -> _Row:
    if isinstance(entry, type(pytest.param())):
        if entry.marks:
            raise ValueError(f"a row with marks needs `pytest.mark.parametrize`: {entry}")
        values, label = entry.values, entry.id if label is None else label
    else:
        values = (entry,) if len(columns) == 1 else entry
    row = dict(zip(columns, values, strict=True))
    labels = [label_of(value) for value in values] if label is None else [label]
    named = tuple(str(label) for label in labels if label is not None)
    return _Row(row, named, {} if named else row)


def _test_of(check: Test, table: list[_Row]) -> Test:
    """The test that goes through a table; it takes the fixtures of `check`, and `subtests`."""
    if inspect.iscoroutinefunction(check):

        @functools.wraps(check)
        async def test(*self: Any, subtests: pytest.Subtests, **fixtures: Any) -> None:
            __tracebackhide__ = True
            for number, row in enumerate(table):
                with _reported(subtests, row, number, fixtures) as arguments:
                    await check(*self, **arguments)

    else:

        @functools.wraps(check)
        def test(*self: Any, subtests: pytest.Subtests, **fixtures: Any) -> None:
            __tracebackhide__ = True
            for number, row in enumerate(table):
                with _reported(subtests, row, number, fixtures) as arguments:
                    check(*self, **arguments)

    signature = inspect.signature(check)
    fixtures = [p for name, p in signature.parameters.items() if name not in table[0].values]
    subtests = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
    vars(test).update(
        table=(check, table), __signature__=signature.replace(parameters=[*fixtures, subtests])
    )
    return test


@contextmanager
def _reported(
    subtests: pytest.Subtests, row: _Row, number: int, fixtures: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The arguments of a row, whose failure is reported and does not end the test."""
    __tracebackhide__ = True
    arguments = {**fixtures, **row.values}
    if "tmp_path" in fixtures:
        folder: Path = fixtures["tmp_path"] / f"row-{number}"
        folder.mkdir()
        arguments["tmp_path"] = folder
    try:
        with pytest.MonkeyPatch.context() as monkeypatch:
            if "monkeypatch" in fixtures:
                arguments["monkeypatch"] = monkeypatch
            yield arguments
    except (Exception, *_OUTCOMES) as error:
        # Only here: a subtest that passes costs milliseconds, for capture and its report.
        with subtests.test(" - ".join(row.labels) or None, **row.unnamed):
            raise
        if "pytest-timeout" in str(error):  # comes once: other rows would have no limit
            raise
