from __future__ import annotations

from msgspec.structs import replace

from discovery_engine.engine.executor import CheckerCache
from discovery_engine.tools.model import AppliedOverride
from tests.factories import make_tool


def test_a_checker_is_compiled_once_for_each_definition() -> None:
    cache = CheckerCache()
    old, new = make_tool(description="Old."), make_tool(description="New.")

    first = cache.get(old)

    assert cache.get(old) is first
    assert cache.get(new) is not first


def test_other_pinned_arguments_need_another_checker() -> None:
    cache, tool = CheckerCache(), make_tool()
    pinned = replace(tool, overridden=AppliedOverride(pinned={"title": 0}))

    assert cache.get(pinned) is not cache.get(tool)


def test_the_checker_least_recently_used_is_dropped() -> None:
    cache = CheckerCache(maxsize=2)
    a, b, c = (make_tool(name=name) for name in "abc")
    kept, dropped = cache.get(a), cache.get(b)
    cache.get(a)

    cache.get(c)

    assert cache.get(a) is kept
    assert cache.get(b) is not dropped
