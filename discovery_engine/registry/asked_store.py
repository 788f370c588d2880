"""A store that passes calls on to another one, through what watches whether that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import isfunction
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def passes_on(through: str, *names: str | type) -> Callable[[C], C]:
    """Have a class pass methods on, by their names or as all of a protocol.

    Its method `through` is given a function that calls a store.
    """

    def decorate(cls: C) -> C:
        for name in (each for named in names for each in _methods(named)):
            setattr(cls, name, _passed_on(name, through))
        return cls

    return decorate


def _methods(named: str | type) -> Iterable[str]:
    if isinstance(named, str):
        return [named]
    return [name for name, part in vars(named).items() if isfunction(part) and name[0] != "_"]


def _passed_on(name: str, through: str) -> Callable[..., Any]:
    def pass_on(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self, through)(lambda store: getattr(store, name)(*args, **options))

    pass_on.__name__ = name
    return pass_on
