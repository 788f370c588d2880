"""`help()` of everything that is public: it works, and shows nothing of the environment."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import pydoc
from collections.abc import Iterator
from types import FunctionType

import pytest

import discovery_cli
import discovery_engine
import discovery_server
from tests.engines import python
from tests.rows import rows

pytestmark = pytest.mark.requirement("LIB-5")

PUBLIC = [name for name in discovery_engine.__all__ if not name.startswith("__")]
SERVED = ("discovery_server.app", "discovery_server.http.guard", "discovery_server.http")


def functions() -> Iterator[FunctionType]:
    for package in (discovery_engine, discovery_server, discovery_cli):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("__main__"):
                continue
            try:
                members = vars(importlib.import_module(module.name))
            except ImportError:  # an adapter, which a test reads beside its framework
                continue
            for member in members.values():
                if inspect.isclass(member) and member.__module__ == module.name:
                    found = (getattr(one, "__func__", one) for one in vars(member).values())
                    yield from (one for one in found if isinstance(one, FunctionType))
                elif isinstance(member, FunctionType):
                    yield inspect.unwrap(member)


@rows("name", PUBLIC)
def test_everything_public_has_help_and_words_of_its_own(name: str) -> None:
    shown = getattr(discovery_engine, name)

    assert name in pydoc.render_doc(shown)
    assert vars(shown).get("__doc__") if inspect.isclass(shown) else shown.__doc__


@rows("name", ["discovery_engine", *SERVED])
def test_a_module_has_help(name: str) -> None:
    assert pydoc.render_doc(importlib.import_module(name))


def test_no_default_of_a_function_is_the_environment() -> None:
    leaking = [
        f"{function.__module__}.{function.__qualname__}"
        for function in functions()
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is os.environ
    ]

    assert leaking == []


@pytest.mark.thorough
@pytest.mark.anyio
async def test_help_shows_nothing_of_the_environment() -> None:
    source = f"""
import importlib, pydoc, discovery_engine
public = [getattr(discovery_engine, name) for name in {PUBLIC}]
modules = [importlib.import_module(name) for name in {["discovery_engine", *SERVED]}]
for shown in [*public, *modules]: print(pydoc.plain(pydoc.render_doc(shown)))
"""

    printed = await python(source, CANARY="tr0ub4dor")

    assert "serve_http" in printed
    assert "tr0ub4dor" not in printed
