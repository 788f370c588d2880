"""Work in steps, driven to its end, and how much one step does."""

from __future__ import annotations

from collections.abc import Generator
from types import ModuleType
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def finished(steps: Generator[None, None, T]) -> T:
    """What the steps return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def texts_of_steps(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType | type, name: str
) -> list[str]:
    """The texts with which a function is called from now on."""
    texts: list[str] = []
    real = getattr(module, name)

    def counted(text: str, *more: Any, **given: Any) -> Any:
        texts.append(text)
        return real(text, *more, **given)

    monkeypatch.setattr(module, name, counted)
    return texts
