"""A store that has each call made by another one, through what watches whether that answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


def asks(*protocols: type) -> Callable[[C], C]:
    """Have a class pass each method of the protocols, which it says it has, to its `_asked`.

    That is given a call of a store. Methods that the class itself defines stay.
    """

    def decorate(cls: C) -> C:
        for protocol in protocols:
            for name, method in vars(protocol).items():
                if isfunction(method) and not name.startswith("_") and name not in vars(cls):
                    setattr(cls, name, _passed_on(method))
        return cls

    return decorate


def _passed_on(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def ask(self: Any, *args: Any, **options: Any) -> Any:
        return self._asked(lambda store: getattr(store, method.__name__)(*args, **options))

    return ask
